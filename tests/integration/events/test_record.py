"""Recording: each event once, numbers without gaps, and what happens when others are faster."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter import AssetAlias, runtime
from lamplighter.errors import PermanentError, TransientError
from lamplighter.events import record
from lamplighter.events.message import AssetEvent
from lamplighter.events.record import EventGroup, IncomingEvent, Recorder, Resolver
from lamplighter.identifiers import uri_id
from lamplighter.queues import Delivery
from lamplighter.store.models import AssetEvents, Assets
from lamplighter.store.models.assets import ITSELF
from lamplighter.store.transactions import (
    CancellationReason,
    Cause,
    TransactionCanceled,
    Write,
    transact,
)
from lamplighter_local.stack import LocalStack
from tests.integration.events.batches import asset_row, known, recorded

pytestmark = pytest.mark.usefixtures("stack")

Transact = Callable[[Sequence[Write]], None]


def always() -> bool:
    """Return that there is time."""
    return True


def group(*events: AssetEvent) -> EventGroup:
    """Return events that are recorded together."""
    delivery = Delivery("m", "{}", "m", "", 1, None)
    return EventGroup([IncomingEvent(delivery, event, event.asset or "") for event in events])


def events(asset: str, *ids: str, **fields: Any) -> list[AssetEvent]:
    """Return events of one asset."""
    return [AssetEvent(event_id, asset=asset, **fields) for event_id in ids]


def record_groups(*groups: EventGroup, has_time: Callable[[], bool] = always) -> Recorder:
    """Record groups as a new process would, which has read the rows just now."""
    named = [entry.event for one in groups for entry in one.members]
    recorder = Recorder(Resolver.reading(named))
    recorder.record(groups, has_time=has_time)
    return recorder


@contextmanager
def transactions(answer: Callable[[int, Sequence[Write]], None]) -> Iterator[list[int]]:
    """Let `answer` see each transaction, with its number, before it is made; count their writes."""
    sizes: list[int] = []

    def first_ask(writes: Sequence[Write]) -> None:
        sizes.append(len(writes))
        answer(len(sizes), writes)
        transact(writes)

    with patch.object(record, "transact", first_ask):
        yield sizes


def let_pass(_: int, __: Sequence[Write]) -> None:
    """Change nothing."""


def names_in(writes: Sequence[Write]) -> set[str]:
    """Return the assets that a transaction is about."""
    return {write.row.attribute_values["asset_id"] for write in writes}


# What is written.


def test_event_is_stored_as_it_was_described(stack: LocalStack) -> None:
    """All that the producer said is on the row, and when it will be forgotten."""
    known("orders")
    (full,) = events(
        "orders",
        "full",
        extra={"rows": 7},
        timestamp=datetime(2026, 1, 1),
        partition_key="2026-01",
        source={"job": 1},
    )
    record_groups(group(full, *events("orders", "bare")))
    row, bare = AssetEvents.get("orders", "full"), AssetEvents.get("orders", "bare")
    now = stack.clock.now()
    assert (row.seq, row.timestamp, row.recorded_at) == (1, datetime(2026, 1, 1), now)
    assert (row.extra, row.partition_key, row.source) == ({"rows": 7}, "2026-01", {"job": 1})
    assert row.expires_at == now.add(days=90)
    assert (bare.seq, bare.timestamp) == (2, now)
    assert not bare.attribute_values.keys() & {"extra", "origin", "partition_key", "source"}
    asset = asset_row("orders")
    assert (asset.seq, asset.recorded_at, asset.refs_rev) == (2, now, 0)
    assert asset.open_shard is not None


def test_alias_has_numbers_of_its_own() -> None:
    """A copy under an alias says where it came from, and is numbered among the alias's own."""
    known("orders", "fx", AssetAlias("x"))
    record_groups(group(*events("orders", "a", "b")))
    recorder = record_groups(
        group(*events("orders", "c", aliases=("x",))), group(*events("fx", "d", aliases=("x",)))
    )
    assert (recorded("orders"), recorded("alias:x")) == (["a", "b", "c"], ["c", "d"])
    copies = [AssetEvents.get("alias:x", name) for name in ("orders#c", "fx#d")]
    assert [copy.origin for copy in copies] == ["orders", "fx"]
    assert asset_row("alias:x").open_shard is not None
    assert recorder.recorded == 2


# Once.


def test_duplicates_of_a_batch_are_recorded_once() -> None:
    """The same id twice in a group, or in two groups, is one event."""
    known("orders")
    one, two = group(*events("orders", "a", "a", "b")), group(*events("orders", "b", "c"))
    recorder = record_groups(one, two)
    assert recorded("orders") == ["a", "b", "c"]
    assert (recorder.recorded, one.failure, two.failure) == (3, None, None)


def test_same_id_of_two_assets_are_two_events() -> None:
    """An id is unique within its asset, not in the world."""
    known("orders", "fx")
    record_groups(group(*events("orders", "a"), *events("fx", "a")))
    assert (recorded("orders"), recorded("fx")) == (["a"], ["a"])


def test_known_events_are_left_as_they_are() -> None:
    """An event that comes again leaves no gap and changes nothing about the first."""
    known("orders")
    record_groups(group(*events("orders", "a", extra={"try": 1})))
    again = group(*events("orders", "a", "b", extra={"try": 2}))
    with transactions(let_pass) as sizes:
        recorder = record_groups(again)
    assert (recorded("orders"), again.failure, recorder.recorded) == (["a", "b"], None, 1)
    assert AssetEvents.get("orders", "a").extra == {"try": 1}
    assert sizes == [3, 2]


def test_nothing_but_duplicates_writes_nothing() -> None:
    """If all is known the asset's row does not move, and all is well."""
    known("orders")
    record_groups(group(*events("orders", "a")))
    Assets("orders", ITSELF).update([Assets.open_shard.remove()])
    again = group(*events("orders", "a"))
    recorder = record_groups(again)
    assert (recorder.recorded, again.failure, asset_row("orders").seq) == (0, None, 1)
    assert asset_row("orders").open_shard is None


def test_event_that_its_asset_knows_gets_no_more_copies() -> None:
    """It was recorded everywhere at once: an alias that only its repetition names is not for it."""
    known("orders", AssetAlias("x"))
    record_groups(group(*events("orders", "a")))
    again = group(*events("orders", "a", "b", aliases=("x",)))
    recorder = record_groups(again)
    assert (again.failure, recorder.recorded) == (None, 1)
    assert (recorded("orders"), recorded("alias:x")) == (["a", "b"], ["b"])


def test_event_that_only_an_alias_knows_is_recorded_under_its_asset() -> None:
    """An id that another asset's event has used up under the alias is free under this asset."""
    known("orders", "fx", AssetAlias("x"))
    record_groups(group(*events("fx", "a", aliases=("x",))))
    again = group(*events("orders", "a", "b", aliases=("x",)))
    record_groups(again)
    assert (again.failure, recorded("orders")) == (None, ["a", "b"])
    assert AssetEvents.get("alias:x", "fx#a").origin == "fx"


def test_same_id_of_two_assets_are_two_events_of_an_alias() -> None:
    """Producers number by day or run: two assets may use one id, and the alias has both events."""
    known("orders", "fx", AssetAlias("x"))
    record_groups(group(*events("fx", "2026-01-05", aliases=("x",))))
    record_groups(group(*events("orders", "2026-01-05", aliases=("x",))))
    assert asset_row("alias:x").seq == 2


def test_lost_answer_is_found_to_be_committed() -> None:
    """If the answer to a commit is lost, trying again finds the events, and all is well."""
    known("orders")
    this = group(*events("orders", "a", "b"))

    def lose_the_first(call: int, writes: Sequence[Write]) -> None:
        if call == 1:
            transact(writes)
            raise TransientError("no answer")

    with transactions(lose_the_first):
        recorder = record_groups(this)
    assert (recorded("orders"), this.failure) == (["a", "b"], None)
    assert recorder.resolver.rows["orders"].open_shard is not None


# Others who are faster.


def test_event_of_another_gets_its_number_first() -> None:
    """Who commits second takes the next numbers; none is given twice."""
    known("orders")

    def be_faster(call: int, _: Sequence[Write]) -> None:
        if call == 1:
            transactions_of_another(group(*events("orders", "other", "b")))

    this = group(*events("orders", "a", "b", "c"))
    with transactions(be_faster):
        recorder = record_groups(this)
    assert recorded("orders") == ["other", "b", "a", "c"]
    assert (this.failure, recorder.recorded) == (None, 2)
    assert recorder.resolver.rows["orders"].seq == 4


def transactions_of_another(this: EventGroup) -> None:
    """Record a group while someone else is about to."""
    with patch.object(record, "transact", transact):
        record_groups(this)


def test_consumer_that_comes_meanwhile_is_seen() -> None:
    """A reference that was added between reading and committing is on the row that is handed on."""
    known("orders")

    def add_reference(call: int, _: Sequence[Write]) -> None:
        if call == 1:
            Assets("orders", ITSELF).update([Assets.refs_rev.set(5)])

    with transactions(add_reference) as sizes:
        recorder = record_groups(group(*events("orders", "a")))
    assert (recorded("orders"), len(sizes)) == (["a"], 2)
    assert recorder.resolver.rows["orders"].refs_rev == 5


def test_place_that_is_waited_for_meanwhile_gets_its_copy() -> None:
    """If a push lets the URI be waited for, the event that is being recorded counts there too."""
    known("orders")
    uri = uri_id("s3://lake/orders")

    def wait_for_uri(call: int, _: Sequence[Write]) -> None:
        if call == 1:
            Assets("orders", ITSELF).update(
                [Assets.mirrored_uris.set({uri}), Assets.refs_rev.set(1)]
            )

    with transactions(wait_for_uri):
        record_groups(group(*events("orders", "a")))
    assert (recorded("orders"), recorded(uri)) == (["a"], ["a"])
    assert AssetEvents.get(uri, "a").origin == "orders"


def test_asset_that_is_removed_meanwhile_fails_its_unit_only() -> None:
    """The group comes again, and is rejected then; the others are recorded."""
    known("orders", "fx")

    def remove(call: int, _: Sequence[Write]) -> None:
        if call == 1:
            asset_row("orders").delete()

    gone, there = group(*events("orders", "a")), group(*events("fx", "b"))
    with transactions(remove):
        record_groups(gone, there)
    assert isinstance(gone.failure, TransientError)
    assert (there.failure, recorded("orders"), recorded("fx")) == (None, [], ["b"])


def test_busy_rows_are_given_up_in_the_end() -> None:
    """A row that stays busy costs a few tries, and then the group comes again."""
    known("orders")

    def be_busy(_: int, writes: Sequence[Write]) -> None:
        raise TransactionCanceled([CancellationReason(Cause.BUSY)] * len(writes))

    this = group(*events("orders", "a"))
    with transactions(be_busy) as sizes:
        record_groups(this)
    assert isinstance(this.failure, TransientError)
    assert "busy" in str(this.failure)
    assert (len(sizes), recorded("orders")) == (12, [])


def test_row_that_moves_each_time_is_given_up_in_the_end() -> None:
    """Someone who is always faster does not keep the group trying for ever."""
    known("orders")

    def move(call: int, _: Sequence[Write]) -> None:
        Assets("orders", ITSELF).update([Assets.refs_rev.set(100 + call)])

    this = group(*events("orders", "a"))
    with transactions(move) as sizes:
        record_groups(this)
    assert (str(this.failure), len(sizes)) == (
        "assets stayed busy while their events were to be recorded",
        12,
    )


# Together and alone.


def test_units_of_one_asset_share_a_transaction() -> None:
    """Two groups of an asset in one transaction change its row once, with numbers in order."""
    known("orders")
    with transactions(let_pass) as sizes:
        record_groups(group(*events("orders", "a", "b")), group(*events("orders", "c")))
    assert (recorded("orders"), sizes) == (["a", "b", "c"], [4])


def test_transaction_keeps_to_its_size(stack: LocalStack) -> None:
    """No transaction has more actions than the setting allows."""
    known(*(f"asset{at}" for at in range(12)))
    groups = [group(*events(f"asset{at}", "a", "b", "c")) for at in range(12)]
    with (
        runtime.using(settings=replace(stack.settings, transaction_actions=10)),
        transactions(let_pass) as sizes,
    ):
        record_groups(*groups)
    assert sizes == [8] * 6


@pytest.mark.parametrize("error", [PermanentError("refused"), TransientError("busy")])
def test_unit_at_fault_fails_alone(error: Exception) -> None:
    """When a transaction of several groups fails each is tried alone, and one says why not."""
    known("orders", "bad", "fx")

    def refuse(_: int, writes: Sequence[Write]) -> None:
        if "bad" in names_in(writes):
            raise error

    groups = [group(*events(name, "a")) for name in ("orders", "bad", "fx")]
    with transactions(refuse) as sizes:
        recorder = record_groups(*groups)
    assert [one.failure for one in groups] == [None, error, None]
    assert (sizes, recorder.recorded) == ([6, 2, 2, 2], 2)
    assert (recorded("orders"), recorded("bad"), recorded("fx")) == (["a"], [], ["a"])


def test_unit_that_fails_alone_leaves_the_number_to_the_next() -> None:
    """Of two groups of one asset the first fails, and the second has no gap before it."""
    known("orders")

    def refuse(_: int, writes: Sequence[Write]) -> None:
        if any(write.row.attribute_values.get("event_id") == "a" for write in writes):
            raise PermanentError("refused")

    one, two = group(*events("orders", "a", "b")), group(*events("orders", "b", "c"))
    with transactions(refuse):
        record_groups(one, two)
    assert (one.failure is None, two.failure) == (False, None)
    assert recorded("orders") == ["b", "c"]


def test_units_without_time_are_not_begun() -> None:
    """When time is up nothing more is written, and each group says so."""
    known("orders")
    answers = iter([True])
    groups = [group(*events("orders", *(f"{at}-{n}" for n in range(60)))) for at in range(3)]
    with transactions(let_pass) as sizes:
        record_groups(*groups, has_time=lambda: next(answers, False))
    late = "no time was left to record them"
    assert [str(one.failure) for one in groups] == ["None", late, late]
    assert (sizes, len(recorded("orders"))) == ([61], 60)
