"""Dead letters of all queues: keep failed messages with the reason, list them, replay them.

Owns: the attributes of a dead letter, and when a failing message becomes one. Messages are copied
before they are acknowledged, so a crash in between only leaves two copies. A replay keeps the
original id, so an event that was already recorded is not recorded twice.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any

from botocore.exceptions import ClientError

from lamplighter import aws, clock, queues, settings
from lamplighter.errors import RefusedError
from lamplighter.queues import FIRST_ID, Delivery, first_id
from lamplighter.store.assets import save_rejections
from lamplighter.store.transactions import pack
from lamplighter.topology import QUEUES
from lamplighter.zones import iso

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 200_000
# The dead-letter queue of the watchers.
SOURCES_DLQ = "sources-dlq"
# Instead of a queue ARN: a polled source has no queue to replay to.
NOWHERE = "nowhere"
_MAX_REASON = 500
# SQS limits a call to 1 MiB, attribute names included.
_MAX_CALL_BYTES = 900_000
_MAX_ATTRIBUTES = 10
# How long listed dead letters are hidden from other readers.
_SECONDS_TO_READ = 30


@dataclass(frozen=True)
class FailedMessage:
    """A message, why it failed, and the ids of its events as far as they are known."""

    delivery: Delivery
    reason: str
    event_ids: tuple[str, ...] = ()


def reject_events(failed: Sequence[FailedMessage]) -> list[FailedMessage]:
    """Move events that can never be recorded to the DLQ with their reasons; return failures."""
    return send_to_dlq(failed, "events-dlq", saves_reasons=True)


def send_expired_to_dlq(failed: Sequence[FailedMessage], dead_queue: str) -> set[str]:
    """Move messages that have failed for too long to a DLQ; return the ids of those moved."""
    hours = settings.current().max_message_age_hours
    old = [
        replace(one, reason=f"it failed for more than {hours} hours: {one.reason}")
        for one in failed
        if one.delivery.is_too_old
    ]
    lost = {one.delivery.message_id for one in send_to_dlq(old, dead_queue)}
    return {one.delivery.message_id for one in old} - lost


def send_to_dlq(
    failed: Sequence[FailedMessage], dead_queue: str, *, saves_reasons: bool = False
) -> list[FailedMessage]:
    """Copy messages to a dead-letter queue; return those that could not be copied.

    With `saves_reasons`, the reasons are also stored under the event ids.
    """
    lost: list[FailedMessage] = []
    for some in pack(failed, (lambda _: 1, queues.PER_CALL), (_bytes, _MAX_CALL_BYTES)):
        try:
            if saves_reasons:
                save_rejections(dict(_reasons(some)))
            queues.send(dead_queue, [_copy(one, dead_queue) for one in some])
        except Exception:  # only these messages are delivered again
            about = {"queue": dead_queue, "messages": len(some)}
            log.exception("cannot send messages to the dead-letter queue; will retry", extra=about)
            lost += some
    return lost


def _reasons(failed: Sequence[FailedMessage]) -> Iterator[tuple[str, str]]:
    for one in failed:
        for event_id in one.event_ids or (one.delivery.first_id,):
            yield event_id, _printable(one.reason)


def _bytes(one: FailedMessage) -> int:
    return len(_kept(one.delivery.body))


def _kept(body: str) -> bytes:
    # A lone surrogate cannot be sent; the message may have been rejected because of one.
    return body.encode(errors="replace")[:MAX_BODY_BYTES]


def _copy(one: FailedMessage, dead_queue: str) -> dict[str, Any]:
    delivery = one.delivery
    return dead_letter(
        delivery.body,
        reason=one.reason,
        first_id=delivery.first_id,
        lane=delivery.lane,
        # Watchers also read queues outside the deployment.
        queue_arn=delivery.queue_arn if dead_queue == SOURCES_DLQ else None,
        sequence=delivery.sequence,
        texts=delivery.texts,
    )


def dead_letter(
    body: str,
    *,
    reason: str,
    first_id: str,
    lane: str | None = None,
    queue_arn: str | None = None,
    sequence: str | None = None,
    texts: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return a dead letter with the reason and the queue to replay to.

    Without `queue_arn`, it is replayed to the queue that its DLQ belongs to; from `sources-dlq`, to
    `events`.
    """
    kept = _kept(body).decode(errors="ignore")
    facts = {
        "reason": reason[:_MAX_REASON],
        "rejected_at": iso(clock.now()),
        FIRST_ID: first_id,
        "lane": lane,
        "queue_arn": queue_arn,
        "sequence": sequence,
        "attributes": json.dumps(dict(texts)) if texts else None,
        "is_cut": "true" if kept != body else None,
    }
    attributes = {name: _text(value) for name, value in facts.items() if value}
    return {"MessageBody": kept, "MessageAttributes": attributes}


def _text(value: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": _printable(value)}


def _printable(value: str) -> str:
    # SQS refuses characters that XML does not allow; a reason may quote any input.
    return "".join(char if char.isprintable() else "?" for char in value)


# Listing and replaying.


@dataclass(frozen=True)
class DeadLetter:
    """A message in a dead-letter queue."""

    message_id: str
    body: str
    reason: str
    first_id: str
    lane: str | None
    rejected_at: str | None
    is_cut: bool
    queue_url: str  # of the dead-letter queue
    receipt: str
    # The source queue, if the dead-letter queue does not imply it, or NOWHERE.
    queue_arn: str | None = None
    sequence: int = 0
    is_ours: bool = True  # copied by Lamplighter; otherwise moved here by an AWS service
    texts: Mapping[str, str] = field(default_factory=dict)  # the message's own attributes

    @property
    def queue(self) -> str:
        """The name of the dead-letter queue."""
        return self.queue_url.rpartition("/")[2]


def dead_letters(*, limit: int) -> list[DeadLetter]:
    """Return dead letters of all queues, those of a lane in order.

    They are hidden from other readers until `make_visible`, or for 30 seconds.
    """
    found: dict[str, DeadLetter] = {}
    for url in _dead_queues():
        while len(found) < limit:
            answer = aws.client("sqs").receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=min(queues.PER_CALL, limit - len(found)),
                VisibilityTimeout=_SECONDS_TO_READ,
                AttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            messages = answer.get("Messages", [])
            if not messages:
                break
            before = len(found)
            found |= {message["MessageId"]: _letter(url, message) for message in messages}
            if len(found) == before:
                break  # reading took so long that the first ones are visible again
    return sorted(found.values(), key=lambda letter: letter.sequence)


def _dead_queues() -> list[str]:
    given = settings.current()
    given.queue_url("events-dlq")
    return [url for queue in QUEUES.values() if (url := given.queue_urls.get(queue.dlq))]


def _letter(url: str, message: Mapping[str, Any]) -> DeadLetter:
    attributes = message.get("MessageAttributes", {})
    said = {name: value.get("StringValue", "") for name, value in attributes.items()}
    first = first_id(said.get(FIRST_ID), message["MessageId"])
    is_ours = "rejected_at" in said
    texts = json.loads(said.get("attributes", "{}")) if is_ours else said
    if not is_ours:
        # SQS or EventBridge moved it here, with the sender's attributes.
        moved_from = message.get("Attributes", {}).get("DeadLetterQueueSourceArn")
        is_watched = url == settings.current().queue_urls.get(SOURCES_DLQ)
        said = {"queue_arn": moved_from} if is_watched and moved_from else {}
    # On a standard queue, groups do not define an order.
    own = message.get("Attributes", {}) if url.endswith(".fifo") else {}
    group = own.get("MessageGroupId")
    return DeadLetter(
        message["MessageId"],
        message["Body"],
        said.get("reason", "delivered too often without success"),
        first,
        said.get("lane") or group,
        said.get("rejected_at"),
        "is_cut" in said,
        url,
        message["ReceiptHandle"],
        said.get("queue_arn"),
        int(said.get("sequence") or own.get("SequenceNumber") or 0),
        is_ours,
        {name: text for name, text in texts.items() if text and name != FIRST_ID},
    )


def make_visible(letters: Sequence[DeadLetter]) -> None:
    """Make dead letters visible to other readers; otherwise they reappear after the timeout."""
    for url in _dead_queues():
        for some in queues.chunks(
            (one for one in letters if one.queue_url == url), queues.PER_CALL
        ):
            entries = [
                {"Id": str(at), "ReceiptHandle": letter.receipt, "VisibilityTimeout": 0}
                for at, letter in enumerate(some)
            ]
            try:
                aws.client("sqs").change_message_visibility_batch(QueueUrl=url, Entries=entries)
            except ClientError as error:
                about = {"queue": url.rpartition("/")[2], "error": str(error)}
                log.warning("dead letters stay hidden until their timeout", extra=about)


def replay(letter: DeadLetter) -> None:
    """Send a dead letter to its source queue and delete it from the DLQ."""
    if letter.is_cut:
        raise RefusedError(f"dead letter {letter.message_id} was truncated: send the event again")
    if letter.queue_arn == NOWHERE:
        raise RefusedError(
            f"dead letter {letter.message_id} came from a polled source: change the item there, or"
            " send the event yourself"
        )
    texts = dict(islice(letter.texts.items(), _MAX_ATTRIBUTES - 1)) | {FIRST_ID: letter.first_id}
    message: dict[str, Any] = {
        "MessageBody": letter.body,
        "MessageAttributes": {name: _text(text) for name, text in texts.items()},
    }
    if letter.lane is not None:
        # A new deduplication id: with the original one, SQS would drop the message.
        name = f"replay-{letter.message_id}"
        message |= {"MessageGroupId": letter.lane, "MessageDeduplicationId": name}
    if letter.queue_arn is not None:
        aws.client("sqs").send_message(QueueUrl=_url_of(letter.queue_arn), **message)
    else:
        queues.send(_live_queue(letter), [message])
    aws.client("sqs").delete_message(QueueUrl=letter.queue_url, ReceiptHandle=letter.receipt)


def _live_queue(letter: DeadLetter) -> str:
    if letter.lane is not None:
        return "events.fifo"
    urls = settings.current().queue_urls
    queue = next(each for each in QUEUES.values() if urls.get(each.dlq) == letter.queue_url)
    # Events that watchers produced but could not send are in their source's DLQ.
    return "events" if queue.dlq == SOURCES_DLQ and letter.is_ours else queue.name


def _url_of(arn: str) -> str:
    account, name = arn.split(":")[-2:]
    answer = aws.client("sqs").get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)
    url: str = answer["QueueUrl"]
    return url
