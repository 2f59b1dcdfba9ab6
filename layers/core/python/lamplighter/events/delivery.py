"""One message as SQS delivers it, and what becomes of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from pendulum import DateTime, from_timestamp

from lamplighter import clock, settings

# Under this attribute a replayed message carries the id by which it was first known.
FIRST_ID = "event_id"
_MAX_FIRST_ID = 200


@dataclass(frozen=True)
class Delivery:
    """A message, as far as it matters who sent it and how often it has come."""

    message_id: str
    body: str
    first_id: str
    receipt: str
    receives: int
    lane: str | None  # of a FIFO queue: its messages are taken in order
    texts: Mapping[str, str] = field(default_factory=dict)  # of its attributes
    queue_arn: str = ""
    first_received_at: DateTime | None = None
    sequence: str | None = None  # on a FIFO queue: its place in the order of all messages

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Return what a record of Lambda's envelope says."""
        attributes = record.get("attributes") or {}
        said = record.get("messageAttributes") or {}
        texts = {name: text for name, value in said.items() if (text := value.get("stringValue"))}
        is_fifo = record["eventSourceARN"].endswith(".fifo")
        return cls(
            record["messageId"],
            record["body"],
            first_id(texts.get(FIRST_ID), record["messageId"]),
            record["receiptHandle"],
            int(attributes.get("ApproximateReceiveCount", 1)),
            # Without its name it is a lane all the same: order is not given up.
            attributes.get("MessageGroupId", "") if is_fifo else None,
            texts,
            record["eventSourceARN"],
            _instant(attributes.get("ApproximateFirstReceiveTimestamp")),
            attributes.get("SequenceNumber"),
        )

    @property
    def is_fifo(self) -> bool:
        """Whether it came from the queue with lanes."""
        return self.lane is not None

    @property
    def is_too_old(self) -> bool:
        """Whether it first came so long ago that it is given up if it fails once more."""
        if self.first_received_at is None:
            return False
        age = (clock.now() - self.first_received_at).total_seconds()
        return age > settings.current().give_up_hours * 3600


def _instant(milliseconds: str | None) -> DateTime | None:
    return None if milliseconds is None else from_timestamp(int(milliseconds) / 1000)


def first_id(said: str | None, message_id: str) -> str:
    """Return the id by which a message was first known, given what an attribute of it says."""
    # Anyone may send an attribute of that name: what can be no id is not taken for one.
    is_id = said is not None and said.isprintable() and 0 < len(said.strip()) <= _MAX_FIRST_ID
    return said if said is not None and is_id else message_id


def from_first_in_lane(deliveries: Iterable[Delivery], ids: set[str]) -> set[str]:
    """Return the ids, and with each of them those that come after it in its lane."""
    behind: set[str] = set()
    blocked: set[str] = set()
    for delivery in deliveries:
        if delivery.message_id in ids or delivery.lane in blocked:
            behind.add(delivery.message_id)
            if delivery.lane is not None:
                blocked.add(delivery.lane)
    return behind
