"""Messages between functions. A message is a hint: what it names is read again before it is used.

Owns: the bodies of messages on all queues but `events`, how every message is sent, how one is
delivered, and when one that failed is delivered again.
"""

import json
import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Self, TypeAlias, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from pendulum import DateTime, from_timestamp

from lamplighter import aws, clock, settings
from lamplighter.errors import UNREADABLE, DefinitionError, RejectedError, TransientError
from lamplighter.identifiers import require_id

log = logging.getLogger(__name__)

T = TypeVar("T")
# A run, by the id of its DAG and its key.
RunName: TypeAlias = tuple[str, str]

DAGS_PER_MESSAGE = 50
RUNS_PER_MESSAGE = 10
PER_CALL = 10
LONGEST_DELAY = 900
# Entries that come due within the look-ahead are announced by whoever writes them, because the tick
# has passed already. A minute more than the look-ahead covers a tick that is on its way.
_MARGIN_SECONDS = 60
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5, 900
# Under this attribute a replayed message carries the id by which it was first known.
FIRST_ID = "event_id"
_MAX_FIRST_ID = 200


def announce_due(due: Iterable[tuple[str, DateTime]]) -> int:
    """Send each DAG to `claims`, to arrive when it is due; leave out what the tick will find.

    Returns how many messages were sent. DAGs that share a second share messages.
    """
    now = clock.now()
    horizon = now.add(seconds=settings.current().look_ahead_seconds + _MARGIN_SECONDS)
    return send_claims((dag_id, at) for dag_id, at in due if at <= horizon)


def send_claims(due: Iterable[tuple[str, DateTime]]) -> int:
    """Send each DAG to `claims`, to arrive in the second in which it is due."""
    now = clock.now()
    by_delay: dict[int, list[str]] = defaultdict(list)
    for dag_id, at in due:
        seconds = math.ceil((at - now).total_seconds())
        by_delay[min(max(0, seconds), LONGEST_DELAY)].append(dag_id)
    messages = [
        {"MessageBody": json.dumps({"dag_ids": ids}), "DelaySeconds": delay}
        for delay, together in sorted(by_delay.items())
        for ids in chunks(together, DAGS_PER_MESSAGE)
    ]
    send("claims", messages)
    return len(messages)


def send_backfills(backfill_ids: Iterable[str]) -> None:
    """Ask for backfills to create the runs that they have slots for."""
    bodies = [json.dumps({"backfill_ids": ids}) for ids in chunks(backfill_ids, DAGS_PER_MESSAGE)]
    send("claims", [{"MessageBody": body} for body in bodies])


def read_claims(body: str) -> list[str]:
    """Return the DAG ids of a message on `claims`; none, if it names backfills."""
    return _read_ids(body, "dag_ids", "backfill_ids", what="DAG")


def read_backfills(body: str) -> list[str]:
    """Return the ids of backfills of a message on `claims`; none, if it names DAGs."""
    return _read_ids(body, "backfill_ids", "dag_ids", what="backfill")


def _read_ids(body: str, wanted: str, other: str, *, what: str) -> list[str]:
    with reject_unreadable():
        data = json.loads(body)
        ids = data.get(wanted, []) if other in data else data[wanted]
        if not isinstance(ids, list):
            raise DefinitionError(f"{wanted} must be a list, not {ids!r}")
        return [require_id(each, what=what) for each in ids]


@contextmanager
def reject_unreadable() -> Iterator[None]:
    """Reject a message that cannot be read: it could not be read the next time either."""
    try:
        yield
    except UNREADABLE as error:
        raise RejectedError(f"the message cannot be read: {error!r}") from error


def send_submits(runs: Iterable[RunName], *, delay: float = 0) -> None:
    """Ask for each run to be moved on, which may start jobs."""
    _send_runs("submits", runs, delay)


def send_settles(runs: Iterable[RunName], *, delay: float = 0) -> None:
    """Ask for each run to be moved on, which may cancel jobs."""
    _send_runs("jobstates", runs, delay)


def _send_runs(queue: str, runs: Iterable[RunName], delay: float) -> None:
    later = {"DelaySeconds": min(math.ceil(delay), LONGEST_DELAY)} if delay > 0 else {}
    bodies = [json.dumps({"runs": chunk}) for chunk in chunks(runs, RUNS_PER_MESSAGE)]
    send(queue, [{"MessageBody": body, **later} for body in bodies])


def send_job(job_run_id: str, *, executor: str) -> None:
    """Ask for someone to look at a job, whatever it is doing."""
    body = json.dumps({"job": job_run_id, "executor": executor})
    send("jobstates", [{"MessageBody": body}])


def read_runs(body: Mapping[str, Any]) -> list[RunName]:
    """Return the runs that a message on `submits` or `jobstates` names."""
    return [(require_id(dag_id, what="DAG"), str(run_key)) for dag_id, run_key in body["runs"]]


def send_refill(dag_ids: Iterable[str]) -> None:
    """Ask for the coming runs of authors' timetables to be precomputed again."""
    bodies = [json.dumps({"refill": dag_id}) for dag_id in dag_ids]
    send("registers", [{"MessageBody": body} for body in bodies])


def send_retire(bundle: str, push: int, *, delay: int) -> None:
    """Ask once more for what a push left out to be retired, when the index has caught up."""
    body = json.dumps({"retire": bundle, "push": push})
    send("registers", [{"MessageBody": body, "DelaySeconds": delay}])


def send(queue: str, messages: Sequence[dict[str, Any]]) -> None:
    """Send messages to a queue of the deployment, in as few calls as possible."""
    if not messages:
        return
    url = settings.current().queue_url(queue)
    for chunk in chunks(messages, PER_CALL):
        entries = [{"Id": str(at), **message} for at, message in enumerate(chunk)]
        answer = aws.client("sqs").send_message_batch(QueueUrl=url, Entries=entries)
        failed = answer.get("Failed", [])
        if failed:
            raise TransientError(
                f"{len(failed)} of {len(entries)} messages were not taken: {failed[0]}"
            )


# Deliveries.


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
        return age > settings.current().max_message_age_hours * 3600


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


def delay_redelivery(queue: str, failed: Iterable[tuple[str, int]]) -> None:
    """Let messages be delivered again, later each time: by receipt, and how often they have come.

    A message whose new visibility timeout SQS does not take is delivered again as well, when that
    of its queue is over, which is a multiple of the time that its function may take.
    """
    url = settings.current().queue_url(queue)
    for chunk in chunks(failed, PER_CALL):
        entries = [
            {"Id": str(at), "ReceiptHandle": receipt, "VisibilityTimeout": _pause(receives)}
            for at, (receipt, receives) in enumerate(chunk)
        ]
        try:
            answer = aws.client("sqs").change_message_visibility_batch(
                QueueUrl=url, Entries=entries
            )
        except ClientError as error:
            # Perhaps because of one of them: the others have their turn.
            _log_not_delayed(queue, len(entries), error)
        except BotoCoreError as error:
            _log_not_delayed(queue, len(entries), error)
            return
        else:
            if refused := answer.get("Failed"):
                _log_not_delayed(queue, len(refused), refused[0])


def _log_not_delayed(queue: str, messages: int, error: object) -> None:
    about = {"queue": queue, "messages": messages, "error": str(error)}
    log.warning("messages are delivered again after their queue's visibility timeout", extra=about)


def _pause(receives: int) -> int:
    # A power of a large number would be larger than any clock.
    doubled = _FIRST_PAUSE_SECONDS * 2 ** min(receives, 10)
    return int(min(doubled, _LONGEST_PAUSE_SECONDS))


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most so many items."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
