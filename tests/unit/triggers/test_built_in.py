"""What all built-in triggers have in common: how they are found, written down and wired."""

import json
from typing import Any

import pytest

from lamplighter import Asset, AssetWatcher, triggers
from lamplighter.assets.asset import decode_condition, encode_condition
from lamplighter.errors import DefinitionError
from lamplighter.loading import author_code_as_data
from lamplighter.triggers import (
    EventBridgeTrigger,
    S3ObjectTrigger,
    S3PrefixTrigger,
    SqsTrigger,
)
from lamplighter.triggers.base import BaseEventTrigger, BaseTrigger
from lamplighter.triggers.feeds import SOURCES, StreamInfo
from tests.unit.triggers.made_up import play

EVENTS = {"source": ["shop.orders"], "detail": {"size": [{"numeric": [">", 0]}]}}
ON_SOURCES = repr(("queue", SOURCES))

# Each trigger, the arguments that are written, and what is written about its source.
BUILT_IN: list[tuple[BaseEventTrigger, dict[str, Any], dict[str, Any]]] = [
    (
        SqsTrigger("https://sqs.example.com/1/orders", match={"kind": ["order"]}),
        {"queue": "https://sqs.example.com/1/orders", "match": {"kind": ["order"]}},
        {"feed": {"queue": "orders"}, "stream": "('queue', 'orders')"},
    ),
    (
        S3ObjectTrigger("landing", "in/", suffix=".csv"),
        {"bucket": "landing", "prefix": "in/", "suffix": ".csv"},
        {"feed": {"queue": SOURCES, "bucket": "landing"}, "stream": ON_SOURCES},
    ),
    (
        S3PrefixTrigger("landing", suffix=".csv"),
        {"bucket": "landing", "prefix": "", "suffix": ".csv"},
        {"feed": {"bucket": "landing"}, "stream": "('s3-prefix', 'landing', '')"},
    ),
    (
        EventBridgeTrigger(EVENTS),
        {"pattern": EVENTS},
        {"feed": {"queue": SOURCES, "event_sources": ["shop.orders"]}, "stream": ON_SOURCES},
    ),
]
each = pytest.mark.parametrize(
    ("trigger", "arguments", "facts"), BUILT_IN, ids=lambda value: type(value).__name__
)


def test_table_has_every_built_in() -> None:
    """Whoever adds a trigger adds it here."""
    assert {type(trigger).__name__ for trigger, _, _ in BUILT_IN} == set(triggers.__all__)


@each
def test_trigger_in_asset_survives_being_written(
    trigger: BaseEventTrigger, arguments: dict[str, Any], facts: dict[str, Any]
) -> None:
    """An asset is read back with the same watcher, also where author code is only data."""
    asset = Asset("orders", watchers=[AssetWatcher("watcher", trigger)])
    written = json.loads(json.dumps(encode_condition(asset)))
    with author_code_as_data():
        read = decode_condition(written)
    assert isinstance(read, Asset)
    (watcher,) = read.watchers
    assert type(watcher.trigger) is type(trigger)
    assert watcher.trigger == trigger
    assert StreamInfo.of(watcher.trigger) == StreamInfo.of(trigger)
    assert encode_condition(read) == written


@each
def test_trigger_is_written_with_what_it_reads(
    trigger: BaseEventTrigger, arguments: dict[str, Any], facts: dict[str, Any]
) -> None:
    """The document has the class, its arguments, what must be wired, and who shares."""
    asset = Asset("orders", watchers=[AssetWatcher("watcher", trigger)])
    (written,) = json.loads(json.dumps(encode_condition(asset)))["asset"]["watchers"]
    kind = f"{type(trigger).__module__}.{type(trigger).__name__}"
    assert written["trigger"] == {"type": kind, "data": arguments, **facts}
    assert kind.startswith("lamplighter.triggers.")


@each
def test_trigger_without_deployment_says_how_to_try_it(
    trigger: BaseEventTrigger, arguments: dict[str, Any], facts: dict[str, Any]
) -> None:
    """A trigger reaches no service by itself, and cannot be run alone."""
    with pytest.raises(DefinitionError, match="lamplighter watchers test"):
        type(trigger).create_shared_stream_producer(arguments)
    with pytest.raises(DefinitionError, match=type(trigger).__name__):
        trigger.run()


class LargeOrders(SqsTrigger):
    """An author's version of a built-in trigger."""


def test_trigger_of_author_is_written_under_its_own_name() -> None:
    """A subclass that changes only what it makes of messages is not taken for the built-in."""
    path, _ = LargeOrders("orders").serialize()
    assert path == f"{__name__}.LargeOrders"
    assert LargeOrders("orders") != SqsTrigger("orders")
    assert LargeOrders("orders").shared_stream_key() == SqsTrigger("orders").shared_stream_key()


class StateTrigger(BaseTrigger):
    """A trigger that reports a state."""


def test_watcher_of_built_in_takes_event_triggers_only() -> None:
    """Every built-in may watch an asset; a trigger that reports a state may not."""
    for trigger, _, _ in BUILT_IN:
        assert AssetWatcher("watcher", trigger).trigger is trigger
    with pytest.raises(DefinitionError, match="must be a BaseEventTrigger"):
        AssetWatcher("watcher", StateTrigger())  # type: ignore[arg-type]  # that is the point


def test_triggers_on_one_queue_of_two_kinds_share_it() -> None:
    """What S3 and what EventBridge tell is read together, though the classes differ."""
    played = play(S3ObjectTrigger("landing"), EventBridgeTrigger(EVENTS))
    assert played.opened == ["stream"]


def test_name_that_is_no_trigger_is_missing_as_usual() -> None:
    """A wrong name is told like that of any module."""
    with pytest.raises(AttributeError, match=r"'lamplighter\.triggers' has no attribute 'KafkaT"):
        triggers.KafkaTrigger  # noqa: B018 - that is the point
