"""The minute timer: claims what is due, and sends ahead what comes due before the next ticks.

Owns: the look-ahead. Messages reach the claim in the second in which a DAG is due; a tick that was
lost costs nothing as long as the ticks before it looked far enough, and a lost message costs a
minute, since every tick reads again all that is overdue.
"""

from collections.abc import Callable, Sequence

from pendulum import DateTime

from lamplighter import clock, queues, settings
from lamplighter.scheduler.claim import claim_all
from lamplighter.scheduler.due import DueDag, due_until
from lamplighter.scheduler.report import TickReport
from lamplighter.store.look_ahead import covered_until, raise_covered_until


def tick(*, scheduled_at: DateTime | None = None, has_time: Callable[[], bool]) -> TickReport:
    """Claim all that is due, look ahead, and report.

    `scheduled_at` is the minute that this tick stands for; it may start any time after it.
    """
    now = clock.now()
    horizon = min(scheduled_at or now, now).add(seconds=settings.current().look_ahead_seconds)
    found = due_until(max(now, horizon))
    report = TickReport()

    overdue = [(due_at, dag_id) for due_at, dag_id in found if due_at <= now]
    if overdue:  # the oldest comes first
        report.backlog_seconds = now.timestamp() - overdue[0][0].timestamp()
    try:
        # First, because it is quick: a long backlog must not delay what is due in a moment.
        report.sent_ahead = _look_ahead(found, now, horizon)
    finally:
        report.add(claim_all((dag_id for _, dag_id in overdue), has_time=has_time))
    return report


def _look_ahead(found: Sequence[DueDag], now: DateTime, horizon: DateTime) -> int:
    """Send messages for what comes due, as far as no tick has yet; return how many."""
    covered = max(now, covered_until() or now)
    if horizon <= covered:
        return 0
    sent = queues.send_claims((dag_id, at) for at, dag_id in found if covered < at <= horizon)
    raise_covered_until(horizon)
    return sent
