"""A condition on assets beside a schedule that cannot answer, or that has to step over runs."""

from typing import Any
from unittest.mock import patch

import pendulum

from lamplighter import DAG, Asset
from lamplighter.scheduler import cursor
from lamplighter.scheduler.schedules import PrecomputedRunsExhausted
from lamplighter.store.dags import change_dag
from lamplighter.store.models import Dags
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.interval import CronDataIntervalTimetable
from lamplighter_local.deliveries import deliver
from lamplighter_local.stack import LocalStack
from lamplighter_operations.trigger import create_manual_run
from tests.tools.definitions import register_dags
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound

A, B = Asset("a"), Asset("b")
HOURLY = CronDataIntervalTimetable("0 * * * *", "UTC")


def hourly_or(asset: Asset, start: pendulum.DateTime, **arguments: Any) -> DAG:
    """Return a DAG that runs every hour, and when an asset has news."""
    schedule = AssetOrTimeSchedule(timetable=HOURLY, assets=asset)
    return DAG("dag", schedule=schedule, start_date=start, **arguments)


def kinds(stack: LocalStack) -> list[str]:
    """Return the types of the DAG's runs."""
    return sorted(run.run_type for run in stack.runs("dag"))


def test_event_beside_a_date_that_exists_fires(stack: LocalStack) -> None:
    """A claim that steps over a manual run of a due date does not forget the condition."""
    now = stack.clock.now()
    register_dags(hourly_or(A, now.start_of("hour")))
    stack.run_until_idle()
    due = now.start_of("hour")
    run = create_manual_run("dag", logical_date=due)
    finish_run("dag", run.run_key, state="success")  # so that only the table knows of it
    stack.clock.move(to=due.add(hours=1, seconds=5))
    # Nothing was ticked: the event is the first to find the date due.
    stack.emit("a")
    stack.run_until_idle()
    assert kinds(stack) == ["asset_triggered", "manual"]
    require_sound()


def test_event_of_a_dag_whose_runs_are_not_foretold_is_noted(stack: LocalStack) -> None:
    """A list that ran out delays the condition, and the claim after the refill fires it."""
    hour = stack.clock.now().start_of("hour")
    register_dags(hourly_or(A, hour))
    stack.run_until_idle()
    stack.clock.move(to=hour.add(hours=1, seconds=6))
    with patch.object(cursor, "runs_due", side_effect=PrecomputedRunsExhausted):
        stack.emit("a")
        deliver(stack.settings.queue_url("events"), "ingest")
    assert kinds(stack) == []
    row = stack.dag("dag")
    assert row.asset_condition_met_at == stack.clock.now()
    assert row.due_shard is not None
    stack.tick()
    assert kinds(stack) == ["asset_triggered", "scheduled"]
    require_sound()


def test_timetable_that_fails_in_a_claim_does_not_stop_events(stack: LocalStack) -> None:
    """Its error is on the row, there are no more timed runs, and the event has its run."""
    register_dags(hourly_or(A, stack.clock.now().start_of("hour")))
    stack.run_until_idle()

    def break_it(row: Dags) -> list[Any]:
        row.next_interval_start = row.next_interval_end = None  # where an interval must be
        row.next_run_after = stack.clock.now()
        return []

    change_dag("dag", break_it)
    stack.emit("a")
    stack.run_until_idle()
    assert kinds(stack) == ["asset_triggered"]
    row = stack.dag("dag")
    assert row.schedule_error is not None
    assert row.next_run_after is None


def test_condition_that_cannot_be_read_stops_nobody_else(stack: LocalStack) -> None:
    """It is marked on its own row; the event reaches all others, and the message is done with."""
    register_dags(*(DAG(name, schedule=[A]) for name in ("broken", "one", "two")))
    stack.run_until_idle()
    Dags("broken").update([Dags.asset_condition.set({"some": 5})])
    stack.emit("a")
    stack.run_until_idle()
    assert [len(stack.runs(name)) for name in ("broken", "one", "two")] == [0, 1, 1]
    assert stack.dag("broken").schedule_error is not None


def test_empty_conjunction_never_fires(stack: LocalStack) -> None:
    """All of nothing is true, but no event ever fulfils it."""
    register_dags(DAG("dag", schedule=[A]))
    stack.run_until_idle()
    Dags("dag").update([Dags.asset_condition.set({"all": []})])
    stack.emit("a")
    stack.run_until_idle()
    assert stack.runs("dag") == []
    assert stack.dag("dag").asset_condition_met_at is None
