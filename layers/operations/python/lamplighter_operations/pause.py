"""Pauses and unpauses DAGs."""

from collections.abc import Callable, Sequence
from enum import StrEnum

from pendulum import DateTime

from lamplighter import clock, queues
from lamplighter.errors import RefusedError, TransientError
from lamplighter.scheduler import asset_bounds, cursor, schedules
from lamplighter.scheduler.pending import pending_of
from lamplighter.scheduler.schedules import PrecomputedRunsExhausted, RunSource, schedule_in_force
from lamplighter.store.backfills import newest_of
from lamplighter.store.dags import change_dag, require_dag
from lamplighter.store.models import Dags
from lamplighter.store.slots import announcement
from lamplighter.store.transactions import TransactionCanceled, Write, retry_attempts
from lamplighter.timetables.base import DagRunInfo

_MAX_STEPS = 10_000


def pause(dag_id: str) -> Dags:
    """Pause a DAG; it leaves the due index in the same write."""

    def change(row: Dags) -> Sequence[Write] | None:
        if row.is_paused:
            return None
        row.is_paused = True
        return []

    return change_dag(dag_id, change) or require_dag(dag_id)


class Missed(StrEnum):
    """What to do with the runs missed while a DAG was paused."""

    ALL = "catchup"
    LATEST = "latest"
    NONE = "from-now"


def unpause(dag_id: str, *, missed: Missed | None = None, keep_events: bool | None = None) -> Dags:
    """Unpause a DAG; by default, its catchup decides about missed runs.

    Args:
        dag_id: The DAG.
        missed: Which missed runs to create: all, the latest, or none.
        keep_events: Whether pending asset events are kept; by default only if all runs are.
    """
    now = clock.now()

    def change(row: Dags) -> Sequence[Write] | None:
        if not row.is_paused:
            return None
        row.is_paused = False
        row.pause_reason = row.consecutive_failed_runs = None
        asset_bounds.forget_runs(row)
        catchup = schedule_in_force(row).catchup
        _deal_with_missed(row, missed or (Missed.ALL if catchup else Missed.LATEST), now)
        choice = missed or (Missed.ALL if row.catchup else Missed.LATEST)
        is_kept = choice is Missed.ALL if keep_events is None else keep_events
        return [] if is_kept else _drop_pending(row, now)

    if missed is Missed.NONE:
        change_dag(dag_id, lambda row: _leave_old_schedule(row, now))
    row = _change_unless_moved(dag_id, change) or require_dag(dag_id)
    queues.announce_due(announcement(row))
    # Runs in progress continue, and so does a backfill.
    backfill = newest_of(row)
    held = set(row.active or ()) | set((backfill and backfill.active) or ())
    queues.send_submits((dag_id, key) for key in sorted(held))
    if backfill is not None and backfill.due_shard is not None:
        queues.send_backfills([backfill.backfill_id])
    return row


def _leave_old_schedule(row: Dags, now: DateTime) -> Sequence[Write] | None:
    """Switch a paused DAG to its new schedule, skipping the runs owed under the old one.

    A separate write: a new custom timetable must be queried first.
    """
    stored = cursor.stored_next(row)
    if not row.is_paused or row.schedule_switch_at is None or stored is None:
        return None
    newest, _ = _newest_missed(row, cursor.run_source_of(row), stored, Missed.NONE, now)
    cursor.set_position(row, newest)
    cursor.switch_schedule(row, now=now)
    return []


def _deal_with_missed(row: Dags, choice: Missed, now: DateTime) -> None:
    stored = cursor.stored_next(row)
    row.catch_up_until = None
    if stored is None or stored.run_after > now:
        return
    if choice is Missed.ALL:
        row.catch_up_until = None if schedule_in_force(row).catchup else now
    elif not cursor.is_continuous(row):
        _skip(row, stored, choice, now)
    elif choice is Missed.NONE:
        cursor.set_next(row, cursor.next_continuous(row, now, now=now))


def _skip(row: Dags, stored: DagRunInfo, choice: Missed, now: DateTime) -> None:
    """Set the next run to the newest missed one, or to the one after it."""
    run_source, catchup = cursor.run_source_of(row), schedule_in_force(row).catchup
    try:
        newest, following = _newest_missed(row, run_source, stored, choice, now)
    except PrecomputedRunsExhausted:
        return  # the claim decides when the runs are precomputed
    if row.schedule_switch_at is not None:
        later = cursor.after_previous(row, newest, now=now)
        if not later.is_custom and cursor.is_owing(later, now=now):
            # The new schedule has missed runs too, so none of the old one is the latest.
            cursor.set_position(row, newest)
            cursor.switch_schedule(row, now=now)
            _deal_with_missed(row, choice, now)
            return
    # Skipped runs count as done: a later change of the schedule begins after them.
    done = newest if choice is Missed.NONE else _run_before(newest, run_source, stored)
    if done is not None and (catchup or choice is Missed.NONE):
        cursor.set_position(row, done)
    cursor.set_next(row, following if choice is Missed.NONE else newest)
    cursor.switch_if_done(row, now=now)


def _newest_missed(
    row: Dags, run_source: RunSource, stored: DagRunInfo, choice: Missed, now: DateTime
) -> tuple[DagRunInfo, DagRunInfo | None]:
    """Return the newest missed run, and the one after it."""
    try:
        newest = cursor.newest_missed(row, run_source, stored, now=now)
        is_continuous = cursor.is_continuous(row)
        return newest, None if is_continuous else run_source.after(newest, catchup=True)
    except PrecomputedRunsExhausted as error:
        schedules.request_refill([row.dag_id])
        if schedule_in_force(row).catchup or choice is Missed.NONE:
            raise RefusedError(
                f"DAG {row.dag_id!r} has a custom timetable that has not been evaluated up to now:"
                " try again in a minute, or catch up on all missed runs"
            ) from error
        raise


def _run_before(newest: DagRunInfo, run_source: RunSource, first: DagRunInfo) -> DagRunInfo | None:
    """Return the run before the newest missed one, unless that is the first, or too far."""
    before, info = None, first
    for _ in range(_MAX_STEPS):
        if info == newest:
            return before
        following = run_source.after(info, catchup=True)
        if following is None:
            return None
        before, info = info, following
    return None


def _drop_pending(row: Dags, now: DateTime) -> list[Write]:
    row.asset_condition_met_at = None
    pending = pending_of([row])[row.dag_id]
    drops = [events.drop("dropped while paused", now) for events in pending.events.values()]
    # A concurrent event is dropped with the others, or finds the DAG unpaused.
    return [*drops, *pending.unchanged()]


def _change_unless_moved(
    dag_id: str, change: Callable[[Dags], Sequence[Write] | None]
) -> Dags | None:
    """Change a DAG's row and its pending events; retry if those change."""
    for _ in retry_attempts():
        try:
            return change_dag(dag_id, change)
        except TransactionCanceled:
            continue
    raise TransientError(f"the assets of DAG {dag_id!r} are being changed; try again")
