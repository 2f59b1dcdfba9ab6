"""Runs, steps and DAGs in memory, as tests of pure decisions need them."""

from collections.abc import Iterable
from typing import Any

from pendulum import DateTime, datetime

from lamplighter import DAG, SparkTask
from lamplighter.identifiers import run_key
from lamplighter.runs.view import RunView, run_ref
from lamplighter.store.models import Runs, Steps

MIDNIGHT = datetime(2026, 1, 31)
NOON = datetime(2026, 2, 1, 12)


def make_run(run_id: str = "scheduled__2026-01-31T00:00:00+00:00", **columns: Any) -> Runs:
    """Return a run of the last day of January, or as the columns say."""
    given = {
        "dag_id": "orders",
        "run_type": "scheduled",
        "triggered_by": "timetable",
        "state": "running",
        "logical_date": MIDNIGHT,
        "data_interval_start": MIDNIGHT,
        "data_interval_end": MIDNIGHT.add(days=1),
        "run_after": MIDNIGHT.add(days=1),
        "dag_version": "1" * 64,
        "bundle": "shop",
        "bundle_version": "2" * 64,
        "created_at": NOON,
        "queued_at": NOON,
        **columns,
    }
    return Runs(given.pop("dag_id"), run_key(run_id), run_id=run_id, **given)


def make_undated_run(run_id: str = "my-run", **columns: Any) -> Runs:
    """Return a run that has no logical date, and so no interval."""
    dates: dict[str, DateTime | None] = dict.fromkeys(
        ("logical_date", "data_interval_start", "data_interval_end")
    )
    return make_run(run_id, run_type="manual", run_after=NOON, **dates, **columns)


def make_step(run: Runs, task_id: str = "load", **columns: Any) -> Steps:
    """Return a step whose first job is being started."""
    given = {"state": "submitted", "submission": 1, "try_number": 1, **columns}
    given.setdefault("run_created_at", run.created_at)
    return Steps(run_ref(run.dag_id, run.run_key), task_id, **given)


def make_dag(links: Iterable[tuple[str, str]] = (), **tasks: dict[str, Any]) -> DAG:
    """Return a DAG of tasks with their options, each pair of names linked."""
    dag = DAG("orders", schedule=None)
    for task_id, options in tasks.items():
        SparkTask(task_id, dag=dag, **{"job": "jobs:run", **options})
    for before, after in links:
        _ = dag.tasks[before] >> dag.tasks[after]
    return dag


def make_view(dag: DAG, run: Runs | None = None, *steps: Steps) -> RunView:
    """Return a run with its steps as if they had been read."""
    return RunView(run or make_run(), {step.step_id: step for step in steps}, dag, None)
