"""Messages between functions. A message is a hint: what it names is read again before it is used.

Owns: message bodies on all queues but `events`, sending, parsing deliveries, redelivery delays.
"""

import json
import logging
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from pendulum import DateTime, from_timestamp

from lamplighter import aws, clock, settings
from lamplighter.errors import UNREADABLE, DefinitionError, RejectedError, TransientError
from lamplighter.identifiers import require_id
from lamplighter.zones import iso, parse_instant

log = logging.getLogger(__name__)

T = TypeVar("T")
# A run: the id of its DAG and its key.
RunName: TypeAlias = tuple[str, str]

DAGS_PER_MESSAGE = 50
RUNS_PER_MESSAGE = 10
PER_CALL = 10
LONGEST_DELAY = 900
# The tick has already passed entries that come due within the look-ahead, so their writer announces
# them. The extra minute covers a tick that is in progress.
_MARGIN_SECONDS = 60
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5, 900
# A replayed message carries its original id in this attribute.
FIRST_ID = "event_id"
_MAX_FIRST_ID = 200


def announce_due(due: Iterable[tuple[str, DateTime]]) -> int:
    """Send DAGs that are due before the tick would find them; return the number of messages.

    DAGs that are due in the same second share messages.
    """
    now = clock.now()
    horizon = now.add(seconds=settings.current().look_ahead_seconds + _MARGIN_SECONDS)
    return send_claims((dag_id, at) for dag_id, at in due if at <= horizon)


def send_claims(due: Iterable[tuple[str, DateTime]]) -> int:
    """Send each DAG to `claims`, delayed until the second in which it is due."""
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
    """Request that backfills create the runs that they have slots for."""
    bodies = [json.dumps({"backfill_ids": ids}) for ids in chunks(backfill_ids, DAGS_PER_MESSAGE)]
    send("claims", [{"MessageBody": body} for body in bodies])


class Claims(NamedTuple):
    """What a message on `claims` names."""

    dag_ids: list[str]
    backfill_ids: list[str]


def read_claims(body: str) -> Claims:
    """Return the DAGs and backfills of a message on `claims`."""
    with reject_unreadable():
        data = json.loads(body)
        if not data.keys() & {"dag_ids", "backfill_ids"}:
            raise DefinitionError("dag_ids or backfill_ids must be given")
        return Claims(
            _read_ids(data, "dag_ids", "DAG"), _read_ids(data, "backfill_ids", "backfill")
        )


def _read_ids(data: dict[str, Any], name: str, what: str) -> list[str]:
    ids = data.get(name, [])
    if not isinstance(ids, list):
        raise DefinitionError(f"{name} must be a list, not {ids!r}")
    return [require_id(each, what=what) for each in ids]


@contextmanager
def reject_unreadable() -> Iterator[None]:
    """Reject a message that cannot be parsed: a retry would not help."""
    try:
        yield
    except UNREADABLE as error:
        raise RejectedError(f"the message cannot be read: {error!r}") from error


def send_submits(runs: Iterable[RunName], *, delay: float = 0) -> None:
    """Request that runs be advanced by `submit`, which may start jobs."""
    _send_runs("submits", runs, delay)


def send_start(limit_id: str, *, at: DateTime | None = None) -> None:
    """Request that steps be started that wait for a limit; with `at`, one that is reserved then."""
    body, later = {"limit": limit_id}, {}
    if at is not None:
        body["at"] = iso(at)
        # At least a second: the index of steps that wait lags behind them.
        delay = max(1, math.ceil((at - clock.now()).total_seconds()))
        later = {"DelaySeconds": min(delay, LONGEST_DELAY)}
    send("submits", [{"MessageBody": json.dumps(body), **later}])


def send_settles(runs: Iterable[RunName], *, delay: float = 0) -> None:
    """Request that runs be advanced by `settle`, which may cancel jobs."""
    _send_runs("jobstates", runs, delay)


def _send_runs(queue: str, runs: Iterable[RunName], delay: float) -> None:
    later = {"DelaySeconds": min(math.ceil(delay), LONGEST_DELAY)} if delay > 0 else {}
    bodies = [json.dumps({"runs": chunk}) for chunk in chunks(runs, RUNS_PER_MESSAGE)]
    send(queue, [{"MessageBody": body, **later} for body in bodies])


def send_job(job_run_id: str, *, executor: str) -> None:
    """Request that a job be checked."""
    body = json.dumps({"job": job_run_id, "executor": executor})
    send("jobstates", [{"MessageBody": body}])


def read_runs(body: Mapping[str, Any]) -> list[RunName]:
    """Return the runs that a message on `submits` or `jobstates` names."""
    return [(require_id(dag_id, what="DAG"), str(run_key)) for dag_id, run_key in body["runs"]]


def read_start(body: Mapping[str, Any]) -> tuple[str, DateTime | None]:
    """Return the limit that a message on `submits` names, and when its reserved start is."""
    at = body.get("at")
    return str(body["limit"]), None if at is None else parse_instant(at)


def send_refill(dag_ids: Iterable[str]) -> None:
    """Request that the next runs of custom timetables be precomputed again."""
    bodies = [json.dumps({"refill": dag_id}) for dag_id in dag_ids]
    send("registers", [{"MessageBody": body} for body in bodies])


def send_retire(bundle: str, push: int, *, delay: int) -> None:
    """Request that DAGs missing from a push be retired again, once the index has caught up."""
    body = json.dumps({"retire": bundle, "push": push})
    send("registers", [{"MessageBody": body, "DelaySeconds": delay}])


def send(queue: str, messages: Sequence[dict[str, Any]]) -> None:
    """Send messages to a queue of the deployment in batches."""
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
    """A message received from SQS."""

    message_id: str
    body: str
    first_id: str
    receipt: str
    receives: int
    lane: str | None  # of a FIFO queue: its messages are handled in order
    texts: Mapping[str, str] = field(default_factory=dict)  # text attributes
    queue_arn: str = ""
    first_received_at: DateTime | None = None
    sequence: str | None = None  # on a FIFO queue: its position among all messages
    sender: str | None = None  # as SQS says, whatever the message says

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Self:
        """Return the delivery that a record of a Lambda event describes."""
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
            # A FIFO message without a group name still counts as a lane, so that order is kept.
            attributes.get("MessageGroupId", "") if is_fifo else None,
            texts,
            record["eventSourceARN"],
            _instant(attributes.get("ApproximateFirstReceiveTimestamp")),
            attributes.get("SequenceNumber"),
            attributes.get("SenderId"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return what watchers may know of it: not what would let them delete it."""
        return {
            "message_id": self.message_id,
            "body": self.body,
            "first_id": self.first_id,
            "lane": self.lane,
            "texts": dict(self.texts),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the delivery of which `to_json` wrote a part."""
        return cls(**data, receipt="", receives=1)

    @property
    def is_fifo(self) -> bool:
        """Whether it came from the FIFO queue."""
        return self.lane is not None

    @property
    def is_too_old(self) -> bool:
        """Whether it is so old that it goes to the dead-letter queue if it fails again."""
        if self.first_received_at is None:
            return False
        age = (clock.now() - self.first_received_at).total_seconds()
        return age > settings.current().max_message_age_hours * 3600


def _instant(milliseconds: str | None) -> DateTime | None:
    return None if milliseconds is None else from_timestamp(int(milliseconds) / 1000)


def first_id(said: str | None, message_id: str) -> str:
    """Return the original id of a message: the attribute if it is valid, else the message id."""
    # Anyone may send this attribute, so it is checked.
    is_id = said is not None and said.isprintable() and 0 < len(said.strip()) <= _MAX_FIRST_ID
    return said if said is not None and is_id else message_id


def from_first_in_lane(deliveries: Iterable[Delivery], ids: set[str]) -> set[str]:
    """Return the ids and the ids of all later messages in the same lanes."""
    behind: set[str] = set()
    blocked: set[str] = set()
    for delivery in deliveries:
        if delivery.message_id in ids or delivery.lane in blocked:
            behind.add(delivery.message_id)
            if delivery.lane is not None:
                blocked.add(delivery.lane)
    return behind


def delay_redelivery(queue: str, failed: Iterable[tuple[str, int]]) -> None:
    """Delay redelivery of messages, given as (receipt, receive count), longer each time.

    If SQS refuses, a message comes back after its queue's visibility timeout instead.
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
            # One message may be the cause, so the other chunks are still tried.
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
    # The exponent is capped to avoid overflow.
    doubled = _FIRST_PAUSE_SECONDS * 2 ** min(receives, 10)
    return int(min(doubled, _LONGEST_PAUSE_SECONDS))


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most `size` items."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
