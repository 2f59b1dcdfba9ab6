"""A deployment as people look at it: runs, steps, events and DAGs as plain, frozen values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pendulum import DateTime

from lamplighter.errors import RefusedError
from lamplighter.events.lineage import asset_names
from lamplighter.events.record import event_id_of
from lamplighter.store.models import AssetEvents, Backfills, Dags, Runs, Steps
from lamplighter.store.steps import run_ref
from lamplighter.zones import iso


@dataclass(frozen=True)
class Event:
    """An event of an asset, as it was recorded."""

    asset: str
    event_id: str
    seq: int
    extra: Mapping[str, Any]
    timestamp: DateTime
    source: Any


@dataclass(frozen=True)
class Step:
    """One task in one run."""

    task_id: str
    state: str
    try_number: int
    job_run_id: str | None
    started_at: DateTime | None
    ended_at: DateTime | None
    error: str | None


@dataclass(frozen=True)
class Run:
    """One run of a DAG, with its steps in the order in which they began."""

    dag_id: str
    run_id: str
    run_type: str
    state: str
    logical_date: DateTime | None
    data_interval_start: DateTime | None
    data_interval_end: DateTime | None
    run_after: DateTime
    created_at: DateTime
    ended_at: DateTime | None
    conf: Mapping[str, Any]
    events: tuple[Event, ...]
    steps: tuple[Step, ...]

    def step(self, task_id: str) -> Step:
        """Return the step of a task."""
        for step in self.steps:
            if step.task_id == task_id:
                return step
        names = ", ".join(step.task_id for step in self.steps) or "none yet"
        raise RefusedError(f"run {self.run_id} has no step {task_id!r} (there are: {names})")


@dataclass(frozen=True)
class Dag:
    """A DAG as it stands: what it is, whether it may run, and when it does next."""

    dag_id: str
    schedule: str
    is_paused: bool
    is_stale: bool
    has_import_errors: bool
    schedule_error: str | None
    catchup: bool
    max_active_runs: int
    next_run: DateTime | None
    next_run_after: DateTime | None
    next_run_create_after: DateTime | None
    active: tuple[str, ...]
    waiting: tuple[str, ...]
    waiting_for_past: tuple[str, ...]
    bundle: str
    version: str


@dataclass(frozen=True)
class Backfill:
    """A backfill as it stands: start included, end excluded."""

    backfill_id: str
    dag_id: str
    state: str
    reason: str | None
    start: DateTime
    end: DateTime
    # Of so many planned runs, how many have had their turn; and what became of these.
    total: int
    position: int
    active: tuple[str, ...]
    succeeded: int
    failed: int
    cancelled: int
    passed: int
    cost: float
    created_at: DateTime
    ended_at: DateTime | None


def view_backfill(row: Backfills) -> Backfill:
    """Return a backfill as it stands."""
    return Backfill(
        backfill_id=row.backfill_id,
        dag_id=row.dag_id,
        state=row.state,
        reason=row.reason,
        start=row.start,
        end=row.end,
        total=int(row.total),
        position=int(row.position),
        active=tuple(sorted(row.active or ())),
        succeeded=int(row.succeeded),
        failed=int(row.failed),
        cancelled=int(row.cancelled),
        passed=int(row.passed),
        cost=row.cost or 0.0,
        created_at=row.created_at,
        ended_at=row.ended_at,
    )


def view_dag(row: Dags) -> Dag:
    """Return a DAG as it stands."""
    return Dag(
        dag_id=row.dag_id,
        schedule=row.schedule,
        is_paused=row.is_paused,
        is_stale=row.is_stale,
        has_import_errors=row.has_import_errors,
        schedule_error=row.schedule_error,
        catchup=row.catchup,
        max_active_runs=int(row.max_active_runs),
        next_run=row.next_run,
        next_run_after=row.next_run_after,
        next_run_create_after=row.next_run_create_after,
        active=tuple(sorted(row.active or ())),
        waiting=tuple(entry.partition("|")[2] for entry in sorted(row.waiting or ())),
        waiting_for_past=tuple(sorted(row.waiting_for_past or ())),
        bundle=row.bundle,
        version=row.version,
    )


def view_run(row: Runs) -> Run:
    """Return a run with its events and steps."""
    return Run(
        dag_id=row.dag_id,
        run_id=row.run_id,
        run_type=row.run_type,
        state=row.state,
        logical_date=row.logical_date,
        data_interval_start=row.data_interval_start,
        data_interval_end=row.data_interval_end,
        run_after=row.run_after,
        created_at=row.created_at,
        ended_at=row.ended_at,
        conf=row.conf or {},
        events=tuple(_events_of(row)),
        steps=tuple(_steps_of(row)),
    )


def _steps_of(run: Runs) -> Iterable[Step]:
    found = Steps.query(run_ref(run.dag_id, run.run_key), consistent_read=True)
    rows = [row for row in found if row.run_created_at == run.created_at]
    for row in sorted(rows, key=lambda row: (_begun(row), row.step_id)):
        yield Step(
            task_id=row.step_id,
            state=row.state,
            try_number=int(row.try_number),
            job_run_id=row.job_run_id,
            started_at=row.started_at,
            ended_at=row.ended_at,
            error=row.error,
        )


def _begun(step: Steps) -> str:
    """Return what puts steps that have begun before those that have not."""
    return "~" if step.submitted_at is None else iso(step.submitted_at)


def _events_of(run: Runs) -> Iterable[Event]:
    # One that came through an alias as well stands under both.
    found = {
        (row.origin or row.asset_id, event_id_of(row)): row
        for stream, (after, until) in sorted((run.events or {}).items())
        for row in AssetEvents.by_seq.query(stream, AssetEvents.seq.between(after + 1, until))
    }
    names = asset_names(asset for asset, _ in found)
    for (asset, event_id), row in sorted(found.items(), key=lambda item: item[1].recorded_at):
        assert row.seq is not None
        yield Event(
            asset=names.get(asset, asset),
            event_id=event_id,
            seq=int(row.seq),
            extra=row.extra or {},
            timestamp=row.timestamp,
            source=row.source,
        )
