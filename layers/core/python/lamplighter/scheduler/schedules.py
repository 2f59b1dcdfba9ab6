"""The schedule in force of a DAG, and the source of its runs.

Owns: the column `previous_schedule`, and the Catalog rows of kind `runs`: the runs of custom
timetables that the sandbox precomputed, so that claims run no author code. Everything that needs a
DAG's next run starts here, so that all follow the same schedule.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, NamedTuple, Protocol

from pendulum import DateTime

from lamplighter import clock, queues
from lamplighter.errors import UNREADABLE
from lamplighter.store.catalog import PRECOMPUTED_RUNS, note_refill, read_precomputed_runs
from lamplighter.store.models import Catalog, Dags
from lamplighter.store.rows import Malformed
from lamplighter.store.transactions import Put
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import (
    DagRunInfo,
    DataInterval,
    TimeRestriction,
    Timetable,
    ask,
    next_run,
    place,
)
from lamplighter.timetables.interval import DataIntervalTimetable
from lamplighter.zones import iso, parse_instant

log = logging.getLogger(__name__)

# How many runs the sandbox precomputes.
PRECOMPUTED_COUNT = 64
_REFILL_AGAIN_SECONDS = 300
# The limit for enumerating missed runs one by one.
MAX_STEPS = 100_000
_INSTANTS = ("earliest", "latest")


class Schedule(NamedTuple):
    """A timetable with its bounds, and the definition that it comes from."""

    timetable: str  # JSON
    earliest: DateTime | None
    latest: DateTime | None
    catchup: bool
    is_custom: bool
    words: str  # for people
    version: str
    bundle: str
    bundle_version: str
    file: str

    @property
    def source(self) -> tuple[str, str, str]:
        """What identifies the definition of a custom timetable."""
        return (self.version, self.bundle, self.bundle_version)

    def as_json(self) -> dict[str, Any]:
        """Return the value of the column `previous_schedule`."""
        instants = {name: getattr(self, name) for name in _INSTANTS}
        texts = {name: value and iso(value) for name, value in instants.items()}
        return self._asdict() | texts

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Schedule":
        """Return the schedule in the column `previous_schedule`."""
        instants = {name: data[name] and parse_instant(data[name]) for name in _INSTANTS}
        return cls(**(data | instants))


def own_schedule(row: Dags) -> Schedule:
    """Return the schedule of the row's newest definition."""
    # Not as attributes of the row: a claim asks several times, and each costs a microsecond.
    values = row.attribute_values
    columns: dict[str, Any] = {name: values.get(name) for name in Schedule._fields}
    # What is not stored under its own name.
    others = {"words": row.schedule, "is_custom": bool(row.is_custom), "file": row.file}
    return Schedule(**columns | others)


def schedule_in_force(row: Dags) -> Schedule:
    """Return the schedule that claims follow."""
    if row.previous_schedule is not None:
        return Schedule.from_json(row.previous_schedule)
    return own_schedule(row)


def followed_until(row: Dags, now: DateTime) -> DateTime:
    """Return until when the schedule in force applies: now, or the switch to the next one."""
    return now if row.schedule_switch_at is None else min(now, row.schedule_switch_at)


# Sources of runs.


class RunSource(Protocol):
    """Returns the run that follows another."""

    def after(self, last: DagRunInfo | None, *, catchup: bool) -> DagRunInfo | None:
        """Return the run after `last`, or None if there are no more."""
        ...


class PrecomputedRunsExhausted(Exception):
    """The precomputed runs are used up; the sandbox must compute more."""


@dataclass(frozen=True)
class TimetableRuns:
    """The runs of a built-in timetable within the bounds of the DAG."""

    timetable: Timetable
    earliest: DateTime | None
    latest: DateTime | None

    def after(self, last: DagRunInfo | None, *, catchup: bool) -> DagRunInfo | None:
        restriction = TimeRestriction(self.earliest, self.latest, catchup)
        return next_run(self.timetable, last, restriction)

    def after_another(self, last: DagRunInfo | None, *, catchup: bool) -> DagRunInfo | None:
        """Return the first run after `last`, a run of another schedule."""
        if last is None:
            return self.after(None, catchup=catchup)
        if last.data_interval is None:  # a partition: only its position in time counts
            last = DagRunInfo.exact(last.run_after)
        if isinstance(timed(self.timetable), DataIntervalTimetable):
            return self._continue_from(last.data_interval or DataInterval.exact(last.run_after))
        restriction = TimeRestriction(self.earliest, self.latest, catchup)
        info = ask(self.timetable, last, restriction)
        for _ in range(MAX_STEPS):
            if info is None or (place(info) > place(last) and info.run_after > last.run_after):
                break
            info = self.after(info, catchup=True)
        return info

    def _continue_from(self, last: DataInterval) -> DagRunInfo | None:
        """Return the first interval, starting where the last one of another schedule ended."""
        # A run of zero length has taken the key of this instant.
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
    """The runs of a custom timetable, computed in the sandbox with catchup on."""

    runs: Sequence[DagRunInfo]
    is_last: bool

    @classmethod
    def of(
        cls, schedule: Schedule, runs: Sequence[DagRunInfo], *, is_last: bool
    ) -> "PrecomputedRuns":
        """Return the runs up to the end date, which an author's timetable may ignore."""
        latest = schedule.latest
        in_time = tuple(takewhile(lambda info: latest is None or place(info) <= latest, runs))
        return cls(in_time, is_last=is_last or len(in_time) < len(runs))

    def after(
        self,
        last: DagRunInfo | None,
        *,
        catchup: bool,  # noqa: ARG002 - computed with catchup on; the claim skips
    ) -> DagRunInfo | None:
        for info in self.runs_after(last):
            return info
        if self.is_last:
            return None
        raise PrecomputedRunsExhausted

    def is_short_after(self, last: DagRunInfo | None) -> bool:
        """Return whether half of them are used and more should be requested."""
        left = len(self.runs_after(last))
        return not self.is_last and 2 * left < len(self.runs)

    def runs_after(self, last: DagRunInfo | None) -> list[DagRunInfo]:
        """Return the runs after `last`."""
        return [info for info in self.runs if last is None or place(info) > place(last)]


def timed(timetable: Timetable) -> Timetable:
    """Return the time-based part of a timetable."""
    return timetable.timetable if isinstance(timetable, AssetOrTimeSchedule) else timetable


# Precomputed runs.


def precomputed_runs_of(rows: Iterable[Dags]) -> dict[str, PrecomputedRuns]:
    """Return the precomputed runs of the DAGs that have a custom timetable."""
    custom = dict(_custom_schedules(rows))
    runs_of = {dag_id: PrecomputedRuns((), is_last=False) for dag_id in custom}
    malformed: list[Malformed] = []
    for found in read_precomputed_runs(custom, malformed=malformed):
        # Those of another definition are ignored.
        schedule = custom[found.id]
        if (found.version, found.bundle, found.bundle_version) == schedule.source:
            try:
                runs = tuple(run_from_json(run) for run in found.runs)
            except UNREADABLE as error:
                malformed.append(Malformed((PRECOMPUTED_RUNS, found.id), str(error)))
            else:
                is_last = bool(found.is_last)
                runs_of[found.id] = PrecomputedRuns.of(schedule, runs, is_last=is_last)
    # The claim finds none and requests new ones.
    for (_, dag_id), problem in malformed:
        about = {"dag_id": dag_id, "error": problem}
        log.error("precomputed runs are malformed", extra=about)
    return runs_of


def _custom_schedules(rows: Iterable[Dags]) -> Iterator[tuple[str, Schedule]]:
    for row in rows:
        # If the previous schedule is unreadable, the claim reports it.
        with suppress(*UNREADABLE):
            schedule = schedule_in_force(row)
            if schedule.is_custom:
                yield row.dag_id, schedule


def request_refill(dag_ids: Iterable[str]) -> None:
    """Request more precomputed runs, unless that was done recently."""
    now = clock.now()
    recently = now.subtract(seconds=_REFILL_AGAIN_SECONDS)
    queues.send_refill(
        dag_id
        for dag_id in sorted(set(dag_ids))
        if note_refill(dag_id, now=now, unless_since=recently)
    )


def precomputed_runs_write(
    dag_id: str, schedule: Schedule, runs: list[dict[str, str | None]], *, is_last: bool
) -> Put:
    """Return the write that replaces the precomputed runs of a DAG."""
    row = Catalog(
        PRECOMPUTED_RUNS,
        dag_id,
        version=schedule.version,
        bundle=schedule.bundle,
        bundle_version=schedule.bundle_version,
        runs=runs,
        is_last=is_last,
        updated_at=clock.now(),
    )
    return Put(row, may_replace=True)


def run_from_json(data: dict[str, Any]) -> DagRunInfo:
    """Return a run from its stored form."""
    start, end = data["data_interval_start"], data["data_interval_end"]
    interval = None if start is None else DataInterval(parse_instant(start), parse_instant(end))
    key = data["partition_key"]
    if not isinstance(key, str | None):
        raise TypeError(f"partition key {key!r} must be a string")
    return DagRunInfo(parse_instant(data["run_after"]), interval, partition_key=key)


def run_as_json(info: DagRunInfo) -> dict[str, str | None]:
    """Return the stored form of a run."""
    start, end = info.data_interval or (None, None)
    return {
        "run_after": iso(info.run_after),
        "data_interval_start": None if start is None else iso(start),
        "data_interval_end": None if end is None else iso(end),
        "partition_key": info.partition_key,
    }
