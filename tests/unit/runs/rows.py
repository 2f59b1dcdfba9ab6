"""Runs, steps and DAGs in memory, as tests of pure decisions need them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pendulum import DateTime, datetime

from lamplighter import DAG, SparkTask
from lamplighter.events.lineage import RunEvents
from lamplighter.identifiers import run_key
from lamplighter.runs.view import RunReader, RunView
from lamplighter.store.models import Backfills, Dags, Runs, Steps
from lamplighter.store.rows import Row
from lamplighter.store.runs import run_ref

R = TypeVar("R", bound=Row)

# Of the submission of every step.
SECRET = "of-this-submission"  # noqa: S105 - of a test
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
    given = {
        "state": "submitted",
        "submission": 1,
        "try_number": 1,
        "report_secret": SECRET,
        **columns,
    }
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


def as_read(row: R) -> R:
    """Return a row as if it had just been read from its table."""
    row.stored = dict(row.attribute_values)
    return row


def values_of(row: Row, *names: str) -> list[Any]:
    """Return the values of some columns of a row."""
    return [getattr(row, name) for name in names]


@dataclass
class OtherRuns(RunReader):
    """Other runs, from memory: the nearest first, each with its steps and its definition."""

    before: list[tuple[Runs, list[Steps], DAG]] = field(default_factory=list)

    def variables(self) -> dict[str, str]:
        """Return the variables of the deployment: none."""
        return {}

    def runs_before(self, run: Runs) -> Iterator[Runs]:
        """Return the runs that were put before this one."""
        assert all(other.run_key < run.run_key for other, _, _ in self.before)
        return iter([other for other, _, _ in self.before])

    def read_step(self, run: Runs, task_id: str) -> Steps | None:
        """Return a step of a run, if it was given one."""
        (steps,) = [steps for other, steps, _ in self.before if other is run]
        return next((step for step in steps if step.step_id == task_id), None)

    def definition_of(self, run: Runs) -> DAG:
        """Return the DAG of a run."""
        (dag,) = [dag for other, _, dag in self.before if other is run]
        return dag


class NothingElse(RunReader):
    """Fails whoever looks beyond the run's own rows, and the variables, of which there are none."""

    def variables(self) -> dict[str, str]:
        """Return the variables of the deployment."""
        return {}

    def runs_before(self, run: Runs) -> Iterator[Runs]:
        """Refuse to look for the runs before this one."""
        raise AssertionError(f"nothing depends on the runs before {run.run_id}")

    def triggering_events(self, run: Runs) -> RunEvents:
        """Refuse to look for events."""
        raise AssertionError(f"run {run.run_id} consumed no events")


def make_view(
    dag: DAG,
    run: Runs | None = None,
    *steps: Steps,
    row: Dags | None = None,
    backfill: Backfills | None = None,
    reader: RunReader | None = None,
) -> RunView:
    """Return a run with its steps as if they had been read."""
    by_id = {step.step_id: step for step in steps}
    return RunView(run or make_run(), by_id, dag, row, backfill, reader=reader or NothingElse())
