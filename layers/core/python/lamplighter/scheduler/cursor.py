"""Where a schedule stands on a DAG's row, and how it moves on. Reads and assigns, writes nothing.

Owns: the columns `last_…` (the position) and `next_…` (the run that comes next). The position is
never derived from the history of runs, so that expiring old runs or backfilling cannot move it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from pendulum import DateTime

from lamplighter import clock, settings
from lamplighter.dags.schedule import ask, next_run
from lamplighter.loading import author_code_as_data
from lamplighter.scheduler.schedules import schedule_in_force
from lamplighter.store.models import Dags
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from lamplighter.timetables.codec import decode_timetable
from lamplighter.timetables.interval import DataIntervalTimetable
from lamplighter.timetables.simple import ContinuousTimetable

# Missed runs that are walked through one by one, where a timetable has no shorter way.
_MAX_STEPS = 100_000


class RunSource(Protocol):
    """Anything that can say which run follows another."""

    def after(self, last: DagRunInfo | None, *, catchup: bool) -> DagRunInfo | None:
        """Return the run after `last`, or None when there is no more."""
        ...


class PrecomputedRunsExhausted(Exception):
    """The runs that the sandbox precomputed are used up; it must be asked for more."""


@dataclass(frozen=True)
class TimetableRuns:
    """The outlook of a built-in timetable: asked directly, within the bounds of the DAG."""

    timetable: Timetable
    earliest: DateTime | None
    latest: DateTime | None

    def after(self, last: DagRunInfo | None, *, catchup: bool) -> DagRunInfo | None:
        restriction = TimeRestriction(self.earliest, self.latest, catchup)
        return next_run(self.timetable, last, restriction)

    def after_another(self, last: DagRunInfo | None, *, catchup: bool) -> DagRunInfo | None:
        """Return the first run after `last`, which another schedule gave, that lies beyond it."""
        if last is None:
            return self.after(None, catchup=catchup)
        if last.data_interval is None:  # a partition; here, where it stands in time is what counts
            last = DagRunInfo.exact(last.run_after)
        if isinstance(timed(self.timetable), DataIntervalTimetable):
            return self._continue_from(last.data_interval or DataInterval.exact(last.run_after))
        restriction = TimeRestriction(self.earliest, self.latest, catchup)
        info = ask(self.timetable, last, restriction)
        for _ in range(_MAX_STEPS):
            if info is None or (_place(info) > _place(last) and info.run_after > last.run_after):
                break
            info = self.after(info, catchup=True)
        return info

    def _continue_from(self, last: DataInterval) -> DagRunInfo | None:
        """Return the first interval, cut to begin where another schedule's last one ended."""
        # A run without length has taken the key of this very instant.
        begin = last.end if last.end > last.start else last.end.add(microseconds=1)
        earliest = begin if self.earliest is None else max(begin, self.earliest)
        timetable = timed(self.timetable)
        assert isinstance(timetable, DataIntervalTimetable)
        rest = timetable.rest_of_interval(begin) if earliest == begin else None
        if rest is None:
            return replace(self, earliest=earliest).after(None, catchup=True)
        if self.latest is not None and begin > self.latest:
            return None
        return DagRunInfo.interval(*rest)


@dataclass(frozen=True)
class PrecomputedRuns:
    """The outlook of an author's timetable: what it said in the sandbox, with catchup on."""

    runs: Sequence[DagRunInfo]
    is_last: bool

    def after(
        self,
        last: DagRunInfo | None,
        *,
        catchup: bool,  # noqa: ARG002 - it was on when these were told; the claim skips among them
    ) -> DagRunInfo | None:
        for info in self.runs_after(last):
            return info
        if self.is_last:
            return None
        raise PrecomputedRunsExhausted

    def is_short_after(self, last: DagRunInfo | None) -> bool:
        """Return whether half of what was precomputed is used, and more should be asked for."""
        left = len(self.runs_after(last))
        return not self.is_last and 2 * left < len(self.runs)

    def runs_after(self, last: DagRunInfo | None) -> list[DagRunInfo]:
        """Return those that follow a run."""
        return [info for info in self.runs if last is None or _place(info) > _place(last)]


def _place(info: DagRunInfo) -> DateTime:
    return info.logical_date or info.run_after


@lru_cache(maxsize=4096)
def read_timetable(text: str) -> Timetable:
    """Return the timetable that a document describes; an author's own as a stand-in."""
    with author_code_as_data():
        return decode_timetable(json.loads(text))


def timetable_of(row: Dags) -> Timetable:
    """Return the timetable that claims follow; DAGs with the same schedule share one."""
    return read_timetable(schedule_in_force(row).timetable)


def timetable_runs(row: Dags) -> TimetableRuns:
    """Return the outlook of a row with a built-in timetable."""
    schedule = schedule_in_force(row)
    return TimetableRuns(read_timetable(schedule.timetable), schedule.earliest, schedule.latest)


def timed(timetable: Timetable) -> Timetable:
    """Return the part of a timetable that decides about times."""
    return timetable.timetable if isinstance(timetable, AssetOrTimeSchedule) else timetable


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
        row.next_run_after,
        row.next_interval_start,
        row.next_interval_end,
        row.next_partition_key,
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
    row.next_run = (info.logical_date or info.run_after) if info else None
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
    for _ in range(_MAX_STEPS):
        following = run_source.after(newest, catchup=True)
        if following is None or following.run_after > now:
            break
        newest = following
    return newest


def next_continuous(row: Dags, last_end: DateTime | None, *, now: DateTime) -> DagRunInfo | None:
    """Return the next run of `@continuous` as it can be announced: where it begins, when it may."""
    bounds = schedule_in_force(row)
    starts: tuple[DateTime | None, ...] = (last_end, bounds.earliest, now)
    start = next(instant for instant in starts if instant is not None)
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
