"""Handing on: everyone who waits is looked at, and an asset is closed only when that is done."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset, aws
from lamplighter.errors import PermanentError, TransientError
from lamplighter.events import fan_out as module
from lamplighter.events import ingest as ingest_module
from lamplighter.events import record
from lamplighter.events.fan_out import MAX_AT_ONCE, fan_out, sweep_open
from lamplighter.scheduler import claim
from lamplighter.scheduler.claim import ClaimReport
from lamplighter.store.models import Assets
from lamplighter.store.models.assets import ITSELF
from lamplighter.store.rows import connection
from lamplighter.store.transactions import Write, transact
from lamplighter_local.stack import LocalStack
from tests.integration.events.batches import asset_row, body, ingest, known, letters, lines
from tests.tools.definitions import register_dags
from tests.tools.faults import Faults

pytestmark = pytest.mark.usefixtures("stack")

ORDERS, FX = Asset("orders", "s3://lake/orders"), Asset("fx", "s3://lake/fx")


def always() -> bool:
    """Return that there is time."""
    return True


def register(stack: LocalStack, *dags: DAG) -> None:
    """Register DAGs, and let be delivered what their registration has sent."""
    register_dags(*dags)
    stack.run_until_idle()


def open_assets(*names: str) -> list[Assets]:
    """Record an event of each asset without handing it on; return their rows."""
    with patch("lamplighter.events.ingest.fan_out", return_value=ClaimReport()):
        assert ingest(lines(*(body(name, f"event of {name}") for name in names))) == []
    rows = [asset_row(name) for name in names]
    assert all(row.open_shard is not None for row in rows)
    return rows


def is_open(name: str) -> bool:
    """Return whether an asset may have events that someone has not been told of."""
    return asset_row(name).open_shard is not None


def claimed() -> list[list[str]]:
    """Return the DAGs that the messages on `claims` name."""
    return [json.loads(message.body)["dag_ids"] for message in letters("local-claims")]


def queries(act: Callable[[], object]) -> int:
    """Return how often the consumers of an asset were read."""
    planned = Faults()
    with planned.on(connection().client):
        act()
    return planned.calls.count("Query")


# Who is told.


def test_consumers_get_their_run_and_the_asset_is_closed(stack: LocalStack) -> None:
    """Who waits for the asset fires, who waits for more does not, and nothing is left open."""
    dags = [DAG("one", schedule=[ORDERS]), DAG("both", schedule=(ORDERS & FX)), DAG("none")]
    register(stack, *dags)
    report = fan_out(open_assets("orders"), has_time=always)
    assert (report.claimed_runs, len(stack.runs("one")), stack.runs("both")) == (1, 1, [])
    assert not is_open("orders")
    assert fan_out(open_assets("fx"), has_time=always).claimed_runs == 1
    assert len(stack.runs("both")) == 1


def test_asset_that_nobody_waits_for_is_closed() -> None:
    """Nothing to hand on is handed on at once."""
    known("lonely")
    assert fan_out(open_assets("lonely"), has_time=always).claimed_runs == 0
    assert not is_open("lonely")


def test_handing_on_twice_creates_one_run(stack: LocalStack) -> None:
    """Whoever comes second finds nothing pending."""
    register(stack, DAG("one", schedule=[ORDERS]))
    rows = open_assets("orders")
    again = [asset_row("orders")]
    fan_out(rows, has_time=always)
    assert fan_out(again, has_time=always).claimed_runs == 0
    assert len(stack.runs("one")) == 1


@pytest.mark.slow
def test_many_consumers_are_sent_in_chunks_each_once(stack: LocalStack) -> None:
    """More consumers than are claimed here go to `claims`, every one in exactly one message."""
    names = [f"dag{at:03}" for at in range(120)]
    register(stack, *(DAG(name, schedule=[ORDERS]) for name in names))
    assert fan_out(open_assets("orders"), has_time=always).claimed_runs == 0
    messages = claimed()
    assert [len(ids) for ids in messages] == [50, 50, 20]
    assert Counter(name for ids in messages for name in ids) == dict.fromkeys(names, 1)
    assert is_open("orders")
    stack.run_until_idle()
    assert [len(stack.runs(name)) for name in names] == [1] * 120
    stack.advance(minutes=10)
    assert (is_open("orders"), [len(stack.runs(name)) for name in names]) == (False, [1] * 120)


@pytest.mark.full
def test_number_of_consumers_decides_who_claims(stack: LocalStack) -> None:
    """Up to the limit all are claimed here; a DAG that waits for two such assets is sent once."""
    few = [f"few{at:02}" for at in range(MAX_AT_ONCE)]
    many = [f"many{at:02}" for at in range(MAX_AT_ONCE + 1)]
    other = Asset("other", "s3://lake/other")
    register(
        stack,
        *(DAG(name, schedule=[ORDERS]) for name in few),
        *(DAG(name, schedule=(FX | other)) for name in many),
    )
    report = fan_out(open_assets("orders", "fx", "other"), has_time=always)
    assert report.claimed_runs == MAX_AT_ONCE
    assert sorted(name for ids in claimed() for name in ids) == many
    assert stack.runs("many00") == []


# Whose names are remembered.


def test_consumers_are_read_once_until_they_change(stack: LocalStack) -> None:
    """A busy asset costs one read of its consumers, until one comes or goes."""
    register(stack, DAG("one", schedule=[ORDERS]))

    def another_event() -> None:
        open_and_hand_on(f"{len(stack.runs('one'))}")

    def open_and_hand_on(name: str) -> None:
        assert ingest(lines(body("orders", name))) == []

    assert [queries(another_event), queries(another_event)] == [2, 1]
    register(stack, DAG("one", schedule=[ORDERS]), DAG("two", schedule=[ORDERS]))
    assert [queries(another_event), queries(another_event)] == [2, 1]
    assert len(stack.runs("two")) == 2


def test_consumer_that_left_is_not_told(stack: LocalStack) -> None:
    """A DAG that waits for something else now does not fire, however warm the process is."""
    register(stack, DAG("one", schedule=[ORDERS]), DAG("two", schedule=[ORDERS]))
    assert ingest(lines(body("orders", "a"))) == []
    register(stack, DAG("one", schedule=[FX]), DAG("two", schedule=[ORDERS]))
    assert ingest(lines(body("orders", "b"))) == []
    assert (len(stack.runs("one")), len(stack.runs("two"))) == (1, 2)


# When it is closed.


def test_event_that_comes_meanwhile_keeps_the_asset_open(stack: LocalStack) -> None:
    """Whoever recorded the newer event closes the asset, not whoever handed on the older one."""
    register(stack, DAG("one", schedule=[ORDERS]))
    rows = open_assets("orders")

    def claim_while_one_comes(*given: Any, **named: Any) -> ClaimReport:
        report = claim.claim_all(*given, **named)
        Assets("orders", ITSELF).update([Assets.seq.set(2)])
        return report

    with patch.object(module, "claim_all", claim_while_one_comes):
        fan_out(rows, has_time=always)
    assert is_open("orders")


def test_event_recorded_while_the_asset_is_closed_opens_it_again(stack: LocalStack) -> None:
    """Whoever has read an open asset, which is closed before they record, leaves it open."""
    register(stack, DAG("one", schedule=[ORDERS]))
    with patch.object(module, "claim_all", side_effect=TransientError("busy")):
        assert ingest(lines(body("orders", "a"))) == ["m0"]

    def close_first(recorder: record.Recorder, units: Any, **options: Any) -> None:
        fan_out([asset_row("orders")], has_time=always)
        assert not is_open("orders")
        plain(recorder, units, **options)

    plain = record.Recorder.record
    with (
        patch.object(record.Recorder, "record", close_first),
        patch.object(ingest_module, "fan_out", side_effect=TransientError("it has died")),
    ):
        assert ingest(lines(body("orders", "b"))) == ["m0"]
    assert is_open("orders")
    assert ingest(lines(body("orders", "b"))) == []
    assert (is_open("orders"), len(stack.runs("one"))) == (False, 2)


def test_asset_that_moved_does_not_keep_others_open() -> None:
    """Of several assets only the one with a newer event stays open."""
    known("orders", "fx", "other")
    rows = open_assets("orders", "fx", "other")
    Assets("fx", ITSELF).update([Assets.seq.set(2)])
    fan_out(rows, has_time=always)
    assert [is_open(name) for name in ("orders", "fx", "other")] == [False, True, False]


@pytest.mark.parametrize("kind", ["throttle", "conflict"])
def test_closing_that_fails_is_left_to_the_sweep(stack: LocalStack, kind: Any) -> None:
    """All has been handed on; that the asset stays open is no reason to fail."""
    known("orders")
    rows = open_assets("orders")
    planned = Faults()
    planned.at(1, kind, "TransactWriteItems")
    with planned.on(connection().client):
        fan_out(rows, has_time=always)
    assert (planned.pending, is_open("orders")) == ([], True)
    stack.clock.move(to=stack.clock.now().add(minutes=5))
    sweep_open(has_time=always)
    assert not is_open("orders")


@pytest.mark.slow
@pytest.mark.full
def test_more_assets_than_a_transaction_holds_are_closed() -> None:
    """Assets are closed in as many transactions as they need."""
    names = [f"asset{at}" for at in range(130)]
    known(*names)
    fan_out(open_assets(*names), has_time=always)
    assert not any(is_open(name) for name in names)


def test_failed_claim_leaves_the_asset_open(stack: LocalStack) -> None:
    """If the consumers could not be looked at, the event comes again and finds it open."""
    register(stack, DAG("one", schedule=[ORDERS]))
    with patch.object(module, "claim_all", side_effect=TransientError("busy")):
        assert ingest(lines(body("orders", "a"))) == ["m0"]
    assert (is_open("orders"), stack.runs("one")) == (True, [])
    assert ingest(lines(body("orders", "a"))) == []
    assert (is_open("orders"), len(stack.runs("one"))) == (False, 1)


def test_busy_consumer_is_told_later(stack: LocalStack) -> None:
    """A DAG whose row stays busy gets a message; the asset stays open, should that be lost."""
    register(stack, DAG("one", schedule=[ORDERS]))
    rows = open_assets("orders")

    def busy(_: Sequence[Write]) -> None:
        raise TransientError("busy")

    with patch.object(claim, "transact", busy):
        assert fan_out(rows, has_time=always).contended_dags == {"one"}
    assert (claimed(), is_open("orders")) == ([["one"]], True)
    stack.advance(seconds=40)
    assert len(stack.runs("one")) == 1
    stack.advance(minutes=10)
    assert (is_open("orders"), len(stack.runs("one"))) == (False, 1)


def test_refused_claim_leaves_the_asset_open(stack: LocalStack) -> None:
    """A consumer that could not be claimed is looked at again when the mistake is mended."""
    register(stack, DAG("one", schedule=[ORDERS]), DAG("two", schedule=[ORDERS]))
    rows = open_assets("orders")

    def refuse_one(writes: Sequence[Write]) -> None:
        if any(write.row.attribute_values.get("dag_id") == "one" for write in writes):
            raise PermanentError("no right to do so")
        transact(writes)

    with patch.object(claim, "transact", refuse_one):
        assert fan_out(rows, has_time=always).failed == 1
    stack.advance(minutes=10)
    stack.sweep()
    assert [len(stack.runs(name)) for name in ("one", "two")] == [1, 1]


# The sweep.


def test_sweep_hands_on_only_what_stayed_open(stack: LocalStack) -> None:
    """Assets that were opened a moment ago are someone's work, closed ones are done."""
    register(stack, DAG("one", schedule=[ORDERS]), DAG("two", schedule=[FX]))
    wait = stack.settings.resend_after_seconds
    open_assets("orders")
    stack.clock.move(to=stack.clock.now().add(seconds=wait))
    open_assets("fx")
    assert sweep_open(has_time=always).claimed_runs == 1
    assert (len(stack.runs("one")), stack.runs("two")) == (1, [])
    assert (is_open("orders"), is_open("fx")) == (False, True)
    stack.clock.move(to=stack.clock.now().add(seconds=wait))
    assert sweep_open(has_time=always).claimed_runs == 1
    assert not is_open("fx")


def test_sweep_waits_until_the_time_is_over(stack: LocalStack) -> None:
    """A second before its time an open asset is left alone."""
    known("orders")
    open_assets("orders")
    stack.clock.move(to=stack.clock.now().add(seconds=stack.settings.resend_after_seconds - 1))
    sweep_open(has_time=always)
    assert is_open("orders")


def test_sweep_of_late_index_does_not_hurt(stack: LocalStack) -> None:
    """What the index still lists and someone has closed meanwhile is not handed on."""
    register(stack, DAG("one", schedule=[ORDERS]))
    open_assets("orders")
    Assets("orders", ITSELF).update([Assets.open_shard.remove()])
    with patch.object(module, "open_assets", lambda *_: iter(["orders", "gone"])):
        assert sweep_open(has_time=always).considered == 0


def test_sweep_stops_when_time_is_up(stack: LocalStack) -> None:
    """A sweep that has no time left looks at one shard, and the next one at the others."""
    known(*(f"asset{at}" for at in range(30)))
    open_assets(*(f"asset{at}" for at in range(30)))
    stack.clock.move(to=stack.clock.now().add(minutes=5))
    assert queries(lambda: sweep_open(has_time=lambda: False)) < stack.settings.run_shards
    still = sum(is_open(f"asset{at}") for at in range(30))
    assert 0 < still < 30
    sweep_open(has_time=always)
    assert not any(is_open(f"asset{at}") for at in range(30))


def test_claims_that_cannot_be_sent_keep_the_asset_open(stack: LocalStack) -> None:
    """If the chunks do not reach the queue, nothing says that they did."""
    register(stack, *(DAG(f"dag{at}", schedule=[ORDERS]) for at in range(51)))
    rows = open_assets("orders")
    planned = Faults()
    planned.at(1, "throttle", "SendMessageBatch")
    with planned.on(aws.client("sqs")), pytest.raises(Exception, match="Throttling"):
        fan_out(rows, has_time=always)
    assert is_open("orders")
