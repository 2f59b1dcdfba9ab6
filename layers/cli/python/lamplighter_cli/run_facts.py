"""What is shown of runs and their steps, for programs and for people."""

from typing import Any

from rich.table import Table

from lamplighter.store.models import Runs, Steps
from lamplighter.store.steps import run_ref
from lamplighter.zones import Zone, iso
from lamplighter_cli import console
from lamplighter_cli.console import Rows, instant, instant_json

_TEXTS = (
    "dag_id",
    "run_id",
    "run_type",
    "triggered_by",
    "state",
    "reason",
    "backfill_id",
    "dag_version",
    "partition_key",
)
_INSTANTS = (
    "logical_date",
    "data_interval_start",
    "data_interval_end",
    "run_after",
    "created_at",
    "queued_at",
    "started_at",
    "ended_at",
)
_COSTS = ("vcpu_hours", "memory_gb_hours", "storage_gb_hours", "cost")
_STEP_INSTANTS = ("submitted_at", "started_at", "ended_at", "retry_at")


def run_name(row: Runs) -> str:
    """Return how a person names a run."""
    return f"{row.dag_id}/{row.run_id}"


def run_json(row: Runs) -> dict[str, Any]:
    """Return a run for programs."""
    instants = {name: instant_json(getattr(row, name)) for name in _INSTANTS}
    texts = {name: getattr(row, name) for name in _TEXTS}
    return {**texts, "marks": row.marks or [], **instants, **_costs(row)}


def step_json(step: Steps) -> dict[str, Any]:
    """Return a step for programs."""
    return {
        "task_id": step.step_id,
        "state": step.state,
        "try_number": int(step.try_number),
        "submission": int(step.submission),
        "job_run_id": step.job_run_id,
        "error": step.error,
        "marked": step.marked,
        "tries": step.tries or [],
        **{name: instant_json(getattr(step, name)) for name in _STEP_INSTANTS},
        **_costs(step),
    }


def _costs(row: Runs | Steps) -> dict[str, float | None]:
    return {name: getattr(row, name) for name in _COSTS}


def steps_of(row: Runs) -> list[Steps]:
    """Return the steps of a run in the order in which they began, the others last."""
    found = Steps.query(run_ref(row.dag_id, row.run_key), consistent_read=True)
    # Of a run that a backfill has begun anew, those of the one before may still be there.
    return sorted((step for step in found if step.run_created_at == row.created_at), key=_order)


def _order(step: Steps) -> tuple[str, str]:
    return (iso(step.submitted_at) if step.submitted_at is not None else "~", step.step_id)


def run_table(row: Runs, zone: Zone | None) -> Table:
    """Return a run for people."""
    values = {name: getattr(row, name) for name in _TEXTS} | _costs(row)
    instants = {name: instant(getattr(row, name), zone) for name in _INSTANTS}
    marks = "\n".join(map(_mark_text, row.marks or ())) or None
    shown = {**values, "state": console.state(row.state), "marks": marks, **instants}
    return console.facts({name.replace("_", " "): value for name, value in shown.items()})


def _mark_text(mark: dict[str, Any]) -> str:
    what = f"task {mark['task_id']}" if mark["task_id"] else "run"
    return f"{mark['at']} {what} {mark['from']} -> {mark['to']} by {mark['by']}: {mark['why']}"


def runs_table(rows: list[Runs], zone: Zone | None) -> Rows:
    """Return several runs for people, one below the other."""
    table = Rows("run", "state", "run after", "started", "ended")
    for row in rows:
        cells = (row.run_after, row.started_at, row.ended_at)
        table.add(
            run_name(row),
            console.state(row.state),
            *(instant(at, zone) for at in cells),
        )
    return table


def steps_table(steps: list[Steps], zone: Zone | None) -> Rows:
    """Return the steps of a run for people."""
    table = Rows("task", "state", "try", "job", "started", "ended", "cost", "error")
    for step in steps:
        again = instant(step.retry_at, zone)
        cells = (
            f"{step.try_number:.0f} of {step.max_try_number:.0f}",
            step.job_run_id or "",
            instant(step.started_at, zone),
            instant(step.ended_at, zone) or (f"again at {again}" if again else ""),
            "" if step.cost is None else f"${step.cost:.4f}",
            (step.error or "").strip().rpartition("\n")[2],
        )
        table.add(step.step_id, console.state(step.state), *cells)
    return table
