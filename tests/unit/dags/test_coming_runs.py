"""The coming runs of a DAG, as people are shown them."""

from datetime import datetime, timedelta
from typing import Any

import pendulum
import pytest

from lamplighter import DAG, Asset
from lamplighter.dags.upcoming import upcoming_runs
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.interval import CronDataIntervalTimetable
from lamplighter.timetables.trigger import (
    CronPartitionTimetable,
    CronTriggerTimetable,
    MultipleCronTriggerTimetable,
)
from lamplighter.zones import iso

AT = pendulum.datetime(2024, 1, 10, 12, 30)
DAILY = CronTriggerTimetable("@daily", timezone="UTC")


def coming(schedule: Any, *, start: datetime | None = datetime(2024, 1, 1), **options: Any) -> str:
    """Return the instants of the next three runs, without year and seconds."""
    dag = DAG(
        "orders", **{"schedule": schedule, "start_date": start, "max_active_runs": 1} | options
    )
    return " ".join(iso(run.run_after)[5:16] for run in upcoming_runs(dag, 3, at=AT))


ANSWERS: list[tuple[Any, str]] = [
    ("@daily", "01-11T00:00 01-12T00:00 01-13T00:00"),
    ("@hourly", "01-10T13:00 01-10T14:00 01-10T15:00"),
    (timedelta(hours=6), "01-10T18:00 01-11T00:00 01-11T06:00"),
    (DAILY, "01-11T00:00 01-12T00:00 01-13T00:00"),
    (CronTriggerTimetable("30 12 * * *", timezone="UTC"), "01-10T12:30 01-11T12:30 01-12T12:30"),
    (CronPartitionTimetable("@daily", timezone="UTC"), "01-11T00:00 01-12T00:00 01-13T00:00"),
    (
        MultipleCronTriggerTimetable("@daily", "0 6 * * *", timezone="UTC"),
        "01-11T00:00 01-11T06:00 01-12T00:00",
    ),
    (
        AssetOrTimeSchedule(timetable=DAILY, assets=[Asset("a")]),
        "01-11T00:00 01-12T00:00 01-13T00:00",
    ),
    (None, ""),
    (Asset("a"), ""),
    ("@once", ""),
    ("@continuous", "01-10T12:30"),
]


@pytest.mark.parametrize("catchup", [True, False])
@pytest.mark.parametrize(("schedule", "answer"), ANSWERS, ids=[repr(row[0]) for row in ANSWERS])
def test_coming_runs_are_not_the_owed(schedule: Any, answer: str, catchup: bool) -> None:
    """Runs that are owed are not shown: the list starts now, with catchup or without."""
    assert coming(schedule, catchup=catchup) == answer


@pytest.mark.parametrize(
    ("start", "answer"),
    [
        (None, "01-10T12:30"),
        (datetime(2024, 1, 1), "01-10T12:30"),
        (datetime(2024, 2, 1), "02-01T00:00"),
    ],
    ids=["none", "past", "future"],
)
def test_coming_run_of_continuous_is_one(start: datetime | None, answer: str) -> None:
    """A continuous DAG has one coming run: the next depends on when it ends."""
    assert coming("@continuous", start=start) == answer


def test_coming_runs_before_start_begin_there() -> None:
    """A start date in the future is where the list begins."""
    assert coming("@daily", start=datetime(2024, 3, 1)) == "03-02T00:00 03-03T00:00 03-04T00:00"


def test_coming_runs_until_end_stop_there() -> None:
    """The list ends with the DAG."""
    assert coming("@daily", end_date=datetime(2024, 1, 11)) == "01-11T00:00 01-12T00:00"
    assert coming("@daily", end_date=datetime(2024, 1, 5)) == ""


def test_coming_runs_of_named_years_begin() -> None:
    """A schedule that names its years is shown even where nothing lies before it."""
    assert coming("0 0 1 * * 0 2024") == "02-01T00:00 03-01T00:00 04-01T00:00"


def test_coming_runs_of_long_history_are_quick() -> None:
    """A start date long ago is not walked from, run by run."""
    schedule = CronDataIntervalTimetable("* * * * *", "Europe/Zurich")
    assert coming(schedule, start=datetime(1990, 1, 1)) == "01-10T12:30 01-10T12:31 01-10T12:32"
