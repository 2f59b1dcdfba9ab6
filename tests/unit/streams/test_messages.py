"""Messages of a source: by which id each is known, and what a trigger sees of it."""

import json
from typing import Any

import pytest

from lamplighter.queues import Delivery
from lamplighter.streams.watch import message_of
from lamplighter.triggers.sources import QueueMessage
from tests.integration.events.batches import message, s3_records


def read(body: object, message_id: str = "m1", **more: Any) -> QueueMessage:
    """Return what a trigger sees of a message with this body."""
    text = body if isinstance(body, str) else json.dumps(body)
    return message_of(Delivery.of(message(message_id, text, **more)))


def on_the_bus(detail_type: str, *, source: str = "aws.s3", **envelope: Any) -> dict[str, Any]:
    """Return what EventBridge tells of an object."""
    detail = {
        "bucket": {"name": "lake"},
        "object": {"key": "in/a.csv", "size": 1, "etag": "e", "sequencer": "00"},
    }
    return {
        "id": "bus-1",
        "source": source,
        "detail-type": detail_type,
        "time": "2026-01-05T12:00:00Z",
        "detail": detail,
        **envelope,
    }


def in_sns(body: object, **envelope: Any) -> dict[str, Any]:
    """Return a notification of SNS."""
    text = body if isinstance(body, str) else json.dumps(body)
    return {"Type": "Notification", "MessageId": "sns-1", "Message": text, **envelope}


def test_plain_message_is_known_by_its_own_id() -> None:
    """What says nothing of its origin is new with every message, whatever it holds."""
    first, second = read({"n": 1}, "m1"), read({"n": 1}, "m2")
    assert (first.message_id, second.message_id) == ("m1", "m2")
    assert first.content == second.content == {"n": 1}


def test_replayed_message_is_known_by_its_first_id() -> None:
    """What siblings made of it the first time is not made twice."""
    assert read({"n": 1}, "m2", said={"event_id": "m1"}).message_id == "m1"


def test_object_told_twice_has_one_id() -> None:
    """S3 may tell of a creation in several messages, and through several services."""
    told = [
        read(s3_records("in/a.csv"), "m1"),
        read(s3_records("in/a.csv"), "m2"),
        read(in_sns(s3_records("in/a.csv")), "m3"),
        read(on_the_bus("Object Created"), "m4"),
    ]
    assert len({one.message_id for one in told}) == 1
    assert [one.objects[0].key for one in told] == ["in/a.csv"] * 4


def test_objects_in_one_message_have_an_id_together() -> None:
    """Several objects in one message are one message, other ones another."""
    both = read(s3_records("a", "b"))
    assert [created.key for created in both.objects] == ["a", "b"]
    assert both.message_id == read(s3_records("a", "b"), "m2").message_id
    assert both.message_id != read(s3_records("a", "c")).message_id


@pytest.mark.parametrize(
    "body",
    [
        on_the_bus("Order Placed", source="shop"),
        on_the_bus("Object Deleted"),
        on_the_bus("Object Created", detail={"no": "object"}),
        in_sns(on_the_bus("Order Placed", source="shop")),
    ],
    ids=["of others", "not a creation", "not understood", "in SNS"],
)
def test_event_on_the_bus_is_known_by_its_envelope(body: dict[str, Any]) -> None:
    """EventBridge may deliver an event twice, in messages of different ids."""
    assert read(body, "m1").message_id == read(body, "m2").message_id == "bus-1"


def test_notification_is_known_by_its_topics_id() -> None:
    """SNS may deliver twice; what it wraps is what a trigger sees."""
    told = read(in_sns({"n": 1}))
    assert (told.message_id, told.content) == ("sns-1", {"n": 1})


@pytest.mark.parametrize(
    ("body", "content"),
    [
        ("garbage", None),
        ("", None),
        ("[1, 2]", [1, 2]),
        ("[" * 100_000, None),
        ('{"Type": "SubscriptionConfirmation"}', {"Type": "SubscriptionConfirmation"}),
        ('{"detail-type": 1, "detail": 2, "id": "x"}', {"detail-type": 1, "detail": 2, "id": "x"}),
        ('{"Records": []}', {"Records": []}),
        ('{"Event": "s3:TestEvent"}', {"Event": "s3:TestEvent"}),
    ],
    ids=lambda value: str(value)[:20],
)
def test_message_of_anyone_is_read_without_complaint(body: str, content: object) -> None:
    """A queue may carry anything; it is known by the message, and nothing is refused here."""
    told = read(body)
    assert (told.message_id, told.body, told.content, told.objects) == ("m1", body, content, ())


def test_message_brings_its_attributes_and_group() -> None:
    """A trigger sees who sent a message, as far as attributes say it, and its lane."""
    told = read({}, lane="g", said={"tenant": "blue"})
    assert (told.attributes, told.group) == ({"tenant": "blue"}, "g")
    assert read({}).group is None


def test_message_without_attributes_is_read() -> None:
    """Lambda leaves out what a message does not have."""
    record = message("m1", "{}")
    del record["attributes"], record["messageAttributes"]
    assert message_of(Delivery.of(record)).attributes == {}
