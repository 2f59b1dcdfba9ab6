"""Pushes of bundles: numbers, announcements, and resending lost ones.

Owns: that an older push never replaces a newer one, and when an unregistered push is announced
again. Registering a push twice is harmless.
"""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote_plus, unquote_plus

from pendulum import DateTime

from lamplighter import aws, clock, queues, settings
from lamplighter.errors import NewerFormError, RefusedError
from lamplighter.serialization import is_newer
from lamplighter.store import bundles, dags
from lamplighter.store.models import Catalog, Dags
from lamplighter.store.transactions import Cause, TransactionCanceled, Write, transact_with_retry

log = logging.getLogger(__name__)

# At doubling intervals, up to the longest pause, these take more than a day.
MAX_RESENDS = 12
_LONGEST_PAUSE_SECONDS = 4 * 3600
# Of announcements; those without a number are of the first.
FORMAT = 1
# The maximum duration of a registration: the function's time limit.
_REGISTER_SECONDS = 900


@dataclass(frozen=True)
class Push:
    """One push of a bundle; as a message, a request to register it."""

    bundle: str
    version: str
    number: int
    skip_owed: bool = False  # runs that are due at the push are not created


# Registering: each of these raises if a newer push has begun.


def begin(push: Push) -> bool:
    """Record that a push is being registered; raise if a newer one has begun.

    Returns whether all earlier pushes finished, so that there is nothing to clean up.
    """
    row = bundles.begin_registration(push.bundle, push.number)
    if row is None:
        raise _superseded(push)
    return int(row.registered or 0) >= push.number - 1


def write(push: Push, writes: Sequence[Write]) -> None:
    """Write on behalf of a push; raise if a newer one has begun."""
    with _newest(push) as check:
        transact_with_retry([check, *writes])


def change_dag(
    push: Push,
    dag_id: str,
    change: Callable[[Dags], Sequence[Write] | None],
    *,
    row: Dags | None = None,
) -> None:
    """Change a DAG's row as `dags.change_dag` does; raise if a newer push has begun."""
    with _newest(push) as check:

        def change_if_newest(row: Dags) -> Sequence[Write] | None:
            writes = change(row)
            return None if writes is None else [check, *writes]

        dags.change_dag(dag_id, change_if_newest, row=row)


@contextmanager
def _newest(push: Push) -> Iterator[Write]:
    """Give the check with which transactions must begin; refuse the push if one fails by it."""
    try:
        yield bundles.newest_push_check(push.bundle, push.number)
    except TransactionCanceled as cancelled:
        if cancelled.reasons[0].cause is Cause.CONDITION_FAILED:
            raise _superseded(push) from cancelled
        raise


def _superseded(push: Push) -> RefusedError:
    return RefusedError(
        f"push {push.number} of bundle {push.bundle!r} is older than what is registered"
    )


def end(push: Push, *, errors: int) -> None:
    """Record that a push is registered."""
    bundles.end_registration(push.bundle, push.number, push.version, errors=errors)


# A push is announced by a small object of its own, whose creation invokes `register`. The archive
# is named by its content and never overwritten.


def announce(push: Push) -> None:
    """Put the object that announces a push."""
    said = {"format": FORMAT, "version": push.version, "skip_owed": push.skip_owed}
    aws.client("s3").put_object(
        Bucket=settings.current().require("bucket"),
        Key=announcement_key(push.bundle, push.number),
        Body=json.dumps(said).encode(),
        ContentType="application/json",
    )


def announcement_key(bundle: str, push: int) -> str:
    """Return the key of the object that announces a push; keys sort by number."""
    return f"pushes/{bundle}/{push:08}.json"


def read_announcement(bucket: str, key: str) -> Push:
    """Return the push that an object announces."""
    _, bundle, name = key.split("/")
    data = json.loads(aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
    number = int(name.removesuffix(".json"))
    if is_newer(data.get("format"), FORMAT):
        what = f"the announcement of push {number} of bundle {bundle!r}"
        raise NewerFormError(what, data["format"], FORMAT)
    return Push(bundle, data["version"], number, skip_owed=bool(data.get("skip_owed")))


# The messages on `registers`: notifications of the bucket, and those that `queues` sends.


@dataclass(frozen=True)
class Refill:
    """More runs of a custom timetable are needed."""

    dag_id: str


@dataclass(frozen=True)
class Retire:
    """DAGs that a push left out must be retired again."""

    push: Push


def read_message(body: str) -> list[Push | Refill | Retire]:
    """Return the requests in a message; the bucket's test message has none."""
    with queues.reject_unreadable():
        data = json.loads(body)
        if "refill" in data:
            return [Refill(str(data["refill"]))]
        if "retire" in data:
            return [Retire(Push(str(data["retire"]), "", int(data["push"])))]
        objects = [record["s3"] for record in data.get("Records", ())]
        places = [(each["bucket"]["name"], each["object"]["key"]) for each in objects]
        return [read_announcement(bucket, unquote_plus(key)) for bucket, key in places]


# Pushes that were announced but not registered, because a message was lost.


def sweep_pushes(*, has_time: Callable[[], bool]) -> int:
    """Announce unregistered pushes again; return how many messages were sent."""
    sent, now = 0, clock.now()
    failures: list[Exception] = []
    for row in bundles.read_bundles():
        due_at = resend_due_at(row)
        if due_at is None or due_at > now:
            continue
        try:
            sent += _resend(row, now)
        except Exception as error:  # noqa: BLE001 - raised below, after the others
            failures.append(error)
        if not has_time():
            break
    if failures:
        raise failures[0]
    return sent


def resend_due_at(row: Catalog) -> DateTime | None:
    """Return when the newest push of a bundle is to be sent again; None if it needs no resend.

    A push that failed too often is left to the operator: `doctor` reports it.
    """
    newest = int(row.pushed or 0)
    is_over = newest <= _newest_ended(row)
    if is_over or int(row.resends or 0) >= MAX_RESENDS or row.updated_at is None:
        return None
    if row.resend_at is not None:
        return row.resend_at
    is_begun = int(row.registering or 0) >= newest
    wait = _REGISTER_SECONDS if is_begun else settings.current().resend_after_seconds
    return row.updated_at.add(seconds=wait)


def _newest_ended(row: Catalog) -> int:
    return max(int(row.registered or 0), int(row.unreadable_push or 0))


def _resend(row: Catalog, now: DateTime) -> bool:
    """Send the newest announced push again, and schedule the next attempt for twice its age.

    An upload that was interrupted before its announcement needs nothing.
    """
    key = _newest_announcement(row)
    if key is not None:
        log.warning("push was not registered; sending it again", extra={"key": key})
        created = {
            "bucket": {"name": settings.current().bucket},
            "object": {"key": quote_plus(key, safe="/")},
        }
        # As S3 does; and sent first: after a crash here it is sent twice.
        queues.send("registers", [{"MessageBody": json.dumps({"Records": [{"s3": created}]})}])
    assert row.updated_at is not None
    age = (now - row.updated_at).total_seconds()
    pause = min(max(age, settings.current().resend_after_seconds), _LONGEST_PAUSE_SECONDS)
    bundles.note_resend(row, next_at=now.add(seconds=pause))
    return key is not None


def _newest_announcement(row: Catalog) -> str | None:
    # Earlier pushes than the one being registered would be refused.
    after = max(_newest_ended(row), int(row.registering or 0) - 1)
    listed = aws.client("s3").list_objects_v2(
        Bucket=settings.current().require("bucket"),
        Prefix=f"pushes/{row.id}/",
        StartAfter=announcement_key(row.id, after),
    )
    return max((found["Key"] for found in listed.get("Contents", ())), default=None)
