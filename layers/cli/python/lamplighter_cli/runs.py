"""`lamplighter runs`: what a run is made of, and what can be asked of it."""

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from lamplighter.events.ledger import RunEvents, require_run, triggering_asset_events
from lamplighter.runs.requests import cancel_run, clear_run, retry_run
from lamplighter.runs.view import run_ref
from lamplighter.store.models import Runs, Steps
from lamplighter.zones import iso
from lamplighter_cli import console
from lamplighter_cli.deployment import AsJson, EndpointUrl

app = typer.Typer(help="Runs: look at one, cancel it, try it again.", no_args_is_help=True)

Run = Annotated[str, typer.Argument(help="The run, as DAG/RUN.")]

_TEXTS = (
    "dag_id",
    "run_id",
    "run_type",
    "triggered_by",
    "state",
    "because",
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


@app.command()
def show(run: Run, *, as_json: AsJson = False, endpoint_url: EndpointUrl = "") -> None:
    """Show a run, its steps, and the asset events that triggered it."""
    row = require_run(run)
    found = triggering_asset_events(row)
    steps = sorted(Steps.query(run_ref(row.dag_id, row.run_key), consistent_read=True), key=_order)
    facts = _facts(row)
    if as_json:
        events = {"triggering_asset_events": dict(found.events), "expired": dict(found.expired)}
        described = {"conf": row.conf or {}, "steps": [_step_json(step) for step in steps]}
        console.print_json({**facts, **described, **events})
        return
    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        if value is not None:
            table.add_row(Text(name, "bold"), Text(str(value)))
    console.out().print(table)
    if steps:
        console.out().print(_table_of(steps))
    _show_events(found)


@app.command()
def cancel(run: Run, *, as_json: AsJson = False, endpoint_url: EndpointUrl = "") -> None:
    """End a run: its Spark jobs are cancelled, and it is over when they are."""
    row = require_run(run)
    _tell(cancel_run(row.dag_id, row.run_key), "its jobs are being cancelled", as_json=as_json)


@app.command()
def retry(run: Run, *, as_json: AsJson = False, endpoint_url: EndpointUrl = "") -> None:
    """Try the failed steps of a run again, and what never ran because of them."""
    row = require_run(run)
    _tell(retry_run(row.dag_id, row.run_key), "its failed steps run again", as_json=as_json)


@app.command()
def clear(
    run: Run,
    *,
    task: Annotated[
        list[str] | None,
        typer.Option(help="Only this task and all that follow it; may be given several times."),
    ] = None,
    as_json: AsJson = False,
    endpoint_url: EndpointUrl = "",
) -> None:
    """Let a run begin again, whatever became of it; jobs that still run are cancelled first."""
    row = require_run(run)
    cleared = clear_run(row.dag_id, row.run_key, tasks=task or ())
    _tell(cleared, "it begins again", as_json=as_json)


def _tell(row: Runs, what: str, *, as_json: bool) -> None:
    if as_json:
        console.print_json(_facts(row))
        return
    then = "" if row.state == "cancelled" else f": {what}"
    console.out().print(Text(f"run {row.run_id} of DAG {row.dag_id} is {row.state}{then}"))


def _facts(row: Runs) -> dict[str, Any]:
    return {name: getattr(row, name) for name in _TEXTS} | _instants(row, _INSTANTS) | _costs(row)


def _instants(row: Runs | Steps, names: tuple[str, ...]) -> dict[str, str | None]:
    found = ((name, getattr(row, name)) for name in names)
    return {name: iso(at) if at is not None else None for name, at in found}


def _costs(row: Runs | Steps) -> dict[str, float | None]:
    return {name: getattr(row, name) for name in _COSTS}


def _order(step: Steps) -> tuple[str, str]:
    """Return what puts steps in the order in which they began, the others last."""
    return (iso(step.submitted_at) if step.submitted_at is not None else "~", step.step_id)


def _step_json(step: Steps) -> dict[str, Any]:
    return {
        "task_id": step.step_id,
        "state": step.state,
        "try_number": int(step.try_number),
        "submission": int(step.submission),
        "job_run_id": step.job_run_id,
        "error": step.error,
        "tries": step.tries or [],
        **_instants(step, _STEP_INSTANTS),
        **_costs(step),
    }


def _table_of(steps: list[Steps]) -> Table:
    table = Table("task", "state", "try", "job", "started", "ended", "cost", "error")
    for step in steps:
        at = _instants(step, _STEP_INSTANTS)
        cells = (
            step.step_id,
            step.state,
            f"{step.try_number:.0f} of {step.last_try:.0f}",
            step.job_run_id or "",
            at["started_at"] or "",
            at["ended_at"] or (f"again at {at['retry_at']}" if at["retry_at"] else ""),
            "" if step.cost is None else f"${step.cost:.4f}",
            (step.error or "").strip().rpartition("\n")[2],
        )
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _show_events(found: RunEvents) -> None:
    if found.events:
        table = Table("asset", "event", "timestamp", "partition", "extra")
        for asset, events in found.events.items():
            for event in events:
                cells = (asset, event["event_id"], event["timestamp"], event["partition_key"])
                extra = str(event["extra"]) if event["extra"] else ""
                table.add_row(*(Text(cell or "") for cell in (*cells, extra)))
        console.out().print(table)
    for asset, count in found.expired.items():
        console.out().print(Text(f"{count} more of {asset}, which are no longer kept"))
