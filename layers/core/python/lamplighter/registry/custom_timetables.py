"""Runs of custom timetables, computed in the sandbox."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pendulum import DateTime

from lamplighter import clock, queues
from lamplighter.dags.upcoming import (
    ManualRunQuery,
    NextRunsQuery,
    TimetableQuery,
    next_runs_query,
)
from lamplighter.errors import UNREADABLE, DefinitionError, RefusedError, TransientError, in_short
from lamplighter.registry.definition import Definition
from lamplighter.registry.sandbox import Sandbox
from lamplighter.scheduler import cursor
from lamplighter.scheduler.schedules import (
    PRECOMPUTED_COUNT,
    PrecomputedRuns,
    PrecomputedRunsExhausted,
    followed_until,
    precomputed_runs_write,
    run_as_json,
    run_from_json,
    schedule_in_force,
)
from lamplighter.store.dags import change_dag, read_dag
from lamplighter.store.models import Dags
from lamplighter.store.slots import announcement
from lamplighter.store.transactions import Put, Write, retry_attempts
from lamplighter.timetables.base import DagRunInfo, DataInterval
from lamplighter.zones import iso

# Runs of a past range per call.
_RUNS_PER_CALL = 5_000


@dataclass(frozen=True)
class NextRuns:
    """The next runs of one DAG, or the error of its timetable."""

    runs: tuple[DagRunInfo, ...] = ()
    is_last: bool = True
    owed: int = 0
    error: str | None = None

    @classmethod
    def from_json(cls, data: Any, *, limit: int = PRECOMPUTED_COUNT) -> "NextRuns":
        """Return the result of the sandbox; an invalid one is an error of that DAG."""
        try:
            error = data["error"]
            return cls(
                runs=tuple(run_from_json(run) for run in data["runs"][:limit]),
                is_last=bool(data["is_last"]),
                owed=int(data["owed"]),
                error=None if error is None else in_short(error),
            )
        except UNREADABLE as error:
            return cls(error=in_short(f"the sandbox returned an invalid result: {error!r}"))

    def apply(self, row: Dags) -> Put:
        """Assign the next run to a DAG's row; return the write of the precomputed runs."""
        row.schedule_error = self.error
        schedule = schedule_in_force(row)
        has_ended = self.is_last or self.error is not None
        run_source = PrecomputedRuns.of(schedule, self.runs, is_last=has_ended)
        # If the DAG has moved past all of them, it keeps its next run until a claim finds no
        # precomputed run and requests new ones.
        with suppress(PrecomputedRunsExhausted):
            cursor.set_next(row, run_source.after(cursor.position(row), catchup=schedule.catchup))
        if self.error is None:
            cursor.switch_if_done(row, now=clock.now())
        runs = [run_as_json(info) for info in self.runs]
        return precomputed_runs_write(row.dag_id, schedule, runs, is_last=self.is_last)


def has_same_due_runs(old: PrecomputedRuns, new: NextRuns, row: Dags, *, now: DateTime) -> bool:
    """Return whether the new code of a timetable computes the same due runs as before.

    Runs that were not computed before cannot differ. Without catchup only the newest counts; if it
    was not computed, it counts as different, and the old code is asked for it.
    """
    known = old.runs_after(cursor.position(row))
    before = [info for info in known if info.run_after <= now]
    after = [info for info in new.runs if info.run_after <= now]
    is_known = old.is_last or len(before) < len(known)
    if not row.catchup:
        return is_known and before[-1:] == after[-1:]
    count = min(len(before), len(after))
    is_whole = is_known and len(after) < len(new.runs)
    return before[:count] == after[:count] and (len(before) == len(after) or not is_whole)


# Queries.


def query_definitions(
    sandbox: Sandbox,
    definitions: Sequence[Definition],
    rows: Mapping[str, Dags],
    *,
    now: DateTime,
) -> dict[str, NextRuns]:
    """Return the next runs of the DAGs that have a custom timetable."""
    queries = [
        query_after(rows.get(item.dag.dag_id), item.dag.dag_id, item.file, now=now)
        for item in definitions
        if item.is_custom
    ]
    return query_sandbox(sandbox, queries)


def query_after(
    row: Dags | None, dag_id: str, file: str, *, now: DateTime, count: int = PRECOMPUTED_COUNT
) -> NextRunsQuery:
    """Return the query for the runs after the position of a DAG's schedule."""
    last = None if row is None else cursor.position(row)
    return next_runs_query(dag_id, file, last, count=count, at=now)


def query_sandbox(
    sandbox: Sandbox, queries: Sequence[TimetableQuery], *, limit: int = PRECOMPUTED_COUNT
) -> dict[str, NextRuns]:
    """Return the results by DAG, each with so many runs at most."""
    found = sandbox.upcoming_runs(queries)
    ids = [query["dag_id"] for query in queries]
    return {id_: NextRuns.from_json(found.get(id_, "no answer"), limit=limit) for id_ in ids}


# Refills, when half of the precomputed runs are used.


def refill(dag_id: str) -> None:
    """Replace the precomputed runs of a DAG."""
    for _ in retry_attempts():
        row = read_dag(dag_id)
        if row is None or row.is_stale or not schedule_in_force(row).is_custom:
            return
        if _refill(row):
            return
    raise TransientError(f"the schedule of DAG {dag_id!r} is contended; try again")


def _refill(row: Dags) -> bool:
    """Refill the schedule in force; return False if it has changed in the meantime."""
    schedule = schedule_in_force(row)
    # Of an old schedule, up to the switch: without catchup that is one run.
    query = query_after(row, row.dag_id, schedule.file, now=followed_until(row, clock.now()))
    try:
        sandbox = Sandbox(schedule.bundle, schedule.bundle_version)
        found = query_sandbox(sandbox, [query])[row.dag_id]
    except DefinitionError as error:  # the bundle was deleted
        found = NextRuns(error=in_short(error))
    is_same = True

    def change(row: Dags) -> Sequence[Write] | None:
        nonlocal is_same
        is_same = schedule_in_force(row).source == schedule.source
        return [found.apply(row)] if is_same else None

    written = change_dag(row.dag_id, change, row=row)
    if written is not None:
        queues.announce_due(announcement(written))
    return is_same


# What people ask for: a manual run; and runs of a past range, one call at a time.


def custom_manual_interval(row: Dags, date: DateTime) -> DataInterval:
    """Return the data interval of a manual run, which the newest definition's timetable infers."""
    query = ManualRunQuery(file=row.file, dag_id=row.dag_id, date=iso(date), at=iso(clock.now()))
    sandbox = Sandbox(row.bundle, row.bundle_version)
    found = query_sandbox(sandbox, [query])[row.dag_id]
    interval = found.runs[0].data_interval if found.runs else None
    if interval is None:
        why = found.error or "the sandbox returned no data interval"
        raise RefusedError(f"{_failure(row, why)}; fix it, or trigger the run with a data interval")
    return interval


def custom_runs_between(row: Dags, start: DateTime, end: DateTime) -> Iterator[DagRunInfo]:
    """Yield the runs whose dates are in the range and whose data is complete, oldest first."""
    now = clock.now()
    sandbox = Sandbox(row.bundle, row.bundle_version)
    last: DagRunInfo | None = None
    while True:
        # As of the start of the range, or a timetable without catchup would skip it.
        at = start if last is None else last.run_after
        query = next_runs_query(row.dag_id, row.file, last, count=_RUNS_PER_CALL, at=at)
        found = query_sandbox(sandbox, [query], limit=_RUNS_PER_CALL)[row.dag_id]
        if found.error is not None:
            raise RefusedError(_failure(row, found.error))
        for info in found.runs:
            if info == last:
                continue  # without catchup, a result begins with the newest due run
            if _date_of(info) >= end or _complete_at(info) >= now:
                return
            if _date_of(info) >= start:
                yield info
        if found.is_last or not found.runs or found.runs[-1] == last:
            return
        last = found.runs[-1]


def _date_of(info: DagRunInfo) -> DateTime:
    return info.logical_date or info.run_after


def _complete_at(info: DagRunInfo) -> DateTime:
    return info.run_after if info.data_interval is None else info.data_interval.end


def _failure(row: Dags, error: str) -> str:
    # An author's message may have many lines.
    return f"the timetable of DAG {row.dag_id!r} failed: {' '.join(error.split())}"
