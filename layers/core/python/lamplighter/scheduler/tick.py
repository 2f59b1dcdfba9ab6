"""The minute timer: claims what is due, and sends ahead what comes due before the next ticks.

Owns: the look-ahead. Its messages reach the claim in the second in which a DAG is due. A lost tick
costs nothing if earlier ticks looked ahead far enough; a lost message costs a minute, because every
tick reads everything that is overdue.
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

# The due time of a DAG whose row is malformed.
UNKNOWN = DateTime(1970, 1, 1, tzinfo=UTC)


@dataclass
class TickReport(ClaimReport):
    """What a tick claimed and sent ahead."""

    sent_ahead: int = 0  # DAGs that are due soon and were sent as delayed messages.
    # The age of the oldest due time that the tick found.
    backlog_seconds: float = 0.0


def tick(*, scheduled_at: DateTime | None = None, has_time: Callable[[], bool]) -> TickReport:
    """Claim what is due and look ahead; `scheduled_at` is the minute that the tick is for."""
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
        # First, because it is quick: a long backlog must not delay what is due soon.
        covered = max(now, before.covered_until or now)
        if horizon > covered:
            ahead = [(dag_id, at) for at, dag_id in found if covered < at <= horizon]
            report.sent_ahead = queues.send_claims(ahead)
            # After sending: if sending fails, the next tick must repeat it.
            raise_covered_until(horizon, due_shards=shards)
    finally:
        report.add(claim_all((dag_id for _, dag_id in overdue), has_time=has_time))
    return report


# The due index.


class DueDag(NamedTuple):
    """An entry of the due index."""

    due_at: DateTime
    dag_id: str


def due_until(until: DateTime, *, shards: int) -> list[DueDag]:
    """Return all DAGs in the index up to an instant, oldest first."""
    found = sorted(pair for shard in range(shards) for pair in due_keys(shard, until))
    return [DueDag(_instant(text, dag_id), dag_id) for text, dag_id in found]


def _instant(text: str, dag_id: str) -> DateTime:
    try:
        return parse_instant(text)
    except ValueError:
        # The row is malformed. It counts as due, so that the claim marks and skips it.
        log.exception("due time is malformed", extra={"dag_id": dag_id})
        return UNKNOWN
