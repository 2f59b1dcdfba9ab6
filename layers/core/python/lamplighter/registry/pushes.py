"""Pushes of bundles: their numbers and announcements, and those whose message was lost.

Owns: that an older push never follows a newer one, and when a push that was not registered is
announced to `register` again. Registering a push twice changes nothing.
"""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote_plus, unquote_plus

from pendulum import DateTime

from lamplighter import aws, clock, queues, settings
from lamplighter.errors import RefusedError
from lamplighter.store import bundles, dags
from lamplighter.store.models import Catalog, Dags
from lamplighter.store.transactions import Cause, TransactionCanceled, Write, transact_with_retry

log = logging.getLogger(__name__)

# At intervals that double up to the longest pause, so many take more than a day.
MAX_RESENDS = 12
_LONGEST_PAUSE_SECONDS = 4 * 3600
# A registration that has begun may take as long as the function may run.
_REGISTER_SECONDS = 900


@dataclass(frozen=True)
class Push:
    """One push of a bundle. As a message: it must be registered."""

    bundle: str
    version: str
    number: int
    skip_owed: bool = False  # runs that are due at this moment are not created


# Registering one: each of these is refused when a newer push has begun.


def begin(push: Push) -> bool:
    """Note that a push is being registered, or refuse it if a newer one is or was.

    Returns whether all pushes before it came to their end, and so left nothing half done.
    """
    row = bundles.begin_registration(push.bundle, push.number)
    if row is None:
        raise _superseded(push)
    return int(row.registered or 0) >= push.number - 1


def write(push: Push, writes: Sequence[Write]) -> None:
    """Write all on behalf of a push, or refuse because a newer one has begun."""
    with _newest(push) as check:
        transact_with_retry([check, *writes])


def change_dag(
    push: Push,
    dag_id: str,
    change: Callable[[Dags], Sequence[Write] | None],
    *,
    row: Dags | None = None,
) -> None:
    """Change a DAG's row on behalf of a push as `dags.change_dag` does, or refuse it."""
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


def end(push: Push) -> None:
    """Note that a push is registered."""
    bundles.end_registration(push.bundle, push.number, push.version)


# A push is announced by a small object of its own: its arrival wakes `register`, and the archive,
# which is named by its content, is never overwritten.


def announce(push: Push) -> None:
    """Put the object that announces a push."""
    aws.client("s3").put_object(
        Bucket=settings.current().require("bucket"),
        Key=announcement_key(push.bundle, push.number),
        Body=json.dumps({"version": push.version, "skip_owed": push.skip_owed}).encode(),
        ContentType="application/json",
    )


def announcement_key(bundle: str, push: int) -> str:
    """Return the key of the object that announces a push; they sort by number."""
    return f"pushes/{bundle}/{push:08}.json"


def read_announcement(bucket: str, key: str) -> Push:
    """Return the push that an object announces."""
    _, bundle, name = key.split("/")
    data = json.loads(aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
    number = int(name.removesuffix(".json"))
    return Push(bundle, data["version"], number, skip_owed=bool(data.get("skip_owed")))


# The messages on `registers`: notifications of the bucket, and those that `queues` sends.


@dataclass(frozen=True)
class Refill:
    """An author's timetable must be asked for more runs."""

    dag_id: str


@dataclass(frozen=True)
class Retire:
    """What a push left out must be looked for once more."""

    push: Push


def read_message(body: str) -> list[Push | Refill | Retire]:
    """Return what a message asks for; the bucket's test message asks for nothing."""
    with queues.reject_unreadable():
        data = json.loads(body)
        if "refill" in data:
            return [Refill(str(data["refill"]))]
        if "retire" in data:
            return [Retire(Push(str(data["retire"]), "", int(data["push"])))]
        objects = [record["s3"] for record in data.get("Records", ())]
        places = [(each["bucket"]["name"], each["object"]["key"]) for each in objects]
        return [read_announcement(bucket, unquote_plus(key)) for bucket, key in places]


# Pushes that were announced and not registered, because the message about them was lost.


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
        except Exception as error:  # noqa: BLE001 - raised below, when the others had their turn
            failures.append(error)
        if not has_time():
            break
    if failures:
        raise failures[0]
    return sent


def resend_due_at(row: Catalog) -> DateTime | None:
    """Return when the newest push of a bundle is to be looked for; None, if it has come to its end.

    A push that failed too often is left to people: `doctor` names it.
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
    """Send the newest push that was announced, if there is one; look again when it is twice as old.

    A push that died before it was announced has no object, and there is nothing to do for it.
    """
    key = _newest_announcement(row)
    if key is not None:
        log.warning("push was not registered, sending it again", extra={"key": key})
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
    # Those before the one that is being registered would be refused.
    after = max(_newest_ended(row), int(row.registering or 0) - 1)
    listed = aws.client("s3").list_objects_v2(
        Bucket=settings.current().require("bucket"),
        Prefix=f"pushes/{row.id}/",
        StartAfter=announcement_key(row.id, after),
    )
    return max((found["Key"] for found in listed.get("Contents", ())), default=None)
