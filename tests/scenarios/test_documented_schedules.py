"""Schedules as the guides to Airflow tell of them, from the push to the run."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pendulum import DateTime, datetime

from lamplighter import DAG, SparkTask
from tests.tools.checked_deployment import LocalDeployment

TIMETABLES = Path(__file__).parents[2] / "examples" / "timetables"
DAGS = """
from datetime import datetime, time
from lamplighter import DAG
from timetables.uneven_intervals import UnevenIntervalsTimetable
from timetables.workday import AfterWorkdayTimetable, SometimeAfterWorkdayTimetable

DAG("uneven", schedule=UnevenIntervalsTimetable(), start_date=datetime(2021, 10, 9),
    max_active_runs=1, catchup=True)
DAG("workday", schedule=AfterWorkdayTimetable(), start_date=datetime(2021, 10, 7))
DAG("morning", schedule=SometimeAfterWorkdayTimetable(time(8)), start_date=datetime(2021, 10, 7))
"""


@pytest.fixture
def bundle(write_bundle: Callable[[dict[str, str]], Path]) -> Path:
    """Return a bundle with the examples of timetables."""
    root = write_bundle({"dags/them.py": DAGS})
    shutil.copytree(TIMETABLES, root / "timetables")
    return root


def intervals(lamp: LocalDeployment, dag_id: str) -> list[tuple[str, str, str]]:
    """Return the data intervals of the runs, and when each was due."""
    return [
        (_text(run.data_interval_start), _text(run.data_interval_end), _text(run.run_after))
        for run in sorted(lamp.runs(dag_id), key=lambda run: run.run_after)
    ]


def _text(at: DateTime | None) -> str:
    return "" if at is None else at.format("D HH:mm")


def test_daily_dag_is_due_when_its_day_has_ended() -> None:
    """Registered at noon of the first day, it has that day's run after midnight, then the next."""
    with DAG("daily", schedule="0 0 * * *", start_date=datetime(2024, 1, 1), catchup=False) as dag:
        SparkTask("work", job="jobs:work")
    with LocalDeployment([dag], at="2024-01-01T12:00:00Z") as lamp:
        row = lamp.stack.dag("daily")
        assert (row.next_run, row.next_run_create_after) == (
            datetime(2024, 1, 1),
            datetime(2024, 1, 2),
        )
        lamp.advance(hours=12, seconds=5)
        (run,) = lamp.runs("daily")
        assert run.run_id == "scheduled__2024-01-01T00:00:00+00:00"
        assert (run.data_interval_start, run.data_interval_end) == (
            datetime(2024, 1, 1),
            datetime(2024, 1, 2),
        )
        row = lamp.stack.dag("daily")
        assert (row.next_run, row.next_run_create_after) == (
            datetime(2024, 1, 2),
            datetime(2024, 1, 3),
        )


def test_uneven_intervals_alternate_and_are_caught_up(bundle: Path) -> None:
    """Two runs a day since the start date; a manual one in the evening covers the working day."""
    with LocalDeployment(bundle, at="2021-10-11T12:00:00Z", catch_up=True) as lamp:
        lamp.advance(hours=20)
        assert intervals(lamp, "uneven") == [
            ("9 06:00", "9 16:30", "9 16:30"),
            ("9 16:30", "10 06:00", "10 06:00"),
            ("10 06:00", "10 16:30", "10 16:30"),
            ("10 16:30", "11 06:00", "11 06:00"),
            ("11 06:00", "11 16:30", "11 16:30"),
            ("11 16:30", "12 06:00", "12 06:00"),
        ]
        lamp.advance(to="2021-10-12T18:00:00Z")
        run = lamp.trigger("uneven")
        assert _text(run.data_interval_start) == "12 06:00"
        assert _text(run.data_interval_end) == "12 16:30"
        next_run = lamp.stack.dag("uneven").next_run_create_after
        assert next_run == datetime(2021, 10, 13, 6)


def test_workdays_have_fridays_run_on_saturday_and_none_at_the_weekend(bundle: Path) -> None:
    """A timetable with an argument has the same intervals, and runs later."""
    # From Thursday, the 7th, to Tuesday, the 12th.
    with LocalDeployment(bundle, at="2021-10-07T00:00:00Z") as lamp:
        lamp.advance(to="2021-10-12T09:00:00Z")
        days = [("7 00:00", "8 00:00"), ("8 00:00", "9 00:00"), ("11 00:00", "12 00:00")]
        assert intervals(lamp, "workday") == [(*day, day[1]) for day in days]
        at_eight = [(*day, day[1].replace("00:00", "08:00")) for day in days]
        assert intervals(lamp, "morning") == at_eight


@pytest.mark.parametrize("state", ["success", "failed"])
def test_continuous_goes_on_whatever_became_of_a_run(state: str) -> None:
    """The next run begins when the last one has ended, also if it failed."""
    begin = datetime(2026, 1, 1, 0, 1)
    with DAG("always", schedule="@continuous", start_date=begin, max_active_runs=1) as dag:
        SparkTask("work", job="jobs:work")
    with LocalDeployment([dag], at="2026-01-01T00:00:00Z") as lamp:
        lamp.takes("always", "work", minutes=2)
        if state == "failed":
            lamp.fail_next("always", "work")
        lamp.advance(minutes=6)
        first, second, *_ = lamp.runs("always")
        assert first.state == state
        assert second.created_at == first.ended_at
