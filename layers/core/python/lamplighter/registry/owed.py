"""Owed runs of a DAG: counting and skipping them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pendulum import DateTime

from lamplighter.dags.upcoming import MAX_OWED_COUNTED
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


# Counting. It is informational, and must not delay whoever counts.


class OwedRuns(NamedTuple):
    """How many owed runs were counted, and whether these are all."""

    known: int
    is_all: bool


class Countdown:
    """Whether there is time left for all that shares it, by the machine's own clock."""

    def __init__(self, seconds: float = 10.0) -> None:
        self._until = time.monotonic() + seconds

    def __call__(self) -> bool:
        return time.monotonic() < self._until


@dataclass
class _WhileTimeLasts:
    """The runs of a source, until the time is up: some timetables take a second for each."""

    source: RunSource
    has_time: Callable[[], bool]
    was_stopped: bool = False

    def after(self, last: DagRunInfo | None, *, catchup: bool) -> DagRunInfo | None:
        if self.has_time():
            return self.source.after(last, catchup=catchup)
        self.was_stopped = True
        return None


def count_owed(row: Dags, *, now: DateTime, has_time: Callable[[], bool]) -> OwedRuns:
    """Return how many runs a row owes, including those of an old schedule."""
    try:
        source = _WhileTimeLasts(cursor.run_source_of(row), has_time)
        count = _count(row, source, now=now, stop_at=MAX_OWED_COUNTED)
    except PrecomputedRunsExhausted:
        return OwedRuns(1, is_all=False)  # at least the next one
    return OwedRuns(count, is_all=count < MAX_OWED_COUNTED and not source.was_stopped)


def _count(row: Dags, run_source: _WhileTimeLasts, *, now: DateTime, stop_at: int) -> int:
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
    if run_source.was_stopped:
        return count
    if row.schedule_switch_at is None or (
        due.then is not None and due.then.run_after <= row.schedule_switch_at
    ):
        return count
    later = cursor.after_previous(row, due.runs[-1], now=now)
    if later.is_custom:
        return count  # the rest is not precomputed yet
    run_source.source = cursor.timetable_runs(later)
    return count + _count(later, run_source, now=now, stop_at=stop_at - count)


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
