"""Batches of an unusual kind: what is large, mixed or comes twice hurts only itself."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset, AssetAlias, runtime
from lamplighter.errors import PermanentError, TransientError
from lamplighter.events import ingest as module
from lamplighter.events import record
from lamplighter.identifiers import uri_id
from lamplighter.store.models import AssetEvents
from lamplighter.store.transactions import Put, Write, transact
from lamplighter_local.stack import LocalStack
from tests.integration.events.batches import (
    NO_JSON,
    asset_row,
    body,
    facts,
    ingest,
    known,
    letters,
    lines,
    message,
    recorded,
    s3_records,
)
from tests.tools.definitions import register_dags

pytestmark = pytest.mark.usefixtures("stack")


def objects(count: int) -> str:
    """Return a notification about so many objects."""
    return s3_records(*(f"orders/{at}" for at in range(count)))


@contextmanager
def seen_transactions(refused: Sequence[str] = ()) -> Iterator[list[int]]:
    """Count the actions of each transaction; refuse those that put one of these events."""
    sizes: list[int] = []

    def look(writes: Sequence[Write]) -> None:
        sizes.append(len(writes))
        ids = {write.row.attribute_values["event_id"] for write in writes if isinstance(write, Put)}
        if ids & set(refused):
            raise TransientError("busy on purpose")
        transact(writes)

    with patch.object(record, "transact", look):
        yield sizes


# Size.


@pytest.mark.parametrize("lane", [None, "lane"])
def test_message_of_many_objects_is_recorded_whole(lane: str | None) -> None:
    """A message may hold more events than a transaction; they are recorded in their order."""
    known("orders")
    with seen_transactions() as sizes:
        assert ingest([message("m", objects(230), lane=lane)]) == []
    keys = [row.extra["key"] for row in _by_number("orders")]
    assert keys == [f"orders/{at}" for at in range(230)]
    assert max(sizes) <= 100


def _by_number(asset: str) -> list[AssetEvents]:
    rows = AssetEvents.query(asset, consistent_read=True)
    return sorted(rows, key=lambda row: row.seq)


@pytest.mark.parametrize("lane", [None, "lane"])
def test_events_with_many_aliases_fit_into_transactions(lane: str | None) -> None:
    """Ten events under ten aliases each are 110 rows, more than one transaction takes."""
    names = [f"x{at}" for at in range(10)]
    known("orders", *map(AssetAlias, names))
    batch = lines(*(body("orders", f"e{at}", aliases=names) for at in range(10)), lane=lane)
    with seen_transactions() as sizes:
        assert ingest(batch) == []
    wanted = [f"e{at}" for at in range(10)]
    assert recorded("orders") == wanted
    assert all(recorded(f"alias:{name}") == wanted for name in names)
    assert max(sizes) <= 100


@pytest.mark.parametrize("lane", [None, "lane"])
def test_small_transactions_record_the_same(stack: LocalStack, lane: str | None) -> None:
    """Where only ten actions fit into a transaction, it takes more of them."""
    known("orders", AssetAlias("x"))
    batch = lines(*(body("orders", f"e{at}", aliases=["x"]) for at in range(30)), lane=lane)
    with (
        runtime.using(settings=replace(stack.settings, transaction_actions=10)),
        seen_transactions() as sizes,
    ):
        assert ingest(batch) == []
    assert recorded("orders") == recorded("alias:x") == [f"e{at}" for at in range(30)]
    assert max(sizes) <= 10


def test_waited_for_uri_doubles_what_fits() -> None:
    """Events that are recorded in two places fit too, however many come at once."""
    register_dags(DAG("dag", schedule=[Asset.ref(uri="s3://lake/orders")]))
    register_dags(DAG("x", schedule=[Asset("orders", "s3://lake/orders")]), bundle="x")
    batch = [message(f"m{at}", body("orders", f"e{at}")) for at in range(200)]
    with seen_transactions() as sizes:
        assert ingest(batch) == []
    assert len(recorded("orders")) == len(recorded(uri_id("s3://lake/orders"))) == 200
    assert max(sizes) <= 100


# Order.


def test_lane_stops_at_its_first_failure() -> None:
    """What a lane recorded before the failure is acknowledged, what comes after is not begun."""
    known("orders")
    batch = [message(f"m{at:03}", body("orders", f"e{at:03}"), lane="l") for at in range(150)]
    with seen_transactions(refused=["e070"]):
        failed = ingest(batch)
    done = recorded("orders")
    assert [f"m{name[1:]}" for name in done] + failed == [one["messageId"] for one in batch]
    assert 0 < len(done) <= 70
    assert ingest([one for one in batch if one["messageId"] in failed]) == []
    assert recorded("orders") == [f"e{at:03}" for at in range(150)]


def test_message_that_failed_in_part_comes_again() -> None:
    """Of a message with many events some were recorded: it comes again, with all behind it."""
    known("orders")
    batch = [
        message("before", body("orders", "a"), lane="l"),
        message("half", objects(120), lane="l"),
        message("behind", body("orders", "z"), lane="l"),
        message("other", body("orders", "o"), lane="k"),
    ]
    calls = iter([False, True] + [True] * 50)

    def fail_from_the_second(writes: Sequence[Write]) -> None:
        if next(calls) and {w.row.attribute_values.get("event_id") for w in writes} != {"o", None}:
            raise PermanentError("refused on purpose")
        transact(writes)

    with patch.object(record, "transact", fail_from_the_second):
        failed = ingest(batch)
    assert failed == ["behind", "half"]
    assert "z" not in recorded("orders")
    assert ingest([one for one in batch if one["messageId"] in failed]) == []
    done = recorded("orders")
    assert (len(done), done[-1]) == (123, "z")


def test_lanes_of_one_asset_keep_their_orders() -> None:
    """Lanes that mix in a batch are recorded each in its own order."""
    known("orders")
    batch = [
        message(f"{lane}{at:02}", body("orders", f"{lane}{at:02}"), lane=lane)
        for at in range(60)
        for lane in "ab"
    ]
    assert ingest(batch) == []
    done = recorded("orders")
    for lane in "ab":
        assert [name for name in done if name[0] == lane] == [f"{lane}{at:02}" for at in range(60)]


def test_reject_between_failures_of_a_lane_is_kept_each_time() -> None:
    """A reject behind a failure comes again with its lane: a second letter, and no loss."""
    known("orders")
    batch = lines(body("orders", "a"), NO_JSON, body("orders", "c"), lane="l")
    with seen_transactions(refused=["a"]):
        assert ingest(batch) == ["m0", "m1", "m2"]
    assert ingest(batch) == []
    assert recorded("orders") == ["a", "c"]
    assert {facts(letter)["event_id"] for letter in letters()} == {"m1"}


# What comes twice.


def test_message_twice_in_a_batch_is_one_event() -> None:
    """A standard queue may deliver a message twice at once."""
    known("orders")
    twice = [message("m", body("orders")), message("m", body("orders"))]
    assert ingest(twice) == []
    assert recorded("orders") == ["m"]


def test_rejected_message_twice_in_a_batch_is_one_letter() -> None:
    """The same reject is not kept twice because it came twice at once."""
    assert ingest([message("m", body("nobody", "a")), message("m", body("nobody", "a"))]) == []
    assert len(letters()) == 1


def test_message_of_a_dead_process_is_handed_on(stack: LocalStack) -> None:
    """An event that was recorded and told to nobody is told when its message comes again."""
    register_dags(DAG("dag", schedule=[Asset("orders", "s3://lake/orders")]))
    stack.run_until_idle()
    batch = lines(body("orders", "a"))
    with patch.object(module, "fan_out", side_effect=SystemExit), pytest.raises(SystemExit):
        ingest(batch)
    assert (recorded("orders"), stack.runs("dag")) == (["a"], [])
    assert ingest(batch) == []
    assert (recorded("orders"), len(stack.runs("dag"))) == (["a"], 1)
    assert ingest(batch) == []
    assert len(stack.runs("dag")) == 1


def test_error_of_a_kind_nobody_expects_fails_the_batch() -> None:
    """A mistake of ours makes messages come again; it never acknowledges them."""
    known("orders")
    with patch.object(record.Recorder, "record", side_effect=KeyError("mistake")):
        assert ingest(lines(body("orders", "a"), body("orders", "b"))) == ["m0", "m1"]
    assert recorded("orders") == []


# What one message can do to the others.


def test_attribute_that_is_no_id_hurts_nobody() -> None:
    """A producer's attribute may have our name and be too long for a key."""
    known("orders")
    batch = [
        message("m0", body("orders"), said={"event_id": "x" * 2_000}),
        message("m1", body("orders")),
        message("m2", NO_JSON, said={"event_id": "y" * 2_000}),
        message("m3", NO_JSON),
    ]
    assert ingest(batch) == []
    assert recorded("orders") == ["m0", "m1"]
    assert [facts(letter)["event_id"] for letter in letters()] == ["m2", "m3"]


def test_reserved_name_is_rejected_where_assets_register_themselves(stack: LocalStack) -> None:
    """One event whose asset cannot exist does not keep the others from being recorded."""
    with runtime.using(settings=replace(stack.settings, unknown_assets="register")):
        assert ingest(lines(body("a", "1"), '{"uri": "self"}', body("b", "2"))) == []
        assert (recorded("a"), recorded("b"), len(letters())) == (["1"], ["2"], 1)


def test_asset_that_is_being_registered_is_waited_for() -> None:
    """A URI that leads to a row which is not there yet fails its message only, and no reject."""
    known("orders", "fx")
    row = asset_row("orders")
    row.delete()
    batch = lines('{"uri": "s3://lake/orders", "event_id": "a"}', body("fx", "b"))
    assert ingest(batch) == ["m0"]
    assert (recorded("fx"), letters()) == (["b"], [])
    known("orders")
    assert ingest(batch) == []
    assert recorded("orders") == ["a"]
