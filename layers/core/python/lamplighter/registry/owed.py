"""Owed runs of a DAG: counting and skipping them."""

from collections.abc import Sequence

from pendulum import DateTime

from lamplighter.errors import DefinitionError
from lamplighter.registry.custom_timetables import query_after, query_sandbox
from lamplighter.registry.sandbox import Sandbox
from lamplighter.scheduler import cursor
from lamplighter.scheduler.cursor import Due
from lamplighter.scheduler.schedules import (
    PrecomputedRunsExhausted,
    RunSource,
    followed_until,
    schedule_in_force,
)
from lamplighter.store.models import Dags
from lamplighter.store.transactions import Write
from lamplighter.timetables.base import DagRunInfo

# Limits for enumerating the owed runs of a custom timetable.
_RUNS_PER_CALL, _MAX_CALLS = 5_000, 20


# Counting.


def count_owed(row: Dags, *, now: DateTime, stop_at: int) -> int:
    """Return how many runs a row owes, including those of an old schedule, up to `stop_at`."""
    try:
        return _count(row, cursor.run_source_of(row), now=now, stop_at=stop_at)
    except PrecomputedRunsExhausted:
        return 1  # at least the next one


def _count(row: Dags, run_source: RunSource, *, now: DateTime, stop_at: int) -> int:
    stored = cursor.stored_next(row)
    if stored is None or stored.run_after > now or stop_at < 1:
        return 0
    until = followed_until(row, now)
    if cursor.is_continuous(row):
        due = Due((cursor.continuous_now(row, stored, now=until),), None)
    else:
        catchup = schedule_in_force(row).catchup
        due = cursor.runs_due(run_source, stored, catchup=catchup, now=until, limit=stop_at)
    count = len(due.runs)
    if row.schedule_switch_at is None or (
        due.then is not None and due.then.run_after <= row.schedule_switch_at
    ):
        return count
    later = cursor.after_previous(row, due.runs[-1], now=now)
    if later.is_custom:
        return count  # the rest is not precomputed yet
    return count + _count(later, cursor.timetable_runs(later), now=now, stop_at=stop_at - count)


# Skipping: the schedule continues as if they had been created.


def skip_owed(row: Dags, *, now: DateTime) -> Sequence[Write]:
    """Move the schedule past the last due run; return the other writes."""
    if row.schedule_switch_at is not None:
        _skip_old(row, now)
    stored = cursor.stored_next(row)
    if stored is None or stored.run_after > now:
        return []
    if schedule_in_force(row).is_custom:
        sandbox = _skip_custom(row, now)
        query = query_after(row, row.dag_id, schedule_in_force(row).file, now=now)
        return [query_sandbox(sandbox, [query])[row.dag_id].apply(row)]
    if cursor.is_continuous(row):
        cursor.set_next(row, cursor.next_continuous(row, now, now=now))
    else:
        _skip_built_in(row, stored, now)
    return []


def _skip_old(row: Dags, now: DateTime) -> None:
    stored, until = cursor.stored_next(row), followed_until(row, now)
    if schedule_in_force(row).is_custom:
        _skip_custom(row, until)
    elif stored is not None and cursor.is_continuous(row):
        cursor.set_position(row, cursor.continuous_now(row, stored, now=until))
    elif stored is not None:
        _skip_built_in(row, stored, until)
    if row.schedule_switch_at is not None:
        cursor.switch_schedule(row, now=now)


def _skip_built_in(row: Dags, stored: DagRunInfo, now: DateTime) -> None:
    rule = cursor.timetable_runs(row)
    newest = cursor.newest_due(rule, stored, now=now)
    cursor.advance(row, Due((newest,), rule.after(newest, catchup=True)), now=now)


def _skip_custom(row: Dags, now: DateTime) -> Sandbox:
    """Query a custom timetable until it returns future runs; return its sandbox."""
    schedule = schedule_in_force(row)
    sandbox = Sandbox(schedule.bundle, schedule.bundle_version)
    for _ in range(_MAX_CALLS):
        query = query_after(row, row.dag_id, schedule.file, now=now, count=_RUNS_PER_CALL)
        try:
            found = query_sandbox(sandbox, [query], limit=_RUNS_PER_CALL)[row.dag_id]
        except DefinitionError:  # the bundle was deleted
            break
        due = [info for info in found.runs if info.run_after <= now]
        if due:
            cursor.set_position(row, due[-1])
        if len(due) < len(found.runs) or not due:
            break
    return sandbox
