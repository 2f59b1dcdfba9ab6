"""Finds pushes that were announced and not registered, because the message about them was lost.

Owns: when such a push is announced to `register` again, and when nobody tries any more. The row of
the bundle remembers both. Registering a push twice changes nothing.
"""

import json
import logging
from collections.abc import Callable
from urllib.parse import quote_plus

from pendulum import DateTime

from lamplighter import aws, clock, queues, settings
from lamplighter.registry import bundles
from lamplighter.store.models import Catalog
from lamplighter.store.transactions import update_if

log = logging.getLogger(__name__)

# At intervals that double up to the longest pause, so many take more than a day.
MAX_RESENDS = 12
_LONGEST_PAUSE_SECONDS = 4 * 3600
# Who has begun to register a push has the time limit of the function for it.
_REGISTER_SECONDS = 900


def sweep_pushes(*, has_time: Callable[[], bool]) -> int:
    """Send again what announces pushes that nobody has registered; return how many were sent."""
    sent, now = 0, clock.now()
    failures: list[Exception] = []
    for row in Catalog.query(bundles.KIND, consistent_read=True):
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
    is_over = newest <= max(int(row.registered or 0), int(row.unreadable_push or 0))
    if is_over or int(row.resends or 0) >= MAX_RESENDS or row.updated_at is None:
        return None
    if row.resend_at is not None:
        return row.resend_at
    is_begun = int(row.registering or 0) >= newest
    wait = _REGISTER_SECONDS if is_begun else settings.current().wake_after_seconds
    return row.updated_at.add(seconds=wait)


def _resend(row: Catalog, now: DateTime) -> bool:
    """Send the newest push that was announced, if there is one; look again when it is twice as old.

    A push that died before it was announced has no object, and there is nothing to do for it.
    """
    key = _newest_announcement(row)
    if key is not None:
        log.warning("the push %s was not registered, and is sent again", key)
        # Sent first: whoever dies here sends twice.
        queues.send("registers", [{"MessageBody": _notification(key)}])
    assert row.updated_at is not None
    age = (now - row.updated_at).total_seconds()
    pause = min(max(age, settings.current().wake_after_seconds), _LONGEST_PAUSE_SECONDS)
    actions = [Catalog.resend_at.set(now.add(seconds=pause)), Catalog.resends.add(1)]
    # A push that came meanwhile begins anew.
    update_if(Catalog(bundles.KIND, row.id), actions, Catalog.pushed == row.pushed)
    return key is not None


def _newest_announcement(row: Catalog) -> str | None:
    ended = max(int(row.registered or 0), int(row.unreadable_push or 0))
    # Those before the one that is being registered would be refused.
    after = max(ended, int(row.registering or 0) - 1)
    answer = aws.client("s3").list_objects_v2(
        Bucket=settings.current().require("bucket"),
        Prefix=bundles.announcement_prefix(row.id),
        StartAfter=bundles.announcement_key(row.id, after),
    )
    return max((found["Key"] for found in answer.get("Contents", ())), default=None)


def _notification(key: str) -> str:
    """Return what S3 says about an object that was created."""
    place = {
        "bucket": {"name": settings.current().bucket},
        "object": {"key": quote_plus(key, safe="/")},
    }
    return json.dumps({"Records": [{"s3": place}]})
