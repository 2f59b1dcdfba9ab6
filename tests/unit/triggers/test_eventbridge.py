"""Triggers on events of EventBridge."""

from typing import Any

import pytest

from lamplighter.errors import DefinitionError
from lamplighter.triggers import EventBridgeTrigger, S3ObjectTrigger
from lamplighter.triggers.feeds import SOURCES, Feed
from tests.unit.triggers.made_up import message, play

EVENT = {
    "version": "0",
    "id": "5b2a",
    "source": "shop.orders",
    "detail-type": "Order Paid",
    "time": "2026-01-05T12:00:00Z",
    "account": "000000000000",
    "region": "eu-central-1",
    "resources": [],
    "detail": {"order": 7},
}


def test_event_that_fits_fires_with_what_is_useful() -> None:
    """The payload is the event, without what is only about its delivery."""
    trigger = EventBridgeTrigger({"source": ["shop.orders"], "detail": {"order": [7]}})
    played = play(trigger, messages=[message(EVENT)])
    assert played.payloads == [[{key: value for key, value in EVENT.items() if key != "version"}]]


def test_event_that_differs_is_skipped() -> None:
    """Other events, and messages that are none, are done with."""
    trigger = EventBridgeTrigger({"source": ["shop.orders"], "detail": {"order": [8]}})
    messages = [message(EVENT), message({**EVENT, "source": "x"}), message(body="text")]
    played = play(trigger, messages=messages)
    assert played.payloads == [[]]
    assert [outcome.is_clean for outcome in played.outcomes] == [True, True, True]


def test_sources_of_pattern_are_what_must_be_wired() -> None:
    """Each source is named once, whatever else the pattern asks for."""
    trigger = EventBridgeTrigger({"source": ["b", "a", "b"], "detail": {"x": [{"exists": True}]}})
    assert trigger.feed == Feed(queue=SOURCES, event_sources=("b", "a"))
    assert trigger.shared_stream_key() == S3ObjectTrigger("landing").shared_stream_key()


@pytest.mark.parametrize(
    "pattern",
    [
        {"detail-type": ["Order Paid"]},
        {"source": [{"prefix": "shop."}]},
        {"source": ["shop.orders", {"prefix": "shop."}]},
        {"source": {"name": ["shop.orders"]}},
        {"$or": [{"source": ["a"]}, {"source": ["b"]}]},
    ],
    ids=repr,
)
def test_pattern_without_plain_source_is_refused(pattern: dict[str, Any]) -> None:
    """What is to be wired must be known in full, and at the top."""
    with pytest.raises(DefinitionError, match="pattern: source: must list who sends the events"):
        EventBridgeTrigger(pattern)


def test_pattern_with_mistake_is_refused_by_its_path() -> None:
    """A wrong pattern is told as such, before anyone asks for its source."""
    with pytest.raises(DefinitionError, match="pattern: detail: must be a list of values"):
        EventBridgeTrigger({"detail": "x"})
