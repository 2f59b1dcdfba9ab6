"""Schedules that are edited while they run: they go on, and no interval comes twice."""

from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, SparkTask
from lamplighter_operations.views import Run
from tests.tools.checked_deployment import LocalDeployment

START = datetime(2026, 1, 5)
NOW = datetime(2026, 1, 5, 12, 30)
HOURLY, DAILY = {"schedule": "0 * * * *"}, {"schedule": "0 0 * * *"}
BY_ASSETS: dict[str, Any] = {"schedule": [Asset("a")]}
IN_ZURICH = {"schedule": "0 6 * * *", "start_date": datetime(2026, 1, 3, tz="Europe/Zurich")}
IN_SYDNEY = {"schedule": "0 6 * * *", "start_date": datetime(2026, 1, 3, tz="Australia/Sydney")}
EDITS: dict[str, list[dict[str, Any]]] = {
    "hourly, daily, hourly": [HOURLY, DAILY, HOURLY],
    "cron, assets, cron": [HOURLY, BY_ASSETS, HOURLY],
    "a new zone": [IN_ZURICH, IN_SYDNEY, IN_ZURICH],
    "an earlier start": [HOURLY, HOURLY | {"start_date": START.subtract(days=30)}],
    "a later start": [HOURLY, HOURLY | {"start_date": NOW.add(hours=40)}],
    "an end, and none": [HOURLY, HOURLY | {"end_date": NOW}, HOURLY],
}


def make_dag(**arguments: Any) -> DAG:
    """Return the DAG as it is written at one time."""
    given: dict[str, Any] = {"start_date": START, "max_active_runs": 100} | arguments
    dag = DAG("dag", **given)
    SparkTask("t", job="jobs:run", dag=dag)
    return dag


def dated(lamp: LocalDeployment) -> list[Run]:
    """Return the runs that time has created."""
    return [run for run in lamp.runs("dag") if run.run_type == "scheduled"]


@pytest.mark.parametrize("is_catchup", [True, False])
@pytest.mark.parametrize("name", EDITS)
def test_edited_schedule_goes_on_and_repeats_nothing(name: str, *, is_catchup: bool) -> None:
    """After each edit there are runs again, of intervals that had none, and nothing is stuck."""
    with LocalDeployment(at=NOW) as lamp:
        for edit in EDITS[name]:
            lamp.push([make_dag(catchup=is_catchup, **edit)])
            lamp.advance(hours=30)
            lamp.check_invariants()

        runs = dated(lamp)
        intervals = [(run.data_interval_start, run.data_interval_end) for run in runs]
        assert len(intervals) == len(set(intervals))
        assert all(run.created_at >= run.run_after for run in runs)
        assert runs[-1].run_after >= lamp.now.subtract(days=2)
        following = lamp.dag("dag").next_run_after
        assert following is not None
        assert following > lamp.now


@pytest.mark.parametrize("is_catchup", [True, False])
def test_hours_that_are_daily_for_a_while_are_whole_again(*, is_catchup: bool) -> None:
    """Hour by hour until the edit, day by day, and hour by hour from the last day's end on."""
    with LocalDeployment(at=NOW) as lamp:
        lamp.push([make_dag(catchup=is_catchup, **HOURLY)])
        lamp.advance(hours=6)
        lamp.push([make_dag(catchup=is_catchup, **DAILY)])
        lamp.advance(days=3)
        lamp.push([make_dag(catchup=is_catchup, **HOURLY)])
        lamp.advance(hours=6)
        lengths = [
            (run.data_interval_end - run.data_interval_start).total_hours()
            for run in dated(lamp)
            if run.data_interval_start is not None and run.data_interval_end is not None
        ]
    days = [at for at, length in enumerate(lengths) if length == 24]
    assert len(days) == 2
    # Six hours were left of the day in which the schedule became daily.
    assert set(lengths) == {1, 6, 24}
    hours_after = len(lengths) - days[-1] - 1
    # Of the day that was going on: all its hours with catchup, else those from the edit on.
    assert hours_after == (24 if is_catchup else 7)
