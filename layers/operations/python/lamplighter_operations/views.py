"""The read model of a deployment: runs, steps, events, DAGs and backfills as frozen values.

The command line, `LocalDeployment` and simulations all show these, with what looks like a secret
masked. A field whose name is that of a column needs nothing but its line here. Refuses: changing
anything. It stands on the top floor, so that nothing that Lambda runs can import it.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pendulum import DateTime

from lamplighter.backfill.estimates import seconds_left
from lamplighter.errors import UNREADABLE, RefusedError
from lamplighter.events.lineage import triggering_asset_events
from lamplighter.events.record import event_id_of
from lamplighter.identifiers import run_key
from lamplighter.runs.outputs import outputs_of
from lamplighter.safe_text import masked, masked_text
from lamplighter.scheduler.pending import pending_of, waited_for
from lamplighter.serialization import zone_of_schedule
from lamplighter.store import runs as run_rows
from lamplighter.store import runs as step_rows
from lamplighter.store.backfills import OPEN
from lamplighter.zones import Zone, iso

if TYPE_CHECKING:
    from lamplighter.store.models import Backfills, Dags, Runs, Steps
    from lamplighter.store.rows import Row


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event of an asset, as it was recorded."""

    asset: str  # The name of the asset.
    event_id: str
    seq: int
    timestamp: DateTime
    extra: Mapping[str, Any]
    source: Any
    partition_key: str | None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One task in one run."""

    task_id: str  # The id of its task.
    state: str
    # The attempt that is running or was the last, and the last one that retries allow.
    try_number: int = 0
    max_try_number: int = 1
    # Counts every job that was requested.
    submission: int = 0
    job_run_id: str | None = None
    # Which executor has the job.
    executor: str | None = None
    error: str | None = None
    # Who marked it, when and why; None if nobody did.
    marked: Mapping[str, Any] | None = None
    # The attempts that are over, oldest first.
    tries: Sequence[Mapping[str, Any]] = ()
    submitted_at: DateTime | None = None
    started_at: DateTime | None = None
    ended_at: DateTime | None = None
    retry_at: DateTime | None = None
    # The limit that it waits for: a pool, the capacity of its executor, or a start of a job.
    waits_for: str | None = None
    waits_since: DateTime | None = None
    # Since when it has waited for capacity.
    capacity_since: DateTime | None = None
    # Of all its jobs.
    vcpu_hours: float | None = None
    memory_gb_hours: float | None = None
    storage_gb_hours: float | None = None
    cost: float | None = None
    # The jobs among them that are over and not in these sums: their bills have not come yet.
    unbilled_jobs: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a DAG. In lists, `steps` and `events` are left empty."""

    dag_id: str
    run_id: str
    run_type: str
    triggered_by: str
    state: str
    reason: str | None = None
    backfill_id: str | None = None
    dag_version: str
    partition_key: str | None = None
    # Of all its steps.
    vcpu_hours: float | None = None
    memory_gb_hours: float | None = None
    storage_gb_hours: float | None = None
    cost: float | None = None
    # How many of their jobs are over and not in these sums.
    unbilled_jobs: int = 0
    # What people marked it or its steps as, newest last.
    marks: Sequence[Mapping[str, Any]] = ()
    logical_date: DateTime | None = None
    data_interval_start: DateTime | None = None
    data_interval_end: DateTime | None = None
    run_after: DateTime
    created_at: DateTime
    queued_at: DateTime
    started_at: DateTime | None = None
    ended_at: DateTime | None = None
    conf: Mapping[str, Any] = field(default_factory=dict)
    # The asset events that triggered it, oldest first.
    events: tuple[Event, ...] = ()
    expired_events: Mapping[str, int] = field(default_factory=dict)  # How many more, by asset.
    # In the order in which they were submitted.
    steps: tuple[Step, ...] = ()

    @property
    def name(self) -> str:
        """How people name it: DAG/RUN."""
        return f"{self.dag_id}/{self.run_id}"

    @property
    def run_key(self) -> str:
        """The key under which it is stored."""
        return run_key(self.run_id)

    @property
    def delay(self) -> timedelta:
        """How long after it was due it was created."""
        return self.created_at - self.run_after

    @property
    def error(self) -> str | None:
        """The first error of its steps."""
        return next((step.error for step in self.steps if step.error), None)

    def step(self, task_id: str) -> Step:
        """Return the step of a task."""
        for step in self.steps:
            if step.task_id == task_id:
                return step
        names = ", ".join(step.task_id for step in self.steps) or "none yet"
        raise RefusedError(f"run {self.run_id} has no step {task_id!r} (there are: {names})")


@dataclass(frozen=True, kw_only=True)
class Dag:
    """A DAG: its schedule and limits, whether it may run, and its next run."""

    dag_id: str
    schedule: str
    # The time zone of the schedule, if it has one.
    zone: Zone | None = None
    is_paused: bool = False
    is_stale: bool = False
    has_import_errors: bool = False
    pause_reason: str | None = None
    schedule_error: str | None = None
    catchup: bool
    max_active_runs: int
    next_run: DateTime | None = None
    next_interval_start: DateTime | None = None
    next_interval_end: DateTime | None = None
    next_run_after: DateTime | None = None
    next_run_create_after: DateTime | None = None
    # A schedule that a push has replaced; its runs that are due until then come first.
    previous_schedule: str | None = None
    schedule_switch_at: DateTime | None = None
    # Keys of its runs.
    active: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    waiting_for_past: tuple[str, ...] = ()
    # The assets of its condition.
    asset_ids: tuple[str, ...] = ()
    backfill: str | None = None
    bundle: str
    bundle_version: str
    push: int
    file: str  # The DAG file that defines it.
    version: str

    @property
    def state(self) -> str:
        """One word for whether it gets runs: active, paused, broken or stale."""
        if self.is_stale:
            return "stale"
        if self.has_import_errors or self.schedule_error is not None:
            return "broken"
        return "paused" if self.is_paused else "active"


@dataclass(frozen=True)
class AssetProgress:
    """Names of the assets of a DAG's condition: those with pending events, and the others."""

    updated: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DayCost:
    """What the runs of a DAG cost that finished on one day of UTC."""

    day: str
    runs: int
    cost: float | None
    unbilled_jobs: int


@dataclass(frozen=True)
class Costs:
    """The cost of a DAG by day; not of all its runs if there are too many."""

    days: tuple[DayCost, ...]
    is_complete: bool


@dataclass(frozen=True, kw_only=True)
class Backfill:
    """A backfill: start included, end excluded."""

    backfill_id: str
    dag_id: str
    state: str
    reason: str | None
    reprocess: str
    run_backwards: bool
    start: DateTime
    end: DateTime
    # How many runs are planned, how many have had their turn, and what became of these.
    total: int
    position: int
    succeeded: int
    failed: int
    cancelled: int
    passed: int
    max_active_runs: int
    active: tuple[str, ...]
    # The newest dates that needed no run, each with the reason.
    skipped_runs: Sequence[Sequence[str]]
    conf: Mapping[str, Any]
    # Of its finished runs, of which so many have jobs that are not billed yet.
    cost: float | None
    unbilled_runs: int
    max_cost: float | None
    # At the pace of its runs so far; None if it is over or nothing is known.
    seconds_left: float | None
    created_at: DateTime
    ended_at: DateTime | None

    @property
    def is_open(self) -> bool:
        """Whether it is running or paused."""
        return self.state in OPEN

    @property
    def done(self) -> int:
        """How many of its dates are over, with or without a run."""
        return self.succeeded + self.failed + self.cancelled + self.passed


# From rows.


def _columns(view: type, row: "Row") -> dict[str, Any]:
    """Return the fields of a view that are columns of a row."""
    columns = type(row).get_attributes()
    found = {each: getattr(row, each.name) for each in fields(view) if each.name in columns}
    # DynamoDB has one type of number.
    return {
        each.name: int(value or 0) if each.type is int else value for each, value in found.items()
    }


def run_summary(row: "Runs") -> Run:
    """Return a run as it is listed: without steps and events."""
    empty = {"conf": masked(row.conf or {}), "marks": row.marks or (), "events": ()}
    return Run(**_columns(Run, row) | empty)


def view_run(row: "Runs") -> Run:
    """Return a run with its steps and events, which are read for that."""
    events = triggering_asset_events(row)
    found = tuple(
        Event(
            **_columns(Event, event)
            | {
                "asset": asset,
                "event_id": event_id_of(event),
                "extra": masked(event.extra or {}),
                "source": masked(event.source),
            }
        )
        for asset, event in events.recorded
    )
    return replace(
        run_summary(row), events=found, expired_events=events.expired, steps=steps_of(row)
    )


def steps_of(row: "Runs") -> tuple[Step, ...]:
    """Return the steps of a run in the order in which they were submitted, the others last."""
    return view_steps(step_rows.steps_of(row).values())


def view_outputs(row: "Runs") -> dict[str, Mapping[str, Any]]:
    """Return what the steps of a run left for later ones, by task; a report is read for each."""
    found = {step.step_id: outputs_of(row, step) for step in step_rows.steps_of(row).values()}
    return {task_id: masked(outputs) for task_id, outputs in sorted(found.items()) if outputs}


def view_steps(rows: Iterable["Steps"]) -> tuple[Step, ...]:
    """Return steps in the order in which they were submitted, the others last."""

    def order(row: "Steps") -> tuple[str, str]:
        return ("~" if row.submitted_at is None else iso(row.submitted_at), row.step_id)

    return tuple(
        Step(
            **_columns(Step, row)
            | {
                "task_id": row.step_id,
                "error": row.error and masked_text(row.error),
                "tries": masked(row.tries) if row.tries else (),
                "unbilled_jobs": [each["job_run_id"] for each in row.unbilled_jobs or ()],
            }
        )
        for row in sorted(rows, key=order)
    )


def costs_by_day(dag_id: str, *, days: int) -> Costs:
    """Return what the runs of a DAG cost that finished on the last days, newest first."""
    rows, is_all = run_rows.finished_runs(dag_id, days=days)
    by_day: dict[str, list[Run]] = {}
    for run in map(run_summary, rows):
        if run.ended_at is not None:
            by_day.setdefault(run.ended_at.to_date_string(), []).append(run)
    return Costs(tuple(_day_cost(*each) for each in sorted(by_day.items(), reverse=True)), is_all)


def _day_cost(day: str, runs: Sequence[Run]) -> DayCost:
    known = [run.cost for run in runs if run.cost is not None]
    return DayCost(
        day=day,
        runs=len(runs),
        cost=sum(known) if known else None,
        unbilled_jobs=sum(run.unbilled_jobs for run in runs),
    )


def all_runs() -> list[Run]:
    """Return every run with its steps, and without its events; reads both tables whole."""
    steps: dict[str, list[Steps]] = {}
    for step in step_rows.all_steps():
        steps.setdefault(step.run_ref, []).append(step)
    return [
        replace(
            run_summary(row),
            steps=view_steps(steps.get(step_rows.run_ref(row.dag_id, row.run_key), ())),
        )
        for row in run_rows.all_runs()
    ]


def view_dag(row: "Dags") -> Dag:
    """Return a DAG."""
    return Dag(
        **_columns(Dag, row)
        | {
            "zone": _zone_of_schedule(row),
            "previous_schedule": (row.previous_schedule or {}).get("words"),
            "active": tuple(sorted(row.active or ())),
            "waiting": tuple(entry.partition("|")[2] for entry in sorted(row.waiting or ())),
            "waiting_for_past": tuple(sorted(row.waiting_for_past or ())),
            "asset_ids": tuple(sorted(waited_for(row))),
            "file": row.file,
            "pause_reason": masked(row.pause_reason),
            "schedule_error": masked(row.schedule_error),
        }
    )


def _zone_of_schedule(row: "Dags") -> Zone | None:
    try:
        return zone_of_schedule(json.loads(row.timetable))
    except UNREADABLE:
        return None


def asset_progress(rows: Collection["Dags"]) -> dict[str, AssetProgress]:
    """Return, by DAG that waits for assets, which of them have pending events.

    DAGs whose assets cannot be read are left out.
    """
    waiting = {row.dag_id: row for row in rows if row.asset_condition}
    found = {}
    for dag_id, pending in (pending_of(waiting.values()) if waiting else {}).items():
        names = {key: each.name or each.uri or key for key, each in pending.assets.items()}
        missing = waited_for(waiting[dag_id]) - pending.events.keys()
        found[dag_id] = AssetProgress(
            updated=tuple(sorted(names.get(key, key) for key in pending.events)),
            missing=tuple(sorted(names.get(key, key) for key in missing)),
        )
    return found


def view_backfill(row: "Backfills") -> Backfill:
    """Return a backfill."""
    return Backfill(
        **_columns(Backfill, row)
        | {
            "active": tuple(sorted(row.active or ())),
            "skipped_runs": row.skipped_runs or (),
            "conf": masked(row.conf or {}),
            "seconds_left": seconds_left(row) if row.state in OPEN else None,
        }
    )
