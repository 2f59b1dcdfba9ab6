"""Messages of all queues that were given up: kept with the reason, listed, sent once more.

Owns: the attributes of a dead letter, and when a message that fails is given up. A message is
copied first and acknowledged after that, so that a crash in between only makes two copies. Sending
it again keeps the id by which it was first known, so that an event that was recorded the first time
is not recorded twice.
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
# The queue where watchers keep what was given up.
SOURCES_DLQ = "sources-dlq"
# Instead of a queue: what came from a source that is polled cannot be sent there again.
NOWHERE = "nowhere"
_MAX_REASON = 500
# A call to SQS takes 1 MiB in all, names of attributes included.
_MAX_CALL_BYTES = 900_000
_MAX_ATTRIBUTES = 10
# Letters that are being listed are hidden from other readers for this time.
_SECONDS_TO_READ = 30


@dataclass(frozen=True)
class FailedMessage:
    """A message, and why it cannot be taken; the ids of its events, as far as they are known."""

    delivery: Delivery
    reason: str
    event_ids: tuple[str, ...] = ()


def reject_events(failed: Sequence[FailedMessage]) -> list[FailedMessage]:
    """Keep events that can never be taken, each with its reason; return those not kept."""
    return send_to_dlq(failed, "events-dlq", saves_reasons=True)


def send_expired_to_dlq(failed: Sequence[FailedMessage], dead_queue: str) -> set[str]:
    """Keep those that have failed for too long; return the ids of the messages that were kept."""
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

    With `saves_reasons`, whoever looks for one of the events later finds why it was rejected.
    """
    lost: list[FailedMessage] = []
    for some in pack(failed, (lambda _: 1, queues.PER_CALL), (_bytes, _MAX_CALL_BYTES)):
        try:
            if saves_reasons:
                save_rejections(dict(_reasons(some)))
            queues.send(dead_queue, [_copy(one, dead_queue) for one in some])
        except Exception:  # whatever it is, these messages are delivered again, and no others
            about = {"queue": dead_queue, "messages": len(some)}
            log.exception("messages could not be kept and are delivered again", extra=about)
            lost += some
    return lost


def _reasons(failed: Sequence[FailedMessage]) -> Iterator[tuple[str, str]]:
    for one in failed:
        for event_id in one.event_ids or (one.delivery.first_id,):
            yield event_id, _printable(one.reason)


def _bytes(one: FailedMessage) -> int:
    return len(_kept(one.delivery.body))


def _kept(body: str) -> bytes:
    # Half a surrogate pair, for which a message may have been rejected, cannot be sent.
    return body.encode(errors="replace")[:MAX_BODY_BYTES]


def _copy(one: FailedMessage, dead_queue: str) -> dict[str, Any]:
    delivery = one.delivery
    return dead_letter(
        delivery.body,
        reason=one.reason,
        first_id=delivery.first_id,
        lane=delivery.lane,
        # Watchers read the queues of others too.
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
    """Return the message that keeps another one, and says why and where it is to be sent again.

    Without a queue it is sent to the one whose dead letters it is among; or, among those of
    watchers, to `events`.
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
    # SQS refuses characters that XML does not have; a reason quotes what someone sent.
    return "".join(char if char.isprintable() else "?" for char in value)


# Looking at them, and sending them once more.


@dataclass(frozen=True)
class DeadLetter:
    """A message that was given up, as it lies in a dead-letter queue."""

    message_id: str
    body: str
    reason: str
    first_id: str
    lane: str | None
    rejected_at: str | None
    is_cut: bool
    queue_url: str  # in which it lies
    receipt: str
    # From where it came, if its dead-letter queue does not say so; or nowhere.
    queue_arn: str | None = None
    sequence: int = 0
    is_ours: bool = True  # a copy, or else moved here by a service of AWS
    texts: Mapping[str, str] = field(default_factory=dict)  # of the message's own attributes

    @property
    def queue(self) -> str:
        """The name of the queue in which it lies."""
        return self.queue_url.rpartition("/")[2]


def dead_letters(*, limit: int) -> list[DeadLetter]:
    """Return dead letters of all queues, those of a lane in their order.

    Others do not see them until they are released, or for a while.
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
                break  # reading took so long that the first ones can be seen again
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
        # SQS or EventBridge put it here, with attributes of whoever sent it.
        moved_from = message.get("Attributes", {}).get("DeadLetterQueueSourceArn")
        is_watched = url == settings.current().queue_urls.get(SOURCES_DLQ)
        said = {"queue_arn": moved_from} if is_watched and moved_from else {}
    # On a queue without lanes, groups only share out the work.
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
    """Let others see the letters again; those that took too long to read, they see already.

    Those that SQS does not release are seen again after a while.
    """
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
    """Send a letter to the queue that it came from, and remove it from among the dead."""
    if letter.is_cut:
        raise RefusedError(
            f"letter {letter.message_id} was too long to be kept whole: send the event again"
        )
    if letter.queue_arn == NOWHERE:
        raise RefusedError(
            f"letter {letter.message_id} is of a source that is polled: change something there,"
            " or send the event yourself"
        )
    texts = dict(islice(letter.texts.items(), _MAX_ATTRIBUTES - 1)) | {FIRST_ID: letter.first_id}
    message: dict[str, Any] = {
        "MessageBody": letter.body,
        "MessageAttributes": {name: _text(text) for name, text in texts.items()},
    }
    if letter.lane is not None:
        # A name of its own: SQS would take the first one's for a repetition and drop it.
        name = f"replay-{letter.message_id}"
        message |= {"MessageGroupId": letter.lane, "MessageDeduplicationId": name}
    if letter.queue_arn is not None:
        aws.client("sqs").send_message(QueueUrl=_url_of(letter.queue_arn), **message)
    else:
        queues.send(_live_queue(letter), [message])
    aws.client("sqs").delete_message(QueueUrl=letter.queue_url, ReceiptHandle=letter.receipt)


def _live_queue(letter: DeadLetter) -> str:
    """Return the queue to which a letter belongs."""
    if letter.lane is not None:
        return "events.fifo"
    urls = settings.current().queue_urls
    queue = next(each for each in QUEUES.values() if urls.get(each.dlq) == letter.queue_url)
    # What watchers made, and did not send, is among the dead letters of their source.
    return "events" if queue.dlq == SOURCES_DLQ and letter.is_ours else queue.name


def _url_of(arn: str) -> str:
    account, name = arn.split(":")[-2:]
    answer = aws.client("sqs").get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)
    url: str = answer["QueueUrl"]
    return url
