"""The minute timer: claims what is due, and sends ahead what comes due before the next ticks.

Owns: the look-ahead. Messages reach the claim in the second in which a DAG is due; a tick that was
lost costs nothing as long as the ticks before it looked far enough, and a lost message costs a
minute, since every tick reads again all that is overdue.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pendulum import DateTime

from lamplighter import clock, queues, settings
from lamplighter.scheduler.claim import ClaimReport, claim_all
from lamplighter.store.catalog import raise_covered_until, read_look_ahead
from lamplighter.store.dags import due_keys
from lamplighter.zones import UTC, parse_instant

log = logging.getLogger(__name__)

# When a DAG counts as due whose row does not say it.
UNKNOWN = DateTime(1970, 1, 1, tzinfo=UTC)


@dataclass
class TickReport(ClaimReport):
    """What a tick did: its claims, and what it sent ahead."""

    sent_ahead: int = 0
    # The age of the oldest due time that the tick found.
    backlog_seconds: float = 0.0


def tick(*, scheduled_at: DateTime | None = None, has_time: Callable[[], bool]) -> TickReport:
    """Claim all that is due, look ahead, and report.

    `scheduled_at` is the minute that this tick stands for; it may start any time after it.
    """
    now = clock.now()
    horizon = min(scheduled_at or now, now).add(seconds=settings.current().look_ahead_seconds)
    before = read_look_ahead()
    shards = max(settings.current().due_shards, before.due_shards)
    found = due_until(max(now, horizon), shards=shards)
    report = TickReport()

    overdue = [(due_at, dag_id) for due_at, dag_id in found if due_at <= now]
    known = [due_at for due_at, _ in overdue if due_at != UNKNOWN]
    if known:
        report.backlog_seconds = now.timestamp() - min(known).timestamp()
    try:
        # First, because it is quick: a long backlog must not delay what is due in a moment.
        covered = max(now, before.covered_until or now)
        if horizon > covered:
            ahead = [(dag_id, at) for at, dag_id in found if covered < at <= horizon]
            report.sent_ahead = queues.send_claims(ahead)
            # After sending: what was not sent must be sent by the next tick.
            raise_covered_until(horizon, due_shards=shards)
    finally:
        report.add(claim_all((dag_id for _, dag_id in overdue), has_time=has_time))
    return report


# The due index.


class DueDag(NamedTuple):
    """A DAG as the index knows it."""

    due_at: DateTime
    dag_id: str


def due_until(until: DateTime, *, shards: int) -> list[DueDag]:
    """Return every DAG that the index has up to an instant, oldest first, whatever their number."""
    found = sorted(pair for shard in range(shards) for pair in due_keys(shard, until))
    return [DueDag(_instant(text, dag_id), dag_id) for text, dag_id in found]


def _instant(text: str, dag_id: str) -> DateTime:
    try:
        return parse_instant(text)
    except ValueError:
        # The row is malformed. It counts as due, so that the claim marks and skips it.
        log.exception("due time is malformed", extra={"dag_id": dag_id})
        return UNKNOWN
