"""`lamplighter dags`: which there are, when they run next, and what is wrong with them."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.text import Text

from lamplighter.operations import pause as pausing
from lamplighter.operations.pause import Missed
from lamplighter.registry.import_problems import all_problems
from lamplighter.scheduler.pending import PendingEvents, pending_of, waited_for
from lamplighter.store.models import Dags, Runs
from lamplighter.store.runs import last_runs, runs_of
from lamplighter.store.versions import newest_document
from lamplighter_cli import console
from lamplighter_cli.console import instant, instant_json
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.finding import find_dag, zone_of
from lamplighter_cli.options import AsJson

app = typer.Typer(help="DAGs: list them, look at one, pause it.", no_args_is_help=True)

Dag = Annotated[str, typer.Argument(metavar="DAG", help="The id of the DAG.")]

_SHOWN_RUNS = 5


@app.command("list")
@on_deployment
def list_dags(*, as_json: AsJson = False) -> None:
    """Show all DAGs with their schedules, states, next runs and last runs."""
    rows = sorted(Dags.scan(), key=lambda row: row.dag_id)
    pending = _pending([row for row in rows if row.asset_condition])
    last = last_runs([row.dag_id for row in rows])
    if as_json:
        console.print_json(
            [_row_json(row, pending.get(row.dag_id), last.get(row.dag_id)) for row in rows]
        )
        return
    if not rows:
        console.out().print("no DAGs yet: push a bundle with `lamplighter push DIR`")
        return
    table = console.Rows("DAG", "schedule", "state", "next run", "run after", "last run")
    for row in rows:
        run = last.get(row.dag_id)
        zone = zone_of(row)
        table.add(
            Text(row.dag_id, "bold"),
            row.schedule,
            console.state(state_of(row)),
            _next_run(row, pending.get(row.dag_id)),
            instant(row.next_run_after, zone),
            console.state(run.state) if run else "",
        )
    console.out().print(table)


@app.command()
@on_deployment
def show(dag_id: Dag, *, as_json: AsJson = False) -> None:
    """Show a DAG: its schedule and limits, its tasks, what it waits for, its newest runs."""
    row = find_dag(dag_id)
    pending = _pending([row]).get(dag_id) if row.asset_condition else None
    document = newest_document(row)
    runs = runs_of(dag_id, limit=_SHOWN_RUNS)
    described = {
        **_row_json(row, pending, runs[0] if runs else None),
        "description": document.get("description"),
        "timezone": document.get("timezone"),
        "bundle": row.bundle,
        "bundle_version": row.bundle_version,
        "version": row.version,
        "file": row.place.rpartition("#")[0],
        "previous_schedule": (row.previous_schedule or {}).get("words"),
        "schedule_switch_at": instant_json(row.schedule_switch_at),
        "catchup": row.catchup,
        "max_active_runs": int(row.max_active_runs),
        "active": sorted(row.active or ()),
        "backfill": row.backfill,
        "waiting": [entry.partition("|")[2] for entry in sorted(row.waiting or ())],
        "waiting_for_past": sorted(row.waiting_for_past or ()),
        "tasks": [task["task_id"] for task in document.get("tasks", ())],
    }
    if as_json:
        console.print_json(described)
        return
    _show(row, described, pending)
    if runs:
        zone = zone_of(row)
        table = console.Rows("run", "state", "run after", "ended")
        for run in runs:
            cells = (instant(run.run_after, zone), instant(run.ended_at, zone))
            table.add(run.run_id, console.state(run.state), *cells)
        console.out().print()
        console.out().print(table)


def _show(row: Dags, described: Mapping[str, Any], pending: PendingEvents | None) -> None:
    zone = zone_of(row)
    plain = ("description", "schedule", "timezone", "pause_reason", "error", "file", "version")
    slots = f"{len(row.active or ())} of {row.max_active_runs:.0f} taken"
    slots += f", {len(row.waiting)} waiting" if row.waiting else ""
    slots += f", {len(row.waiting_for_past)} waiting for their past" if row.waiting_for_past else ""
    console.out().print(
        console.facts(
            {
                "DAG": Text(row.dag_id, "bold"),
                "state": console.state(described["state"]),
                **{name.replace("_", " "): described[name] for name in plain},
                "old schedule": _old_schedule(row, zone),
                "bundle": f"{row.bundle}, push {row.push:.0f}",
                "tasks": ", ".join(described["tasks"]),
                "catchup": "yes" if row.catchup else "no",
                "slots": slots,
                "backfill": row.backfill,
                "next run": instant(row.next_run, zone),
                "interval": _interval(row, zone),
                "run after": instant(row.next_run_after, zone),
                "assets": _updated(row, pending),
                "updated": ", ".join(described["assets_updated"]),
                "missing": ", ".join(described["assets_missing"]),
            }
        )
    )


def _old_schedule(row: Dags, zone: Any) -> str | None:
    if row.previous_schedule is None:
        return None
    until = instant(row.schedule_switch_at, zone)
    return f"{row.previous_schedule['words']}, for the runs that were due until {until}"


@app.command()
@on_deployment
def pause(dag_id: Dag, *, as_json: AsJson = False) -> None:
    """Keep a DAG from getting runs; steps that run may finish."""
    find_dag(dag_id)
    _tell(pausing.pause(dag_id), as_json=as_json)


@app.command()
@on_deployment
def unpause(
    dag_id: Dag,
    *,
    catchup: Annotated[
        bool, typer.Option("--catchup", help="Make up for all runs that were missed.")
    ] = False,
    latest: Annotated[
        bool, typer.Option("--latest", help="Make up for the latest run that was missed only.")
    ] = False,
    from_now: Annotated[
        bool, typer.Option("--from-now", help="Make up for nothing: begin with the next run.")
    ] = False,
    keep_events: Annotated[
        bool | None,
        typer.Option(
            "--keep-events/--drop-events",
            help="Whether asset events that are pending count. Default: only with --catchup.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let a DAG have runs again; without a choice, its own catchup decides about what it missed."""
    wanted = {Missed.ALL: catchup, Missed.LATEST: latest, Missed.NONE: from_now}
    chosen = [choice for choice, is_wanted in wanted.items() if is_wanted]
    if len(chosen) > 1:
        names = " and ".join(f"--{choice}" for choice in chosen)
        raise typer.BadParameter(f"{names} exclude each other: leave one out")
    find_dag(dag_id)
    missed = chosen[0] if chosen else None
    _tell(pausing.unpause(dag_id, missed=missed, keep_events=keep_events), as_json=as_json)


def _tell(row: Dags, *, as_json: bool) -> None:
    if as_json:
        console.print_json(_row_json(row, None, None))
        return
    then = instant(row.next_run_after, zone_of(row))
    what = f"; its next run comes after {then}" if then and state_of(row) == "active" else ""
    console.out().print(Text(f"DAG {row.dag_id} is {state_of(row)}{what}"), soft_wrap=True)


@app.command()
@on_deployment
def errors(*, as_json: AsJson = False) -> None:
    """Show files that could not be imported, warnings, and schedules that cannot be followed."""
    found = all_problems()
    found += [
        {"bundle": row.bundle, "severity": "error", "file": row.place.rpartition("#")[0]}
        | {"line": None, "message": f"DAG {row.dag_id}: {row.schedule_error}", "frames": []}
        for row in Dags.scan(Dags.schedule_error.exists())
    ]
    if as_json:
        console.print_json(found)
        return
    out = console.out()
    for problem in found:
        place = problem["file"] + (f":{problem['line']}" if problem["line"] else "")
        style = "red" if problem["severity"] == "error" else "yellow"
        message = " ".join(str(problem["message"]).split())
        line = ((f"{problem['severity']}: ", style), f"{problem['bundle']}: {place}: {message}")
        out.print(Text.assemble(*line), soft_wrap=True)
    if not found:
        out.print("no errors")


def state_of(row: Dags) -> str:
    """Return the one word for what a DAG may do."""
    if row.is_stale:
        return "stale"
    if row.has_import_errors or row.schedule_error is not None:
        return "broken"
    return "paused" if row.is_paused else "active"


def _pending(rows: list[Dags]) -> dict[str, PendingEvents]:
    return pending_of(rows) if rows else {}


def _updated(row: Dags, pending: PendingEvents | None) -> str:
    if pending is None:
        return ""
    wanted = waited_for(row)
    assets = "asset" if len(wanted) == 1 else "assets"
    return f"{len(pending.events)} of {len(wanted)} {assets} updated"


def _next_run(row: Dags, pending: PendingEvents | None) -> str:
    at = row.next_run_after if row.next_run is None else row.next_run
    dated = instant(at, zone_of(row))
    return "; ".join(text for text in (dated, _updated(row, pending)) if text)


def _interval(row: Dags, zone: Any) -> str:
    if row.next_interval_start is None or row.next_interval_start == row.next_interval_end:
        return ""
    return f"{instant(row.next_interval_start, zone)} → {instant(row.next_interval_end, zone)}"


def _row_json(row: Dags, pending: PendingEvents | None, last: Runs | None) -> dict[str, Any]:
    waits = waited_for(row)
    names = (
        {key: each.name or each.uri or key for key, each in pending.assets.items()}
        if pending
        else {}
    )
    updated = set(pending.events) if pending else set()
    return {
        "dag_id": row.dag_id,
        "schedule": row.schedule,
        "state": state_of(row),
        "pause_reason": row.pause_reason,
        "error": row.schedule_error,
        "next_run": instant_json(row.next_run),
        "next_interval_start": instant_json(row.next_interval_start),
        "next_interval_end": instant_json(row.next_interval_end),
        "next_run_after": instant_json(row.next_run_after),
        "assets_updated": sorted(names.get(key, key) for key in updated),
        "assets_missing": sorted(names.get(key, key) for key in waits - updated),
        "active_runs": len(row.active or ()),
        "last_run_id": last.run_id if last else None,
        "last_run_state": last.state if last else None,
    }
