"""Asset events: whom an event wakes, which events a run takes, and each of them once."""

import json
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, AssetAlias, AssetAll, AssetAny, aws
from lamplighter.assets import AssetCondition
from lamplighter.events import fan_out as handing_on
from lamplighter.scheduler import claim as claiming
from lamplighter.scheduler.claim import claim_all
from lamplighter.store.models import AssetEvents, Dags
from lamplighter_local import handlers
from lamplighter_local.deliveries import _record
from lamplighter_local.stack import LocalStack
from tests.scenarios.acts import once, register, send, taken
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound

A, B, C = Asset("a"), Asset("b"), Asset("c")
ORDERS = Asset("orders", uri="s3://lake/orders")


# Whom an event wakes.


@pytest.mark.parametrize(
    ("waits_for", "stream"),
    [
        pytest.param(ORDERS, "orders", id="asset"),
        pytest.param(Asset.ref(name="orders"), "orders", id="name"),
        pytest.param(Asset.ref(uri="s3://lake/orders"), "uri:", id="uri"),
        pytest.param(AssetAlias("fresh"), "alias:fresh", id="alias"),
    ],
)
def test_event_wakes_its_consumer_however_that_names_it(
    stack: LocalStack, waits_for: AssetCondition, stream: str
) -> None:
    """An asset, its name, its URI and an alias all lead to it; events of others do not."""
    register(stack, DAG("producer", schedule=[ORDERS, A]), bundle="producers")
    register(stack, DAG("dag", schedule=waits_for))
    send(stack, "a")
    assert taken(stack) == []
    send(stack, "orders", aliases=["fresh"] if stream == "alias:fresh" else [])
    (events,) = taken(stack)
    ((name, numbers),) = events.items()
    assert name.startswith(stream)
    assert numbers == [0, 1]
    require_sound()


def test_event_of_an_asset_without_its_alias_wakes_no_one_there(stack: LocalStack) -> None:
    """Only events that name the alias come through it."""
    register(stack, DAG("asset", schedule=ORDERS), DAG("alias", schedule=AssetAlias("fresh")))
    send(stack, "orders")
    assert (len(taken(stack, "asset")), len(taken(stack, "alias"))) == (1, 0)
    require_sound()


def test_event_wakes_its_consumer_without_a_tick(stack: LocalStack) -> None:
    """The run is there when the message is acknowledged, and its submission is asked for."""
    register(stack, DAG("dag", schedule=ORDERS))
    stack.emit("orders")
    stack.run_until_idle()
    (run,) = stack.runs("dag")
    assert run.created_at == stack.clock.now()
    assert stack.dag("dag").asset_condition_met_at is None
    require_sound()


def test_partition_key_travels_and_decides_nothing(stack: LocalStack) -> None:
    """Events with and without a key wake the same DAG; the key is kept with its event."""
    register(stack, DAG("dag", schedule=ORDERS))
    send(stack, "orders", event_id="keyed", partition_key="2026-01-05")
    send(stack, "orders", event_id="plain")
    assert taken(stack) == [{"orders": [0, 1]}, {"orders": [1, 2]}]
    assert [run.partition_key for run in stack.runs("dag")] == [None, None]
    keys = {event.event_id: event.partition_key for event in AssetEvents.query("orders")}
    assert keys == {"keyed": "2026-01-05", "plain": None}
    require_sound()


# What the run looks like.


def test_run_of_events_has_no_date(stack: LocalStack) -> None:
    """It runs after its newest event was recorded, whatever the producer's clock says."""
    register(stack, DAG("dag", schedule=(A & B)))
    send(stack, "a", timestamp=datetime(2030, 1, 1))
    recorded_at = stack.clock.now().add(seconds=1)
    send(stack, "b", timestamp=datetime(2020, 1, 1))
    (run,) = stack.runs("dag")
    assert (run.run_type, run.triggered_by, run.state) == ("asset_triggered", "asset", "queued")
    assert {run.logical_date, run.data_interval_start, run.data_interval_end} == {None}
    assert run.run_after == recorded_at
    assert run.run_id == f"asset_triggered__{run.run_key}"
    require_sound()


def test_run_that_had_to_wait_is_dated_by_its_newest_event(stack: LocalStack) -> None:
    """An hour in the queue changes when the run is created, and not when it could have run."""
    register(stack, DAG("dag", schedule=A, max_active_runs=1))
    send(stack, "a", "a")
    recorded_at = stack.clock.now()
    stack.advance(hours=1)
    (first,) = stack.runs("dag")
    finish_run("dag", first.run_key, state="success")
    stack.run_until_idle()
    second = stack.runs("dag")[1]
    assert (second.run_after, second.created_at) == (recorded_at, stack.clock.now())
    require_sound()


# Which events it takes.


def test_all_events_so_far_become_one_run(stack: LocalStack) -> None:
    """A, A and B, where A and B are awaited, are three events of one run."""
    register(stack, DAG("dag", schedule=(A & B)))
    send(stack, "a", "a", "b")
    assert taken(stack) == [{"a": [0, 2], "b": [0, 1]}]
    require_sound()


def test_run_takes_events_that_its_condition_did_not_need(stack: LocalStack) -> None:
    """What is pending beside the branch that was fulfilled goes with the run, too."""
    register(stack, DAG("dag", schedule=((A & B) | C)))
    send(stack, "a", "c", "b")
    assert taken(stack) == [{"a": [0, 1], "c": [0, 1]}]
    send(stack, "a")
    assert taken(stack)[1:] == [{"a": [1, 2], "b": [0, 1]}]
    require_sound()


def test_event_is_consumed_once_by_each_consumer(stack: LocalStack) -> None:
    """Two DAGs each take every event, and no run of one repeats what an earlier one took."""
    register(stack, DAG("both", schedule=(A & B)), DAG("either", schedule=(A | B)))
    send(stack, "a", "b", "a", "b")
    assert taken(stack, "both") == [{"a": [0, 1], "b": [0, 1]}, {"a": [1, 2], "b": [1, 2]}]
    assert taken(stack, "either") == [{"a": [0, 1]}, {"b": [0, 1]}, {"a": [1, 2]}, {"b": [1, 2]}]
    require_sound()


def test_new_consumer_takes_no_earlier_events(stack: LocalStack) -> None:
    """Catchup does not reach back before the DAG waited for the asset."""
    register(stack, DAG("elder", schedule=A), bundle="elders")
    send(stack, "a", "a", "a")
    register(stack, DAG("dag", schedule=A, catchup=True, start_date=datetime(2020, 1, 1)))
    stack.advance(minutes=5)
    assert taken(stack) == []
    send(stack, "a")
    assert taken(stack) == [{"a": [3, 4]}]
    require_sound()


@pytest.mark.parametrize("is_also_named_by_uri", [False, True])
def test_event_through_asset_and_alias_is_one_run(
    stack: LocalStack, is_also_named_by_uri: bool
) -> None:
    """A DAG that waits for both gets an event that came both ways once."""
    waits_for = ORDERS | AssetAlias("fresh")
    if is_also_named_by_uri:
        waits_for = waits_for | Asset.ref(uri="s3://lake/orders")
    register(stack, DAG("dag", schedule=waits_for))
    send(stack, "orders", event_id="e1", aliases=["fresh"])
    (events,) = taken(stack)
    assert set(map(tuple, events.values())) == {(0, 1)}
    copies = [event for stream in events for event in AssetEvents.query(stream)]
    origins = {copy.origin or copy.asset_id for copy in copies}
    assert (len(copies), origins) == (2 + is_also_named_by_uri, {"orders"})
    send(stack, "orders", event_id="e2")
    assert len(taken(stack)) == 2
    require_sound()


# Conditions.

DEEP: AssetCondition = A & B
for _ in range(15):
    DEEP = A & (DEEP | C)


@pytest.mark.parametrize(
    ("condition", "assets", "expected"),
    [
        pytest.param(A & (B | C), "bca", [0, 0, 1], id="or-inside-and"),
        pytest.param(A & (B | C), "aab", [0, 0, 1], id="and-needs-both-sides"),
        pytest.param((A & B) | (B & C), "acb", [0, 0, 1], id="shared-member"),
        pytest.param(A & A, "aa", [1, 2], id="same-asset-in-and"),
        pytest.param(A | A, "aa", [1, 2], id="same-asset-in-or"),
        pytest.param((A | B) & (A | C), "bac", [0, 1, 1], id="one-event-for-two-branches"),
        pytest.param([A, B], "ab", [0, 1], id="list-means-all"),
        pytest.param(AssetAll(AssetAny(A), AssetAll(B)), "ba", [0, 1], id="single-members"),
        pytest.param(DEEP, "cabab", [0, 1, 1, 2, 2], id="thirty-levels"),
    ],
)
def test_condition_fires_when_it_is_met(
    stack: LocalStack, condition: Any, assets: str, expected: list[int]
) -> None:
    """The number of runs after each event is what the condition says."""
    register(stack, DAG("all", schedule=[A, B, C]), bundle="others")
    register(stack, DAG("dag", schedule=condition))
    counts = []
    for asset in assets:
        send(stack, asset)
        counts.append(len(taken(stack)))
    assert counts == expected
    require_sound()


# At the same moment.


@pytest.mark.interferes
def test_last_two_events_at_once_make_one_run(stack: LocalStack) -> None:
    """B is recorded and handed on while A is about to be handed on: both see both, one fires."""
    register(stack, DAG("dag", schedule=(A & B)))
    stack.emit("a")
    with once(handing_on, "claim_all", lambda: send(stack, "b")):
        stack.run_until_idle()
    assert taken(stack) == [{"a": [0, 1], "b": [0, 1]}]
    require_sound()


@pytest.mark.parametrize(
    ("meanwhile", "expected"),
    [
        pytest.param([], {"a": [0, 1], "b": [0, 1]}, id="another-claim"),
        pytest.param(["a"], {"a": [0, 2], "b": [0, 1]}, id="another-event"),
        pytest.param(["b", "a"], {"a": [0, 2], "b": [0, 2]}, id="two-more-events"),
    ],
)
@pytest.mark.interferes
def test_claim_that_comes_second_takes_nothing_twice(
    stack: LocalStack, meanwhile: list[str], expected: dict[str, list[int]]
) -> None:
    """Someone else fires between the decision and its commit: one run has it all."""
    register(stack, DAG("dag", schedule=(A & B)))
    send(stack, "a")

    def act() -> None:
        for asset in meanwhile:
            stack.emit(asset)
        stack.run_until_idle()
        claim_all(["dag"])

    stack.emit("b")
    with once(claiming, "transact", act):
        stack.run_until_idle()
    assert taken(stack) == [expected]
    require_sound()


@pytest.mark.interferes
def test_event_during_the_firing_counts_for_the_next_run(stack: LocalStack) -> None:
    """An event that is recorded after the decision is neither in the run nor lost."""
    register(stack, DAG("dag", schedule=A))
    stack.emit("a")

    def record_only() -> None:
        stack.emit("a")
        with patch.object(handing_on, "claim_all", side_effect=RuntimeError("no more time")):
            stack.run_until_idle()

    with once(claiming, "_bulks", record_only):
        stack.run_until_idle()
    assert taken(stack) == [{"a": [0, 1]}]
    stack.advance(minutes=1)
    assert taken(stack) == [{"a": [0, 1]}, {"a": [1, 2]}]
    require_sound()


# The same again.


def test_same_message_three_times_is_one_event(stack: LocalStack) -> None:
    """SQS may deliver a message again at any time, even when its run is over."""
    register(stack, DAG("dag", schedule=A))
    url, sqs = stack.settings.queue_url("events"), aws.client("sqs")
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"asset": "a"}))
    (message,) = sqs.receive_message(QueueUrl=url, AttributeNames=["All"])["Messages"]
    envelope = {"Records": [_record(url, message)]}

    def deliver() -> None:
        assert handlers.call("ingest", envelope) == {"batchItemFailures": []}
        stack.run_until_idle()
        assert taken(stack) == [{"a": [0, 1]}]

    deliver()
    deliver()
    finish_run("dag", stack.runs("dag")[0].run_key, state="success")
    stack.advance(days=2)
    deliver()
    assert [event.event_id for event in AssetEvents.query("a")] == [message["MessageId"]]
    require_sound()


def test_same_event_in_three_messages_is_one_event(stack: LocalStack) -> None:
    """A producer's id decides, also within one batch, in another lane and under the URI."""
    register(stack, DAG("dag", schedule=ORDERS))
    stack.emit("orders", event_id="e1")
    stack.emit("orders", event_id="e1")
    stack.run_until_idle()
    stack.emit("orders", event_id="e1", lane="retries")
    stack.run_until_idle()
    finish_run("dag", stack.runs("dag")[0].run_key, state="success")
    stack.advance(hours=1)
    stack.emit(uri="s3://lake/orders/", event_id="e1")
    stack.run_until_idle()
    assert taken(stack) == [{"orders": [0, 1]}]
    require_sound()


def test_same_id_under_two_assets_is_two_events(stack: LocalStack) -> None:
    """An id is its producer's, and two producers may count alike."""
    register(stack, DAG("dag", schedule=(A & B)))
    send(stack, "a", "b", event_id="1")
    assert taken(stack) == [{"a": [0, 1], "b": [0, 1]}]
    assert Dags.get("dag").asset_condition_met_at is None
    require_sound()
