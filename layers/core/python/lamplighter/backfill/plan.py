"""What a backfill would do with each date of its range, given the runs that exist. Pure.

Owns: the rule by which a date gets a run, gets its run again, or is left as it is. It is asked
twice: for the plan that people see, and when the turn of a date has come.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pendulum import DateTime

from lamplighter.dags.dag import MAX_ACTIVE_RUNS
from lamplighter.errors import RefusedError
from lamplighter.identifiers import run_id, run_key
from lamplighter.scheduler.schedules import MAX_STEPS, timed
from lamplighter.store.runs import CANCELLED, FAILED, FINISHED
from lamplighter.timetables.base import (
    DagRunInfo,
    DataInterval,
    TimeRestriction,
    Timetable,
    next_run,
    place,
)
from lamplighter.timetables.delta import DeltaTimetable, fixed_length
from lamplighter.zones import as_utc

NONE, COMPLETED = "none", "completed"
REPROCESS = (NONE, FAILED, COMPLETED)
# As many dates fit into the rows that one transaction writes, with room to spare.
MAX_RUNS = 10_000
DEFAULT_ACTIVE_RUNS = 10


class Act(Enum):
    """What is done about a date; the texts are what people read."""

    CREATE = "create"
    REDO = "run again"
    EXISTS = "exists"
    IN_FLIGHT = "in flight"

    @property
    def needs_a_run(self) -> bool:
        """Whether something will run for it."""
        return self in {Act.CREATE, Act.REDO}


@dataclass(frozen=True)
class Request:
    """What someone asks for: start included, end excluded."""

    dag_id: str
    start: DateTime
    end: DateTime
    reprocess: str = NONE
    run_backwards: bool = False
    max_active_runs: int = DEFAULT_ACTIVE_RUNS
    conf: Mapping[str, Any] | None = None
    max_cost: float | None = None


def require_limits(max_active_runs: int | None, max_cost: float | None) -> None:
    """Refuse limits that mean nothing; None is none."""
    if max_active_runs is not None and not 1 <= max_active_runs <= MAX_ACTIVE_RUNS:
        raise RefusedError(f"max_active_runs={max_active_runs}: choose 1 to {MAX_ACTIVE_RUNS}")
    if max_cost is not None and not max_cost > 0:
        raise RefusedError(f"max_cost={max_cost}: give dollars, such as 25")


@dataclass(frozen=True)
class Planned:
    """One date of the range."""

    info: DagRunInfo
    run_key: str
    act: Act


@dataclass(frozen=True)
class Plan:
    """All dates of the range, in the order in which they have their turn."""

    request: Request
    dates: tuple[Planned, ...] = ()

    @property
    def todo(self) -> list[Planned]:
        """The dates for which something will run."""
        return [each for each in self.dates if each.act.needs_a_run]

    def counts(self) -> Counter[Act]:
        """Return how many dates there are of each kind."""
        return Counter(each.act for each in self.dates)


def act_on(state: str | None, reprocess: str) -> Act:
    """Return what to do about a date, given the state of its run; None if there is none.

    A run that was cancelled has not done its work, and counts as failed.
    """
    if state is None:
        return Act.CREATE
    if state not in FINISHED:
        return Act.IN_FLIGHT
    if reprocess == COMPLETED or (reprocess == FAILED and state in {FAILED, CANCELLED}):
        return Act.REDO
    return Act.EXISTS


def run_id_of(info: DagRunInfo) -> str:
    """Return the id of a backfill's run."""
    return run_id(
        "backfill",
        run_after=info.run_after,
        logical_date=info.logical_date,
        partition_key=info.partition_key,
    )


def key_of(info: DagRunInfo) -> str:
    """Return the key of a date's run, whoever created it."""
    return run_key(run_id_of(info))


def make_plan(request: Request, dates: Iterable[DagRunInfo], states: Mapping[str, str]) -> Plan:
    """Return what would be done; `states` are those of the runs that exist, by their keys."""
    found = []
    for info in dates:
        key = key_of(info)
        found.append(Planned(info, key, act_on(states.get(key), request.reprocess)))
    return Plan(request, tuple(reversed(found) if request.run_backwards else found))


# The dates of a schedule in a range: start included, end excluded. The bounds of the DAG do not
# count, since a backfill asks for what was before them too; but the grid of a delta is counted from
# where the DAG begins, so that no interval overlaps those of its runs.


def runs_between(
    timetable: Timetable,
    start: DateTime,
    end: DateTime,
    *,
    now: DateTime,
    anchor: DateTime | None = None,
) -> Iterator[DagRunInfo]:
    """Yield the runs whose dates are in the range and whose data is complete, oldest first.

    `anchor` is where the DAG begins.
    """
    restriction = TimeRestriction(_on_the_grid(timetable, start, anchor), end, catchup=True)
    info = next_run(timetable, None, restriction)
    while info is not None and place(info) < end and _complete_at(info) < now:
        if place(info) >= start:
            yield _in_utc(info)
        info = next_run(timetable, info, restriction)


def _complete_at(info: DagRunInfo) -> DateTime:
    return info.run_after if info.data_interval is None else info.data_interval.end


def _on_the_grid(timetable: Timetable, start: DateTime, anchor: DateTime | None) -> DateTime:
    """Return the first instant from `start` on that the DAG's own runs could begin at."""
    timetable = timed(timetable)
    if anchor is None or not isinstance(timetable, DeltaTimetable):
        return start
    delta = timetable._delta  # noqa: SLF001 - packages of one library
    length = fixed_length(delta)
    if length is not None:
        steps = -((anchor - start).as_timedelta() // length)
        return as_utc(anchor + steps * length)
    at = anchor
    for _ in range(MAX_STEPS):
        if at >= start:
            return start if at == anchor else at
        at = timetable._get_next(at)  # noqa: SLF001 - as above
    return start


def _in_utc(info: DagRunInfo) -> DagRunInfo:
    interval = info.data_interval
    return info._replace(
        run_after=as_utc(info.run_after),
        data_interval=interval and DataInterval(as_utc(interval.start), as_utc(interval.end)),
    )
