"""Sending events: what is on the queue, under which id and in which lane."""

import datetime as stdlib
import json
from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import aws, runtime
from lamplighter.errors import RejectedError, SettingsError
from lamplighter.events.emit import emit
from lamplighter.events.message import AssetEvent, event_body, read_events
from lamplighter.settings import Settings
from lamplighter_local.stack import local_stack

NOW = datetime(2026, 1, 1, 12)


@pytest.fixture
def deployment() -> Iterator[Settings]:
    """Yield the settings of a deployment with two queues for events."""
    with local_stack(at=NOW) as stack:
        sqs = aws.client("sqs")
        plain = sqs.create_queue(QueueName="sent")["QueueUrl"]
        fifo = sqs.create_queue(QueueName="sent.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        urls = stack.settings.queue_urls | {"events": plain, "events.fifo": fifo}
        made = replace(stack.settings, queue_urls=urls)
        with runtime.using(settings=made):
            yield made


def waiting(url: str) -> list[dict[str, Any]]:
    """Return all messages that can be received now."""
    messages: list[dict[str, Any]] = []
    while True:
        answer = aws.client("sqs").receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"]
        )
        if not answer.get("Messages"):
            return messages
        messages += answer["Messages"]


def event_in(message: dict[str, Any]) -> AssetEvent:
    """Return the one event of a message."""
    (event,) = read_events(message["Body"], first_id="first")
    return event


def group_and_token(message: dict[str, Any]) -> tuple[str, str]:
    """Return lane and deduplication id as SQS has them."""
    attributes = message["Attributes"]
    return attributes["MessageGroupId"], attributes["MessageDeduplicationId"]


def test_event_on_the_queue_has_the_id_that_was_returned(deployment: Settings) -> None:
    """An event without an id is given one that travels in its body."""
    event_id = emit("orders", extra={"rows": 10})

    (message,) = waiting(deployment.queue_url("events"))
    assert event_in(message) == AssetEvent(event_id, asset="orders", extra={"rows": 10})
    assert len(event_id) == 32


def test_each_event_without_an_id_gets_its_own(deployment: Settings) -> None:
    """Two events are never taken for one."""
    assert emit("orders") != emit("orders")


def test_id_of_the_producer_is_kept(deployment: Settings) -> None:
    """An id that was given is the one that is sent and returned."""
    assert emit(uri="s3://lake/orders", event_id="mine") == "mine"

    (message,) = waiting(deployment.queue_url("events"))
    assert event_in(message) == AssetEvent("mine", uri="s3://lake/orders")


def test_rejected_event_is_not_sent(deployment: Settings) -> None:
    """Whoever sends nonsense learns of it, and the queue does not."""
    with pytest.raises(RejectedError, match="exactly one of asset"):
        emit("orders", uri="s3://lake/orders")
    assert waiting(deployment.queue_url("events")) == []


def test_events_of_a_lane_go_to_the_fifo_queue(deployment: Settings) -> None:
    """They keep their order, with lane and event id where SQS looks for them."""
    ids = [emit("orders", event_id=f"e{number}", lane="shop-7") for number in range(3)]

    messages = waiting(deployment.queue_url("events.fifo"))
    assert [event_in(message).event_id for message in messages] == ids == ["e0", "e1", "e2"]
    assert [group_and_token(message) for message in messages] == [
        ("shop-7", f"orders#{id_}") for id_ in ids
    ]
    assert waiting(deployment.queue_url("events")) == []


def test_event_sent_twice_into_a_lane_arrives_once(deployment: Settings) -> None:
    """SQS drops the repetition, because both have one deduplication id."""
    for _ in range(2):
        emit("orders", event_id="Lieferung 7", lane="shop-7")

    assert len(waiting(deployment.queue_url("events.fifo"))) == 1


def test_two_assets_may_share_an_event_id(deployment: Settings) -> None:
    """An id names an event among those of its asset, so SQS must not take one for the other."""
    for asset in ("orders", "fx"):
        emit(asset, event_id="2026-01-31", lane="night")
    emit(uri="s3://lake/fx", event_id="2026-01-31", lane="night")

    assert len(waiting(deployment.queue_url("events.fifo"))) == 3


@pytest.mark.parametrize("name", ["Zürich", "two words", "x" * 129])
def test_name_that_sqs_does_not_take_is_hashed(deployment: Settings, name: str) -> None:
    """Lane and event id that break the rules of SQS are replaced there, and kept in the body."""
    assert emit("orders", event_id=name, lane=name) == name

    (message,) = waiting(deployment.queue_url("events.fifo"))
    group, token = group_and_token(message)
    for hashed in (group, token):
        assert len(hashed) == 64
        assert set(hashed) <= set("0123456789abcdef")
    assert group != token
    assert event_in(message).event_id == name


def test_longest_name_that_sqs_takes_is_kept(deployment: Settings) -> None:
    """Every sign that SQS allows, and as many as it allows, are sent as they are."""
    lane = "".join(map(chr, range(0x21, 0x7F))).ljust(128, "x")
    emit("orders", event_id=lane[len("orders#") :], lane=lane)

    (message,) = waiting(deployment.queue_url("events.fifo"))
    assert group_and_token(message) == (lane, "orders#" + lane[len("orders#") :])


def test_empty_lane_is_rejected(deployment: Settings) -> None:
    """A lane without a name is a mistake, and no way to say that there is none."""
    with pytest.raises(RejectedError, match="lane must not be empty"):
        emit("orders", lane="")


@pytest.mark.parametrize(("lane", "variable"), [(None, "QUEUE_URL"), ("a", "FIFO_QUEUE_URL")])
def test_missing_queue_is_named(lane: str | None, variable: str) -> None:
    """A process that does not know the queue is told which variable to set."""
    with (
        runtime.using(settings=Settings()),
        pytest.raises(SettingsError, match=f"set LAMPLIGHTER_EVENTS_{variable}:"),
    ):
        emit("orders", lane=lane)


def test_body_holds_what_was_given_and_nothing_else() -> None:
    """Fields that were left out are not in the body, and values become JSON."""
    zone = stdlib.timezone(stdlib.timedelta(hours=1))
    body = event_body(
        "orders",
        extra=MappingProxyType({"rows": (1, 2)}),
        event_id="mine",
        timestamp=stdlib.datetime(2026, 1, 31, 7, tzinfo=zone),
        partition_key="2026-01-31",
        source={"job": "load"},
        aliases=(name for name in ("a", "b")),
    )
    assert json.loads(body) == {
        "asset": "orders",
        "extra": {"rows": [1, 2]},
        "event_id": "mine",
        "timestamp": "2026-01-31T07:00:00+01:00",
        "partition_key": "2026-01-31",
        "source": {"job": "load"},
        "aliases": ["a", "b"],
    }
    assert json.loads(event_body(uri="s3://lake")) == {"uri": "s3://lake"}


def test_timestamp_may_be_text_or_pendulum() -> None:
    """Whichever way an instant is given, the event has it."""
    for at in (NOW, "2026-01-01T13:00:00+01:00"):
        (event,) = read_events(event_body("orders", timestamp=at), first_id="first")
        assert event.timestamp == NOW


def nested(depth: int) -> dict[str, Any]:
    """Return an object with this many others inside."""
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"in": value}
    return value


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"extra": {"rows": {1, 2}}}, "JSON values only: Object of type set"),
        ({"extra": {"ratio": float("nan")}}, "not finite"),
        ({"extra": nested(30)}, "nested too deeply"),
        ({"extra": nested(50_000)}, "JSON values only"),
        ({"extra": [1]}, "extra must be an object, not a list"),
        ({"timestamp": stdlib.datetime(2026, 1, 31)}, "no offset"),
        ({"aliases": "orders"}, "aliases must be a list of strings, not a string"),
        ({"event_id": ""}, "event_id must not be blank"),
        ({"partition_key": "\ud800"}, "lone surrogate"),
    ],
)
def test_body_that_would_be_rejected_is_not_made(arguments: dict[str, Any], reason: str) -> None:
    """What the other side would refuse is refused here, for the same reason."""
    with pytest.raises(RejectedError, match=reason):
        event_body("orders", **arguments)
