"""The next runs of a schedule in Airflow and here, and why the first that differs does.

Both are asked of the same timetables, given what Airflow would make of the schedule.
"""

import datetime
from dataclasses import dataclass
from typing import Any

from dateutil.relativedelta import relativedelta
from pendulum import DateTime

from lamplighter import DAG
from lamplighter.dags.upcoming import MAX_OWED_COUNTED, owed_runs, upcoming_runs
from lamplighter.timetables.base import DagRunInfo, Timetable
from lamplighter.timetables.trigger import CronTriggerTimetable, DeltaTriggerTimetable
from lamplighter.zones import iso
from lamplighter_cli.adopt.findings import RunsComparison

RUNS = 5
AIRFLOW_3 = 3
_WORDS_WITHOUT_INTERVAL = frozenset({"@once", "@continuous"})


@dataclass(frozen=True)
class KnownSchedule:
    """What a DAG's arguments say about its runs, as values."""

    schedule: Any
    start_date: datetime.datetime | None
    end_date: datetime.datetime | None
    catchup: bool | None
    airflow: int


def is_plain(schedule: object) -> bool:
    """Return whether Airflow 3 reads the schedule as moments, where intervals are meant here."""
    if isinstance(schedule, str):
        return schedule not in _WORDS_WITHOUT_INTERVAL
    return isinstance(schedule, datetime.timedelta | relativedelta)


def compare(known: KnownSchedule, *, at: DateTime) -> RunsComparison:
    """Return the next runs there and here; raise if the schedule is not valid."""
    if known.start_date is None and known.catchup is not False and known.airflow >= AIRFLOW_3:
        return _without_start(known, at)
    catchup_there = known.airflow < AIRFLOW_3 if known.catchup is None else known.catchup
    there = _dag(known, _timetable_there(known), catchup=catchup_there)
    unchanged = _dag(known, known.schedule, catchup=known.catchup is not False)
    runs_there, runs_unchanged = _runs(there, at), _runs(unchanged, at)
    first, reason = _first_difference(runs_there, runs_unchanged)
    if reason is None:
        first, reason = _owed_difference(there, unchanged, at)
    return RunsComparison(
        # The translation says what Airflow assumes, so it has Airflow's runs.
        airflow=[_describe(info) for info in runs_there],
        translated=[_describe(info) for info in runs_there],
        unchanged=[_describe(info) for info in runs_unchanged],
        first_difference=first,
        reason=reason,
    )


def _without_start(known: KnownSchedule, at: DateTime) -> RunsComparison:
    runs = [
        _describe(info) for info in _runs(_dag(known, _timetable_there(known), catchup=False), at)
    ]
    reason = "without a start date the DAG is refused, because catchup is True here unless the DAG"
    return RunsComparison(runs, runs, [], "run 1: there is none here", f"{reason} says otherwise")


def _timetable_there(known: KnownSchedule) -> Any:
    schedule = known.schedule
    if known.airflow < AIRFLOW_3 or not is_plain(schedule):
        return schedule
    if isinstance(schedule, str):
        zone = known.start_date.tzinfo if known.start_date else None
        return CronTriggerTimetable(schedule, timezone=zone or "UTC")
    return DeltaTriggerTimetable(schedule)


def _dag(known: KnownSchedule, schedule: Any, *, catchup: bool) -> DAG:
    is_continuous = schedule == "@continuous" or getattr(schedule, "active_runs_limit", None) == 1
    return DAG(
        "adopted",
        schedule=schedule,
        start_date=known.start_date,
        end_date=known.end_date,
        catchup=catchup,
        max_active_runs=1 if is_continuous else 16,
    )


def _runs(dag: DAG, at: DateTime) -> list[DagRunInfo]:
    return upcoming_runs(dag, RUNS, at=at)


def _first_difference(
    there: list[DagRunInfo], here: list[DagRunInfo]
) -> tuple[str | None, str | None]:
    for number, (one, other) in enumerate(zip(there, here, strict=False), start=1):
        if one.run_after != other.run_after:
            return _place(number, one, other), "the run is created at another moment"
        if one.data_interval != other.data_interval:
            reason = (
                "a plain schedule means data intervals here, so the logical date of a run is the"
                " beginning of its interval; Airflow 3 uses the moment of the run"
            )
            return _place(number, one, other), reason
    if len(there) != len(here):
        return f"run {min(len(there), len(here)) + 1}", "one of the schedules ends earlier"
    return None, None


def _place(number: int, one: DagRunInfo, other: DagRunInfo) -> str:
    return f"run {number}: {_describe(one)} there, {_describe(other)} here"


def _owed_difference(there: DAG, here: DAG, at: DateTime) -> tuple[str | None, str | None]:
    if there.catchup == here.catchup or not here.timetable.periodic:
        return None, None
    owed = owed_runs(here, None, at=at)
    if owed <= 1:
        return None, None
    many = f"{owed:,}{' or more' if owed >= MAX_OWED_COUNTED else ''}"
    return (
        f"before the first of them: {many} runs since the start date, 1 in Airflow",
        "catchup is True here unless the DAG says otherwise, and False in Airflow 3",
    )


def _describe(info: DagRunInfo) -> str:
    logical = "none" if info.logical_date is None else iso(info.logical_date)
    return f"{iso(info.run_after)} (logical date {logical})"


def summary_of(schedule: Any) -> str:
    """Return a schedule as text."""
    return schedule.summary if isinstance(schedule, Timetable) else str(schedule)
