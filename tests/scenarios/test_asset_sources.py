"""What events are of: names, URIs, aliases, assets nobody knows; and the order within lanes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lamplighter import DAG, Asset, AssetAlias, SparkTask, aws, runtime
from lamplighter.events.dead_letters import dead_letters, replay
from lamplighter.store.models import AssetEvents, Assets
from lamplighter.store.models.assets import ITSELF
from lamplighter.store.rows import connection
from lamplighter_local import handlers
from lamplighter_local.deliveries import _record
from lamplighter_local.stack import LocalStack
from tests.scenarios.acts import consumer, reasons, register, woken
from tests.tools.faults import Faults
from tests.tools.invariants.tables import require_sound

ORDERS = Asset("orders", uri="s3://lake/orders")


def emit(stack: LocalStack, asset: str | None = None, **event: Any) -> None:
    """Send an event a second after the last, and let it be taken."""
    stack.advance(seconds=1)
    stack.emit(asset, **event)
    stack.run_until_idle()


# URIs.


def test_reference_to_a_uri_waits_for_an_asset_to_come(stack: LocalStack) -> None:
    """The asset that has the URI may be pushed later, and under any name."""
    register(stack, DAG("dag", schedule=Asset.ref(uri="s3://lake/orders")), bundle="first")
    emit(stack, uri="s3://lake/orders")
    emit(stack, uri="S3://lake/orders/")
    assert len(stack.runs("dag")) == 2
    register(stack, consumer(Asset("sales", uri="s3://lake/orders")), bundle="second")
    emit(stack, "sales")
    assert (len(stack.runs("dag")), len(stack.runs("sales"))) == (3, 1)
    require_sound()


def test_reference_to_a_uri_follows_it_to_another_asset(stack: LocalStack) -> None:
    """The URI is given to another asset: events of the old one do not count any more."""
    register(stack, DAG("dag", schedule=Asset.ref(uri="s3://lake/orders")), bundle="waits")
    register(stack, consumer(Asset("old", uri="s3://lake/orders")))
    moved = Asset("old", uri="s3://lake/old"), Asset("new", uri="s3://lake/orders")
    register(stack, *map(consumer, moved))
    emit(stack, "old")
    assert stack.runs("dag") == []
    emit(stack, "new")
    assert len(stack.runs("dag")) == 1
    require_sound()


def test_event_of_a_uri_that_was_given_up_is_rejected(stack: LocalStack) -> None:
    """An event that can reach nobody is not swallowed: its producer still writes there."""
    register(stack, consumer(Asset("orders", uri="s3://lake/orders")))
    register(stack, consumer(Asset("orders", uri="s3://lake/v2/orders")))
    emit(stack, uri="s3://lake/orders")
    assert len(reasons(stack)) == 1
    require_sound()


# Aliases.


def test_alias_and_asset_of_one_name_are_two_things(stack: LocalStack) -> None:
    """What waits for the alias is not woken by the asset's own events."""
    register(stack, consumer(ORDERS, "asset"), DAG("alias", schedule=AssetAlias("orders")))
    emit(stack, "orders")
    assert (len(stack.runs("asset")), len(stack.runs("alias"))) == (1, 0)
    emit(stack, "orders", aliases=["orders"])
    assert (len(stack.runs("asset")), len(stack.runs("alias"))) == (2, 1)
    require_sound()


def test_event_through_several_aliases_wakes_each_once(stack: LocalStack) -> None:
    """Every alias has its own numbers; the asset's own consumer gets the event once."""
    aliases = [f"alias-{at}" for at in range(10)]
    dags = [DAG(name, schedule=AssetAlias(name)) for name in aliases]
    register(stack, consumer(Asset("orders")), *dags)
    emit(stack, "orders", aliases=aliases)
    assert all(len(stack.runs(dag_id)) == 1 for dag_id in ("orders", *aliases))
    assert stack.runs("alias-3")[0].events == {"alias:alias-3": [0, 1]}
    require_sound()


def test_many_events_through_many_aliases_are_all_recorded(stack: LocalStack) -> None:
    """A full batch, in which every event has many places, does not have to fit one transaction."""
    aliases = [f"alias-{at}" for at in range(10)]
    register(stack, consumer(Asset("orders")), DAG("all", schedule=[*map(AssetAlias, aliases)]))
    for _ in range(10):
        stack.emit("orders", aliases=aliases)
    stack.run_until_idle()
    assert Assets.get("orders", ITSELF).seq == 10
    assert stack.runs("all")[0].events == {f"alias:{name}": [0, 10] for name in aliases}
    require_sound()


def test_alias_that_no_dag_has_named_is_rejected(stack: LocalStack) -> None:
    """A mistyped alias would reach nobody; the letter says so, and can be sent again."""
    register(stack, consumer(Asset("orders")))
    emit(stack, "orders", aliases=["fersh"])
    assert reasons(stack) == ["aliases: no DAG has named the alias 'fersh'"]
    assert stack.runs("orders") == []
    register(stack, DAG("alias", schedule=AssetAlias("fersh")), bundle="mended")
    (letter,) = dead_letters(limit=10)
    replay(letter)
    stack.run_until_idle()
    assert woken(stack, "orders", "alias") == ["orders", "alias"]
    require_sound()


# Unknown assets.

UNKNOWN = [{"asset": "orders"}, {"uri": "s3://lake/orders"}]


@pytest.mark.parametrize("event", UNKNOWN, ids=["name", "uri"])
def test_unknown_asset_is_rejected(stack: LocalStack, event: dict[str, str]) -> None:
    """The event is kept with its reason, and is not delivered again by itself."""
    emit(stack, **event)
    (reason,) = reasons(stack)
    assert "no DAG has named an asset" in reason
    stack.advance(hours=1)
    assert len(reasons(stack)) == 1
    register(stack, consumer(ORDERS))
    (letter,) = dead_letters(limit=10)
    replay(letter)
    stack.run_until_idle()
    assert len(stack.runs("orders")) == 1
    assert dead_letters(limit=10) == []
    require_sound()


@pytest.fixture
def registering(stack: LocalStack) -> Iterator[LocalStack]:
    """Let the deployment take events of assets that no DAG has named."""
    with runtime.using(settings=replace(stack.settings, unknown_assets="register")):
        yield stack


@pytest.mark.parametrize("event", UNKNOWN, ids=["name", "uri"])
def test_unknown_asset_is_registered_if_so_decided(
    registering: LocalStack, event: dict[str, str]
) -> None:
    """The asset has a row and its event; a DAG that comes later begins with the next one."""
    stack = registering
    emit(stack, **event)
    (row,) = Assets.scan(Assets.seq == 1)
    assert (row.kind, row.name) == ("asset", *event.values())
    assert dead_letters(limit=10) == []
    schedule = Asset.ref(**{{"asset": "name"}.get(key, key): value for key, value in event.items()})
    register(stack, DAG("dag", schedule=schedule))
    assert stack.runs("dag") == []
    emit(stack, **event)
    assert len(stack.runs("dag")) == 1
    require_sound()


def test_asset_that_is_only_produced_is_known(stack: LocalStack) -> None:
    """An outlet names its asset: the event is recorded, though nobody waits for it yet."""
    producer = DAG("producer", schedule=None)
    with producer:
        SparkTask("load", entry_point="jobs/load.py", outlets=[Asset("orders")])
    register(stack, producer)
    emit(stack, "orders")
    row = Assets.get("orders", ITSELF)
    assert row.seq == 1
    assert row.open_shard is None
    assert reasons(stack) == []
    require_sound()


# Lanes.


def in_lane(stack: LocalStack, *events: str) -> None:
    """Send events of `orders` in one lane; `?` has no asset that anyone knows."""
    for name in events:
        stack.emit("nobody" if name == "?" else "orders", event_id=f"{name}!", lane="shop")


def numbered() -> list[str]:
    """Return the recorded events in the order of their numbers."""
    events = sorted(AssetEvents.query("orders"), key=lambda event: event.seq or 0)
    return [event.event_id[0] for event in events]


def test_events_of_a_lane_are_numbered_in_their_order(stack: LocalStack) -> None:
    """However many they are, and though a batch has ten at most."""
    register(stack, consumer(ORDERS))
    in_lane(stack, *"hgfedcbamlkjin")
    stack.run_until_idle()
    assert "".join(numbered()) == "hgfedcbamlkjin"
    require_sound()


def test_rejected_event_does_not_hold_up_its_lane(stack: LocalStack) -> None:
    """It will never be taken, so nobody waits for it."""
    register(stack, consumer(ORDERS))
    in_lane(stack, *"ca?b")
    stack.run_until_idle()
    assert numbered() == ["c", "a", "b"]
    assert len(reasons(stack)) == 1
    require_sound()


def test_failed_event_holds_up_its_lane_and_no_other(stack: LocalStack) -> None:
    """While a lane cannot be recorded, all of it comes again; events beside it go on."""
    register(stack, consumer(ORDERS), consumer(Asset("a")))
    in_lane(stack, *"cab")
    url = stack.settings.queue_url("events.fifo")
    # Taken from the queue by hand: the emulator forgets the order of a lane that comes again.
    messages = aws.client("sqs").receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"]
    )["Messages"]
    batch = {"Records": [_record(url, message) for message in messages]}
    faults = Faults()
    faults.probability("TransactWriteItems", throttle=1)
    with faults.on(connection().client):
        answer = handlers.call("ingest", batch)
    failed = {item["itemIdentifier"] for item in answer["batchItemFailures"]}
    assert failed == {message["MessageId"] for message in messages}
    stack.emit("a", lane="elsewhere")
    stack.run_until_idle()
    assert (woken(stack, "a"), numbered()) == (["a"], [])
    assert handlers.call("ingest", batch) == {"batchItemFailures": []}
    assert numbered() == ["c", "a", "b"]
    require_sound()
