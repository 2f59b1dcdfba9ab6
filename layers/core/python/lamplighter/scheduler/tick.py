"""The minute timer: claims what is due, and sends ahead what comes due before the next ticks.

Owns: the look-ahead. Messages reach the claim in the second in which a DAG is due; a tick that was
lost costs nothing as long as the ticks before it looked far enough, and a lost message costs a
minute, since every tick reads again all that is overdue.
"""

from collections.abc import Callable

from pendulum import DateTime

from lamplighter import clock, queues, settings
from lamplighter.scheduler.claim import claim_all
from lamplighter.scheduler.report import TickReport
from lamplighter.store.catalog import raise_covered_until, read_look_ahead


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
