"""Bills come after the ends of jobs, with events or without: what is known then, and later."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, SparkTask
from lamplighter.executors.emr_workers import list_prices
from lamplighter.store.runs import require_run
from lamplighter_local.emr.behaviour import INSTANT
from lamplighter_local.emr.fake_emr import EventFaults, FakeEmr
from lamplighter_operations.runs import clear_run
from lamplighter_operations.views import Run, costs_by_day
from tests.tools.checked_deployment import LocalDeployment

NOW = datetime(2026, 1, 5, 0, 0, 5)
VCPU, MEMORY, STORAGE = list_prices("us-east-1", "x86_64")
# Of a fake job, which has two vCPUs, 8 GB of memory and 20 GB of storage.
MINUTE = (2 * VCPU + 8 * MEMORY + 20 * STORAGE) / 60

bills = pytest.mark.parametrize("billing", [0.0, 10.0, 600.0])
events = pytest.mark.parametrize("drop", [0.0, 1.0], ids=["events", "no events"])


@contextmanager
def deployment(billing: float, drop: float = 0.0, **settings: Any) -> Iterator[LocalDeployment]:
    """Yield a deployment whose bills come so many seconds late, and its events or none."""
    emr = FakeEmr(behaviour=replace(INSTANT, billing_delay_seconds=billing))
    emr.events = EventFaults(drop=drop)
    with LocalDeployment(at=NOW, executor=emr, settings=settings) as lamp:
        yield lamp
        lamp.check_invariants()


def make_dag(dag_id: str = "sales", schedule: str | None = None, **task: Any) -> DAG:
    """Return a DAG of a task and another one after it."""
    with DAG(dag_id, schedule=schedule, start_date=NOW.start_of("day")) as dag:
        load = SparkTask("load", job="jobs:run", **task)
        load >> SparkTask("clean", job="jobs:run")
    return dag


def only_run(lamp: LocalDeployment) -> Run:
    """Return the only run, with its steps."""
    (run,) = lamp.runs("sales")
    return run


@bills
@events
def test_run_costs_the_same_whenever_its_bills_come(billing: float, drop: float) -> None:
    """All jobs count: that of a failed try, and those before the run was cleared."""
    with deployment(billing, drop) as lamp:
        lamp.push([make_dag(retries=1, retry_delay=5)])
        lamp.fail_next("sales", "load")
        run = lamp.trigger("sales")
        lamp.advance(hours=2)
        assert only_run(lamp).cost == pytest.approx(3 * MINUTE)
        clear_run("sales", run.run_key)
        lamp.advance(hours=4)
        done = only_run(lamp)
        assert [step.cost for step in done.steps] == pytest.approx([3 * MINUTE, 2 * MINUTE])
        assert done.cost == pytest.approx(5 * MINUTE)
        assert done.unbilled_jobs == 0


@events
def test_run_that_is_cleared_before_its_bills_come_keeps_them(drop: float) -> None:
    """A bill finds its step while another job of that step is running."""
    with deployment(3_600, drop) as lamp:
        lamp.push([make_dag()])
        run = lamp.trigger("sales")
        lamp.advance(minutes=45)
        assert (only_run(lamp).state, only_run(lamp).unbilled_jobs) == ("success", 2)
        lamp.takes("sales", "load", minutes=120)
        clear_run("sales", run.run_key)
        lamp.advance(minutes=90)
        steps = only_run(lamp).steps
        assert {step.task_id: step.state for step in steps} == {"load": "running", "clean": "none"}
        assert [step.cost for step in steps] == pytest.approx([MINUTE, MINUTE])
        lamp.advance(hours=6)
        assert only_run(lamp).cost == pytest.approx(123 * MINUTE, rel=1e-3)


def test_unknown_cost_is_none_until_the_bill_comes() -> None:
    """A run that is over tells how many of its jobs are missing in what it cost."""
    with deployment(600) as lamp:
        lamp.push([make_dag()])
        lamp.trigger("sales")
        lamp.advance(minutes=5)
        run = only_run(lamp)
        assert (run.state, run.cost, run.unbilled_jobs) == ("success", None, 2)
        assert [(step.cost, len(step.unbilled_jobs)) for step in run.steps] == [(None, 1)] * 2
        (day,) = costs_by_day("sales", days=7).days
        assert (day.day, day.runs, day.cost, day.unbilled_jobs) == ("2026-01-05", 1, None, 2)
        lamp.advance(minutes=10)
        (day,) = costs_by_day("sales", days=7).days
        assert day.cost == pytest.approx(2 * MINUTE)
        assert day.unbilled_jobs == 0


def test_bill_that_does_not_come_is_given_up_but_taken_later() -> None:
    """After the wait nobody looks any more, and the cost stays unknown; an event is still heard."""
    with deployment(5 * 3_600, cost_wait_hours=2) as lamp:
        lamp.push([make_dag()])
        run = lamp.trigger("sales")
        lamp.advance(hours=3)
        assert (only_run(lamp).cost, only_run(lamp).unbilled_jobs) == (None, 2)
        assert require_run(run.name).wake_at is None
        lamp.advance(hours=3)
        assert only_run(lamp).cost == pytest.approx(2 * MINUTE)
        assert only_run(lamp).unbilled_jobs == 0


@bills
@events
def test_spend_cap_stops_a_backfill_in_time_whenever_bills_come(
    billing: float, drop: float
) -> None:
    """Runs that are not billed count as what a run costs, so the cap holds at the same run."""
    with deployment(billing, drop) as lamp:
        lamp.push([make_dag(schedule="0 * * * *")])
        # Seven runs of two minutes' worth fit, and an eighth does not.
        lamp.backfill("sales", "2026-01-04", "2026-01-05", max_cost=15 * MINUTE)
        lamp.advance(hours=12)
        (found,) = lamp.backfills("sales")
        assert (found.state, found.succeeded, found.unbilled_runs) == ("paused", 7, 0)
        assert found.cost == pytest.approx(14 * MINUTE)
        assert "of $0.0" in (found.reason or "")


def test_spend_cap_without_any_bill_pauses_after_the_wait() -> None:
    """One run has to show what runs cost; if it never does, a person must decide."""
    with deployment(1e6, cost_wait_hours=2) as lamp:
        lamp.push([make_dag(schedule="0 * * * *")])
        lamp.backfill("sales", "2026-01-04", "2026-01-05", max_cost=1)
        lamp.advance(hours=1)
        (found,) = lamp.backfills("sales")
        assert (found.state, found.succeeded, found.cost) == ("running", 1, None)
        lamp.advance(hours=2)
        (found,) = lamp.backfills("sales")
        assert (found.state, found.succeeded, found.unbilled_runs) == ("paused", 1, 1)
        assert "1 runs of unknown cost" in (found.reason or "")


def test_late_cost_of_a_cleared_run_is_its_backfills_as_far_as_that_ran_it() -> None:
    """The jobs that the backfill started are its own; those of the clear are not."""
    with deployment(600) as lamp:
        lamp.push([make_dag(schedule="0 0 * * *")])
        lamp.backfill("sales", "2026-01-04", "2026-01-05")
        lamp.advance(minutes=5)
        (run,) = [run for run in lamp.runs("sales") if run.run_type == "backfill"]
        assert (run.state, run.unbilled_jobs) == ("success", 2)
        clear_run("sales", run.run_key)
        lamp.advance(hours=1)
        (found,) = lamp.backfills("sales")
        assert found.cost == pytest.approx(2 * MINUTE)
        assert found.unbilled_runs == 0
        again = [each.cost for each in lamp.runs("sales") if each.run_id == run.run_id]
        assert again == [pytest.approx(4 * MINUTE)]
