"""Messages of all queues that were given up: kept with the reason, listed, sent once more.

Owns: the attributes of a dead letter, and when a message that fails is given up. A message is
copied first and acknowledged after that, so that a crash in between only makes two copies. Sending
it again keeps the id by which it was first known, so that an event that was recorded the first time
is not recorded twice.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any

from botocore.exceptions import ClientError

from lamplighter import aws, clock, queues, settings
from lamplighter.errors import RefusedError
from lamplighter.queues import FIRST_ID, Delivery, first_id
from lamplighter.store.models import AssetEvents
from lamplighter.store.models.assets import REJECTED
from lamplighter.store.transactions import pack
from lamplighter.zones import iso

log = logging.getLogger(__name__)

MAX_BODY_BYTES = 200_000
# The setting that names where watchers keep what was given up.
WATCHED = "sources-dlq"
# Instead of a queue: what came from a source that was asked cannot be sent there again.
NOWHERE = "nowhere"
_MAX_REASON = 500
# A call to SQS takes 1 MiB in all, names of attributes included.
_MAX_CALL_BYTES = 900_000
_MAX_ATTRIBUTES = 10
# Letters that are being listed are hidden from other readers for this time.
_SECONDS_TO_READ = 30


@dataclass(frozen=True)
class Reject:
    """A message, and why it cannot be taken; the ids of its events, as far as they are known."""

    delivery: Delivery
    reason: str
    event_ids: tuple[str, ...] = ()


def send_to_dlq(rejects: Sequence[Reject]) -> list[Reject]:
    """Keep events that cannot be taken, each with its reason; return those that were not kept."""
    return _keep(rejects, "events-dlq", before=_note)


def keep(rejects: Sequence[Reject], dead_queue: str) -> list[Reject]:
    """Keep messages in the queue that a setting names; return those that could not be kept."""
    return _keep(rejects, dead_queue, before=lambda _: None)


def give_up(failed: Sequence[Reject], dead_queue: str) -> set[str]:
    """Keep those that have failed for too long; return the ids of the messages that were kept."""
    hours = settings.current().give_up_hours
    old = [
        replace(one, reason=f"it failed for more than {hours} hours: {one.reason}")
        for one in failed
        if one.delivery.is_too_old
    ]
    lost = {one.delivery.message_id for one in keep(old, dead_queue)}
    return {one.delivery.message_id for one in old} - lost


def _keep(
    rejects: Sequence[Reject], dead_queue: str, *, before: Callable[[Sequence[Reject]], None]
) -> list[Reject]:
    lost: list[Reject] = []
    for some in pack(rejects, (lambda _: 1, queues.PER_CALL), (_bytes, _MAX_CALL_BYTES)):
        try:
            before(some)
            queues.send(dead_queue, [_copy(reject, dead_queue) for reject in some])
        except Exception:  # whatever it is, these messages are delivered again, and no others
            log.exception("%d messages could not be kept, and come again", len(some))
            lost += some
    return lost


def _note(rejects: Sequence[Reject]) -> None:
    """Write down why, for whoever looks for the event later."""
    now = clock.now()
    expires_at = now.add(days=settings.current().keep_events_days)
    why = {
        event_id: _printable(reject.reason)
        for reject in rejects
        for event_id in reject.event_ids or (reject.delivery.first_id,)
    }
    with AssetEvents.batch_write() as batch:
        for event_id, reason in why.items():
            batch.save(
                AssetEvents(
                    REJECTED,
                    event_id,
                    timestamp=now,
                    recorded_at=now,
                    rejected=reason,
                    expires_at=expires_at,
                )
            )


def _bytes(reject: Reject) -> int:
    return len(_kept(reject.delivery.body))


def _kept(body: str) -> bytes:
    # Half a surrogate pair, for which a message may have been rejected, cannot be sent.
    return body.encode(errors="replace")[:MAX_BODY_BYTES]


def _copy(reject: Reject, dead_queue: str) -> dict[str, Any]:
    delivery = reject.delivery
    return letter(
        delivery.body,
        reason=reject.reason,
        first_id=delivery.first_id,
        lane=delivery.lane,
        # Watchers read the queues of others too.
        queue_arn=delivery.queue_arn if dead_queue == WATCHED else None,
        sequence=delivery.sequence,
        texts=delivery.texts,
    )


def letter(
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
    return [url for name in settings.DEAD_QUEUES.values() if (url := getattr(given, name))]


def _letter(url: str, message: Mapping[str, Any]) -> DeadLetter:
    attributes = message.get("MessageAttributes", {})
    said = {name: value.get("StringValue", "") for name, value in attributes.items()}
    first = first_id(said.get(FIRST_ID), message["MessageId"])
    is_ours = "rejected_at" in said
    texts = json.loads(said.get("attributes", "{}")) if is_ours else said
    if not is_ours:
        # SQS or EventBridge put it here, with attributes of whoever sent it.
        moved_from = message.get("Attributes", {}).get("DeadLetterQueueSourceArn")
        is_watched = url == settings.current().queue_url("sources-dlq")
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


def release(letters: Sequence[DeadLetter]) -> None:
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
                log.warning("letters stay hidden for %d seconds: %s", _SECONDS_TO_READ, error)


def replay(letter: DeadLetter) -> None:
    """Send a letter to the queue that it came from, and remove it from among the dead."""
    if letter.is_cut:
        raise RefusedError(
            f"letter {letter.message_id} was too long to be kept whole: send the event again"
        )
    if letter.queue_arn == NOWHERE:
        raise RefusedError(
            f"letter {letter.message_id} tells of a source that is asked: change something there,"
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
    """Return the setting that names the queue to which a letter belongs."""
    if letter.lane is not None:
        return "events.fifo"
    given = settings.current()
    live = next(
        name
        for name, dead in settings.DEAD_QUEUES.items()
        if getattr(given, dead) == letter.queue_url
    )
    # What watchers made, and did not send, is among the dead letters of their source.
    return "events" if live == "sources" and letter.is_ours else live


def _url_of(arn: str) -> str:
    account, name = arn.split(":")[-2:]
    answer = aws.client("sqs").get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)
    url: str = answer["QueueUrl"]
    return url
