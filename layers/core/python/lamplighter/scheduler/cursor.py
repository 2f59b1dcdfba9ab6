"""Where a schedule stands on a DAG's row, and how it moves on. Reads and assigns, writes nothing.

Owns: the columns `last_…` (the position), `next_…` (the run that comes next), and those of a
schedule that a push has replaced. The position is never derived from the history of runs, so that
expiring old runs or backfilling cannot move it.
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
    """Return the timetable that a document describes; an author's own as a stand-in."""
    with author_code_as_data():
        return decode_timetable(json.loads(text))


def timetable_of(row: Dags) -> Timetable:
    """Return the timetable that claims follow; DAGs with the same schedule share one."""
    return read_timetable(schedule_in_force(row).timetable)


def timetable_runs(row: Dags) -> TimetableRuns:
    """Return the runs of a DAG with a built-in timetable."""
    schedule = schedule_in_force(row)
    return TimetableRuns(read_timetable(schedule.timetable), schedule.earliest, schedule.latest)


def run_source_of(row: Dags) -> RunSource:
    """Return the source of a DAG's runs; those of an author's timetable are read."""
    return precomputed_runs_of([row]).get(row.dag_id) or timetable_runs(row)


def is_continuous(row: Dags) -> bool:
    """Return whether each run begins where the one before ended."""
    return isinstance(timed(timetable_of(row)), ContinuousTimetable)


# The columns.


def position(row: Dags) -> DagRunInfo | None:
    """Return the last run that the schedule gave."""
    return _info(row.last_run_after, row.last_interval_start, row.last_interval_end)


def stored_next(row: Dags) -> DagRunInfo | None:
    """Return the run that comes next, as it was announced."""
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
    """Let `info` be the last run that the schedule gave."""
    start, end = info.data_interval or (None, None)
    row.last_run_after = info.run_after
    row.last_interval_start, row.last_interval_end = start, end


def set_next(row: Dags, info: DagRunInfo | None) -> None:
    """Let `info` be the run that comes next; None means that there is no more."""
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
    """Return the runs that are due from `first` on, at most so many.

    Without catchup it is one: the newest.
    """
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
            break  # this one is created when the sandbox has said what follows it
        runs.append(following)
        following = then
    return Due(tuple(runs), following)


def newest_due(run_source: RunSource, stored: DagRunInfo, *, now: DateTime) -> DagRunInfo:
    """Return the run that stands for all that were missed, given the stored one, which is due.

    The stored run stands if the one after it is not due yet. Otherwise the timetable is asked
    without catchup. Some timetables then answer with the future; for them the missed runs are
    walked through, so that none can lose its run.
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
    """Return the next run of `@continuous` as it can be announced: where it begins, when it may."""
    bounds = schedule_in_force(row)
    start = last_end or bounds.earliest or now
    at = start.add(seconds=settings.current().continuous_gap_seconds)
    if bounds.latest is not None and at > bounds.latest:
        return None
    return DagRunInfo(at, DataInterval(start, at))


def continuous_now(row: Dags, stored: DagRunInfo, *, now: DateTime) -> DagRunInfo:
    """Return the run of `@continuous` that is claimed now: it reaches up to this moment."""
    assert stored.data_interval is not None
    latest = schedule_in_force(row).latest
    end = now if latest is None else min(now, latest)
    return DagRunInfo.interval(stored.data_interval.start, end)


# A push replaces the schedule: due runs of the previous one are created, then the new begins.


def keep_previous_if_due(row: Dags, old: Schedule, *, now: DateTime) -> None:
    """Let claims follow the schedule that was just replaced, if runs of it are due."""
    # One that is followed already stays: the schedule between was never in force.
    if row.schedule_switch_at is None and is_owing(row, now=now):
        keep_previous(row, old, now=now)


def keep_previous(row: Dags, old: Schedule, *, now: DateTime) -> None:
    """Let claims follow a schedule up to the last of its runs that is due."""
    row.previous_schedule = old.as_json()
    try:
        row.schedule_switch_at = _last_due(row, now)
    except UNREADABLE:  # nobody could follow it
        drop_previous(row)


def is_owing(row: Dags, *, now: DateTime) -> bool:
    """Return whether the next run of the schedule in force is due."""
    return row.next_run_after is not None and row.next_run_after <= now


def drop_previous(row: Dags) -> None:
    """Let claims follow the row's own schedule."""
    row.previous_schedule = row.schedule_switch_at = None


def _last_due(row: Dags, now: DateTime) -> DateTime:
    """Return when the last due run may be created; where that is not known, no later than now."""
    stored = stored_next(row)
    if schedule_in_force(row).is_custom or is_continuous(row) or stored is None:
        return now
    rule = timetable_runs(row)
    newest = newest_due(rule, stored, now=now)
    following = rule.after(newest, catchup=True)
    return now if following is not None and following.run_after <= now else newest.run_after


# Moving on.


def advance(row: Dags, due: Due, *, now: DateTime) -> None:
    """Let the schedule stand after runs that were created or skipped."""
    set_position(row, due.runs[-1])
    set_next(row, due.then)
    switch_if_done(row, now=now)


def switch_if_done(row: Dags, *, now: DateTime) -> None:
    """Begin the new schedule if all runs of the old one that were due at the push are created."""
    following = row.next_run_after
    if row.schedule_switch_at is not None and (
        following is None or following > row.schedule_switch_at
    ):
        switch_schedule(row, now=now)


def switch_schedule(row: Dags, *, now: DateTime) -> None:
    """Begin the new schedule where the old one stands."""
    drop_previous(row)
    if row.is_custom:
        # The sandbox must be asked first. Until then the DAG stays due, so that the claim asks for
        # it, with a next run that exists already and therefore cannot be created again.
        set_next(row, position(row))
    else:
        # Claims skip what is due without catchup; a timetable that did so here could skip it all.
        ask_schedule(row, now=now, catchup=True)


def has_switched(row: Dags) -> bool:
    """Return whether the schedule has changed since the row was read.

    What the caller knows of its runs is then of the old one; the next claim goes on.
    """
    return row.schedule_switch_at is None and row.stored.get("schedule_switch_at") is not None


def after_previous(row: Dags, newest: DagRunInfo, *, now: DateTime) -> Dags:
    """Return a copy of the row as it will be when the old schedule has had its last due run."""
    later = copy(row)
    later.attribute_values = dict(row.attribute_values)
    set_position(later, newest)
    switch_schedule(later, now=now)
    return later


# Asking a built-in timetable.


def ask_schedule(row: Dags, *, now: DateTime, catchup: bool | None = None) -> None:
    """Let the next run be what the built-in timetable says, from where the schedule stands."""
    if row.schedule_switch_at is not None:
        return  # the next run is the old schedule's, until then
    row.schedule_error = None
    try:
        with clock.at(now):
            info = next_run_of(row, now=now, catchup=row.catchup if catchup is None else catchup)
    except DefinitionError as error:
        info = None
        row.schedule_error = in_short(error)
    set_next(row, info)


def next_run_of(row: Dags, *, now: DateTime, catchup: bool) -> DagRunInfo | None:
    """Return the run that follows the row's position."""
    if is_continuous(row):
        end = row.last_interval_end
        if end is not None and end == row.last_interval_start:
            # Another schedule's run at this very instant has the key that this one would take.
            end = end.add(microseconds=1)
        return next_continuous(row, end, now=now)
    return timetable_runs(row).after_another(position(row), catchup=catchup)
