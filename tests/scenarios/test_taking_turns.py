"""Kinds of run take turns for slots, and a claim always gets its DAG on."""

from datetime import timedelta
from itertools import groupby

from pendulum import datetime

from lamplighter import DAG, Asset, SparkTask
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.interval import CronDataIntervalTimetable
from lamplighter_operations.runs import cancel_run, retry_run
from tests.tools.checked_deployment import LocalDeployment

NOW = datetime(2026, 2, 1, 0, 0, 5)
MONTH_AGO = datetime(2026, 1, 1)


def with_task(dag: DAG) -> DAG:
    """Return the DAG with one task."""
    SparkTask("work", job="jobs:work", dag=dag)
    return dag


def started(lamp: LocalDeployment, dag_id: str = "dag") -> list[str]:
    """Return the types of a DAG's runs in the order in which they began."""
    runs = [run for run in lamp.runs(dag_id) if run.steps and run.steps[0].started_at]
    return [run.run_type for run in sorted(runs, key=lambda run: run.steps[0].started_at)]  # type: ignore[arg-type,return-value] # all have begun


def test_manual_run_starts_within_the_hour_while_744_runs_are_owed() -> None:
    """A month of hourly runs on two slots does not hold up what a person asks for."""
    dag = with_task(DAG("dag", schedule="0 * * * *", start_date=MONTH_AGO, max_active_runs=2))
    with LocalDeployment([dag], at=NOW) as lamp:
        lamp.takes("dag", "work", minutes=20)
        run = lamp.trigger("dag", logical_date=None)
        lamp.advance(hours=1)

        found = next(each for each in lamp.runs("dag") if each.run_id == run.run_id)
        assert found.state == "success"


def test_retried_run_starts_within_the_hour_while_the_schedule_catches_up() -> None:
    """A run that failed and is retried does not wait for the whole backlog."""
    dag = with_task(DAG("dag", schedule="0 * * * *", start_date=MONTH_AGO, max_active_runs=2))
    with LocalDeployment([dag], at=NOW) as lamp:
        lamp.takes("dag", "work", minutes=20)
        lamp.fail_next("dag", "work")
        lamp.advance(minutes=30)
        (failed,) = (run for run in lamp.runs("dag") if run.state == "failed")
        retry_run("dag", failed.run_id.partition("__")[2])
        lamp.advance(hours=1)

        again = next(run for run in lamp.runs("dag") if run.run_id == failed.run_id)
        assert again.state == "success"


def test_asset_triggered_runs_and_scheduled_ones_alternate_while_both_wait() -> None:
    """With one slot, a backlog of due times and a steady stream of events get it in turn."""
    schedule = AssetOrTimeSchedule(
        timetable=CronDataIntervalTimetable("0 * * * *", timezone="UTC"), assets=Asset("orders")
    )
    dag = with_task(DAG("dag", schedule=schedule, start_date=MONTH_AGO, max_active_runs=1))
    with LocalDeployment([dag], at=NOW) as lamp:
        lamp.takes("dag", "work", minutes=5)
        for _ in range(24):
            lamp.emit("orders")
            lamp.advance(minutes=5)

        order = started(lamp)[2:]
        assert {"scheduled", "asset_triggered"} == set(order)
        assert max(len(list(some)) for _, some in groupby(order)) == 1


def test_endless_manual_runs_do_not_hold_up_the_schedule() -> None:
    """Taking turns goes both ways: with one slot every second run is the schedule's."""
    dag = with_task(DAG("dag", schedule="0 * * * *", start_date=MONTH_AGO, max_active_runs=1))
    with LocalDeployment([dag], at=NOW) as lamp:
        lamp.takes("dag", "work", minutes=5)
        for number in range(12):
            for which in ("one", "other"):
                lamp.trigger("dag", logical_date=None, conf={which: number})
            lamp.advance(minutes=10)

        order = started(lamp)
        assert order.count("scheduled") >= len(order) // 2 - 1


def test_waiting_runs_get_slots_by_logical_date() -> None:
    """Runs that were retried in any order begin in the order of their dates."""
    dag = with_task(DAG("dag", schedule=None, start_date=MONTH_AGO, max_active_runs=1))
    days = [3, 1, 2]
    with LocalDeployment([dag], at=NOW) as lamp:
        lamp.takes("dag", "work", minutes=5)
        lamp.trigger("dag", logical_date=None)
        for day in days:
            lamp.trigger("dag", logical_date=datetime(2026, 1, day))
            lamp.advance(seconds=1)
        lamp.advance(hours=1)

        dated = [run for run in lamp.runs("dag") if run.logical_date is not None]
        by_start = sorted(dated, key=lambda run: run.steps[0].started_at or NOW)
        assert [run.logical_date.day for run in by_start if run.logical_date] == sorted(days)


def test_schedule_passes_dates_that_exist_behind_one_that_waits() -> None:
    """A date that waits for a slot and two that exist behind it hold nobody up.

    Each refused commit teaches the claim one of them; it must not forget the others.
    """
    dag = with_task(DAG("dag", schedule="0 * * * *", start_date=NOW.subtract(hours=6)))
    dag.max_active_runs = 2
    first = NOW.start_of("hour").subtract(hours=5)
    with LocalDeployment([], at=NOW) as lamp:
        lamp.push([dag])
        lamp.pause("dag")
        lamp.run_until_idle()
        for run in lamp.runs("dag"):
            cancel_run("dag", run.run_id.partition("__")[2])
        lamp.advance(minutes=30)
        dates = [first.add(hours=hour) for hour in range(2, 5)]
        for date in dates:
            lamp.trigger("dag", logical_date=date)
        for date in dates[1:]:
            cancel_run("dag", date.format("YYYY-MM-DDTHH:mm:ssZ"))
        lamp.unpause("dag")
        lamp.advance(minutes=10)

        lamp.check_invariants()
        assert lamp.dag("dag").waiting == ()
        assert lamp.dag("dag").next_run_after == NOW.start_of("hour") + timedelta(hours=1)
