"""The position of a schedule on a DAG's row, and how it advances. Assigns only.

Owns: the columns `last_…` (position), `next_…` (next run), and those of a replaced schedule. The
position is never derived from past runs, so expiring or backfilling runs cannot move it.
"""

import json
from copy import copy
from dataclasses import dataclass
from functools import lru_cache

from pendulum import DateTime

from lamplighter import clock, settings
from lamplighter.errors import UNREADABLE, DefinitionError, in_short
from lamplighter.loading import author_code_as_data
from lamplighter.scheduler.schedules import (
    MAX_STEPS,
    PrecomputedRunsExhausted,
    RunSource,
    Schedule,
    TimetableRuns,
    followed_until,
    precomputed_runs_of,
    schedule_in_force,
    timed,
)
from lamplighter.store.models import Dags
from lamplighter.timetables.base import DagRunInfo, DataInterval, Timetable, decode_timetable, place
from lamplighter.timetables.simple import ContinuousTimetable


@lru_cache(maxsize=4096)
def read_timetable(text: str) -> Timetable:
    """Return the timetable of a document; a custom one as a stand-in."""
    with author_code_as_data():
        return decode_timetable(json.loads(text))


def timetable_of(row: Dags) -> Timetable:
    """Return the timetable in force; DAGs with the same schedule share one."""
    return read_timetable(schedule_in_force(row).timetable)


def timetable_runs(row: Dags) -> TimetableRuns:
    """Return the runs of a DAG with a built-in timetable."""
    schedule = schedule_in_force(row)
    return TimetableRuns(read_timetable(schedule.timetable), schedule.earliest, schedule.latest)


def run_source_of(row: Dags) -> RunSource:
    """Return the source of a DAG's runs; those of a custom timetable are read from the store."""
    return precomputed_runs_of([row]).get(row.dag_id) or timetable_runs(row)


def is_continuous(row: Dags) -> bool:
    """Return whether each run begins where the last one ended."""
    return isinstance(timed(timetable_of(row)), ContinuousTimetable)


# The columns.


def position(row: Dags) -> DagRunInfo | None:
    """Return the last run of the schedule."""
    return _info(row.last_run_after, row.last_interval_start, row.last_interval_end)


def stored_next(row: Dags) -> DagRunInfo | None:
    """Return the announced next run."""
    return _info(
        row.next_run_after, row.next_interval_start, row.next_interval_end, row.next_partition_key
    )


def _info(
    run_after: DateTime | None,
    start: DateTime | None,
    end: DateTime | None,
    partition_key: str | None = None,
) -> DagRunInfo | None:
    if run_after is None:
        return None
    interval = None if start is None else DataInterval(start, end or run_after)
    return DagRunInfo(run_after, interval, partition_key=partition_key)


def set_position(row: Dags, info: DagRunInfo) -> None:
    """Set the last run of the schedule."""
    start, end = info.data_interval or (None, None)
    row.last_run_after = info.run_after
    row.last_interval_start, row.last_interval_end = start, end


def set_next(row: Dags, info: DagRunInfo | None) -> None:
    """Set the next run; None if there are no more."""
    start, end = (info and info.data_interval) or (None, None)
    row.next_interval_start, row.next_interval_end = start, end
    row.next_run_after = info.run_after if info else None
    row.next_run = place(info) if info else None
    row.next_partition_key = info.partition_key if info else None


# Moving on.


@dataclass(frozen=True)
class Due:
    """Runs to create now, oldest first, and the one that comes after them."""

    runs: tuple[DagRunInfo, ...]
    then: DagRunInfo | None


def runs_due(
    run_source: RunSource, first: DagRunInfo, *, catchup: bool, now: DateTime, limit: int
) -> Due:
    """Return the due runs from `first` on, `limit` at most; without catchup, only the newest."""
    if first.run_after > now or limit < 1:
        return Due((), first)
    if not catchup:
        first = newest_due(run_source, first, now=now)
        return Due((first,), run_source.after(first, catchup=True))
    runs: list[DagRunInfo] = []
    following: DagRunInfo | None = first
    while following is not None and following.run_after <= now and len(runs) < limit:
        try:
            then = run_source.after(following, catchup=True)
        except PrecomputedRunsExhausted:
            if not runs:
                raise
            break  # this one is created when the sandbox has computed what follows it
        runs.append(following)
        following = then
    return Due(tuple(runs), following)


def newest_due(run_source: RunSource, stored: DagRunInfo, *, now: DateTime) -> DagRunInfo:
    """Return the run that stands for all missed ones, given the stored run, which is due.

    That is the stored run if the one after it is not due yet. Otherwise the timetable is asked
    without catchup; if it answers with a future run, the missed runs are enumerated instead.
    """
    following = run_source.after(stored, catchup=True)
    if following is None or following.run_after > now:
        return stored
    with clock.at(now):
        skipped = run_source.after(stored, catchup=False)
    newest = skipped if skipped is not None and skipped.run_after <= now else following
    for _ in range(MAX_STEPS):
        following = run_source.after(newest, catchup=True)
        if following is None or following.run_after > now:
            break
        newest = following
    return newest


def newest_missed(
    row: Dags, run_source: RunSource, stored: DagRunInfo, *, now: DateTime
) -> DagRunInfo:
    """Return the newest due run of the schedule in force."""
    until = followed_until(row, now)
    if is_continuous(row):
        return continuous_now(row, stored, now=until)
    return newest_due(run_source, stored, now=until)


def next_continuous(row: Dags, last_end: DateTime | None, *, now: DateTime) -> DagRunInfo | None:
    """Return the announced next run of `@continuous`: where it begins and when it may start.

    That is a gap after the last run began, or else runs that end at once would follow each other
    without pause. A run that lasts longer holds the only slot until its end, and is followed then.
    """
    bounds = schedule_in_force(row)
    start = last_end or bounds.earliest or now
    gap = settings.current().continuous_gap_seconds if last_end is not None else 0
    at = start.add(seconds=gap)
    if bounds.latest is not None and at > bounds.latest:
        return None
    return DagRunInfo(at, DataInterval(start, at))


def continuous_now(row: Dags, stored: DagRunInfo, *, now: DateTime) -> DagRunInfo:
    """Return the run of `@continuous` that is claimed now: it ends now."""
    assert stored.data_interval is not None
    start, latest = stored.data_interval.start, schedule_in_force(row).latest
    end = now if latest is None else min(now, latest)
    # Never empty: the next run begins at its end, and the start of a run is its key.
    return DagRunInfo(end, DataInterval(start, max(end, start.add(microseconds=1))))


# A push replaces the schedule: due runs of the previous one are created first.


def keep_previous_if_due(row: Dags, old: Schedule, *, now: DateTime) -> None:
    """Keep following the schedule that was just replaced if runs of it are due."""
    # If a previous one is still followed, it stays: the one in between was never in force.
    if row.schedule_switch_at is None and is_owing(row, now=now):
        keep_previous(row, old, now=now)


def keep_previous(row: Dags, old: Schedule, *, now: DateTime) -> None:
    """Follow a replaced schedule up to its last due run."""
    row.previous_schedule = old.as_json()
    try:
        row.schedule_switch_at = _last_due(row, now)
    except UNREADABLE:  # it cannot be followed
        drop_previous(row)


def is_owing(row: Dags, *, now: DateTime) -> bool:
    """Return whether the next run of the schedule in force is due."""
    return row.next_run_after is not None and row.next_run_after <= now


def drop_previous(row: Dags) -> None:
    """Follow the row's own schedule."""
    row.previous_schedule = row.schedule_switch_at = None


def _last_due(row: Dags, now: DateTime) -> DateTime:
    """Return the run-after of the last due run; now, if that is unknown."""
    stored = stored_next(row)
    if schedule_in_force(row).is_custom or is_continuous(row) or stored is None:
        return now
    rule = timetable_runs(row)
    newest = newest_due(rule, stored, now=now)
    following = rule.after(newest, catchup=True)
    return now if following is not None and following.run_after <= now else newest.run_after


# Moving on.


def advance(row: Dags, due: Due, *, now: DateTime) -> None:
    """Move the schedule past runs that were created or skipped."""
    set_position(row, due.runs[-1])
    set_next(row, due.then)
    switch_if_done(row, now=now)


def switch_if_done(row: Dags, *, now: DateTime) -> None:
    """Switch to the new schedule if all runs that were due at the push are created."""
    following = row.next_run_after
    if row.schedule_switch_at is not None and (
        following is None or following > row.schedule_switch_at
    ):
        switch_schedule(row, now=now)


def switch_schedule(row: Dags, *, now: DateTime) -> None:
    """Switch to the new schedule, from the position of the old one."""
    drop_previous(row)
    if row.is_custom:
        # The sandbox must be asked first. Until then the DAG stays due, so that the claim requests
        # it, with a next run that already exists and so cannot be created again.
        set_next(row, position(row))
    else:
        # With catchup: claims skip missed runs themselves; here a timetable could skip them all.
        ask_schedule(row, now=now, catchup=True)


def has_switched(row: Dags) -> bool:
    """Return whether the schedule has switched since the row was read.

    The caller's runs are then those of the old one; the next claim continues.
    """
    return row.schedule_switch_at is None and row.stored.get("schedule_switch_at") is not None


def after_previous(row: Dags, newest: DagRunInfo, *, now: DateTime) -> Dags:
    """Return a copy of the row as it is after the last due run of the old schedule."""
    later = copy(row)
    later.attribute_values = dict(row.attribute_values)
    set_position(later, newest)
    switch_schedule(later, now=now)
    return later


# Built-in timetables.


def ask_schedule(row: Dags, *, now: DateTime, catchup: bool | None = None) -> None:
    """Set the next run from the built-in timetable and the position."""
    if row.schedule_switch_at is not None:
        return  # until then, the next run is the old schedule's
    row.schedule_error = None
    try:
        with clock.at(now):
            info = next_run_of(row, now=now, catchup=row.catchup if catchup is None else catchup)
    except DefinitionError as error:
        info = None
        row.schedule_error = in_short(error)
    set_next(row, info)


def next_run_of(row: Dags, *, now: DateTime, catchup: bool) -> DagRunInfo | None:
    """Return the run after the row's position."""
    if is_continuous(row):
        end = row.last_interval_end
        if end is not None and end == row.last_interval_start:
            # The run of another schedule at this very instant already has this key.
            end = end.add(microseconds=1)
        return next_continuous(row, end, now=now)
    return timetable_runs(row).after_another(position(row), catchup=catchup)
