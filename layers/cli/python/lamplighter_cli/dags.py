"""`lamplighter dags`: list and show DAGs, pause and unpause them, list their errors."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from lamplighter.registry.import_problems import all_problems
from lamplighter.safe_text import masked
from lamplighter.store.dags import all_dags, dags_with_schedule_errors, newest_document
from lamplighter.store.runs import last_runs, runs_of
from lamplighter_cli import console
from lamplighter_cli.console import instant, instant_json, view_json
from lamplighter_cli.definitions import (
    params_json,
    params_text,
    task_groups,
    task_ids,
    tasks_text,
)
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.lookup import find_dag
from lamplighter_cli.options import AsJson, DagId
from lamplighter_operations import pause as operations
from lamplighter_operations.pause import Missed
from lamplighter_operations.views import (
    AssetProgress,
    Costs,
    Dag,
    Run,
    asset_progress,
    costs_by_day,
    run_summary,
    view_dag,
)

if TYPE_CHECKING:
    from lamplighter.store.models import Dags

app = typer.Typer(help="List, show, pause and unpause DAGs.", no_args_is_help=True)

_SHOWN_RUNS = 5
_SHOWN_DAYS = 7


@app.command("list")
@on_deployment
def list_dags(*, as_json: AsJson = False) -> None:
    """List all DAGs with their schedules, states, next runs and last runs."""
    rows = sorted(all_dags(consistent=False), key=lambda row: row.dag_id)
    progress = asset_progress(rows)
    last = {dag_id: run_summary(row) for dag_id, row in last_runs([r.dag_id for r in rows]).items()}
    dags = [view_dag(row) for row in rows]
    if as_json:
        console.print_json(
            [_dag_json(dag, progress.get(dag.dag_id), last.get(dag.dag_id)) for dag in dags]
        )
        return
    if not dags:
        console.out().print("no DAGs yet: push a bundle with `lamplighter push DIR`")
        return
    table = console.Rows("DAG", "schedule", "state", "next run", "run after", "last run")
    for dag in dags:
        run = last.get(dag.dag_id)
        table.add(
            Text(dag.dag_id, "bold"),
            dag.schedule,
            console.state(dag.state),
            _next_run(dag, progress.get(dag.dag_id)),
            instant(dag.next_run_after, dag.zone),
            console.state(run.state) if run else "",
        )
    console.out().print(table)
    for dag in dags:
        if dag.pause_reason:
            line = f"DAG {dag.dag_id} paused itself: {dag.pause_reason}"
            console.out().print(Text(line, "yellow"), soft_wrap=True)


@app.command()
@on_deployment
def show(dag_id: DagId, *, as_json: AsJson = False) -> None:
    """Show a DAG: its schedule, limits, tasks, params, assets, newest runs and cost by day."""
    row = find_dag(dag_id)
    progress = asset_progress([row]).get(dag_id)
    dag, document = view_dag(row), newest_document(row)
    runs = [run_summary(run) for run in runs_of(dag_id, limit=_SHOWN_RUNS)]
    costs = costs_by_day(dag_id, days=_SHOWN_DAYS)
    if as_json:
        listed = _dag_json(dag, progress, runs[0] if runs else None)
        console.print_json({**listed, **_details_json(dag, document), **_costs_json(costs)})
        return
    _show(dag, document, progress)
    if runs:
        table = console.Rows("run", "state", "run after", "ended", "cost")
        for run in runs:
            instants = (instant(run.run_after, dag.zone), instant(run.ended_at, dag.zone))
            cost = console.cost(run.cost, run.unbilled_jobs)
            table.add(run.run_id, console.state(run.state), *instants, cost)
        console.out().print()
        console.out().print(table)
    _show_costs(costs)


def _show_costs(costs: Costs) -> None:
    if not costs.days:
        return
    table = console.Rows("day (UTC)", "finished runs", "cost")
    for each in costs.days:
        table.add(each.day, f"{each.runs:,}", console.cost(each.cost, each.unbilled_jobs))
    console.out().print()
    console.out().print(table)
    if not costs.is_complete:
        console.out().print("there are more runs than were read: the true costs are higher")


def _costs_json(costs: Costs) -> dict[str, Any]:
    days = [view_json(each) for each in costs.days]
    return {"costs_by_day": days, "costs_are_complete": costs.is_complete}


def _details_json(dag: Dag, document: dict[str, Any]) -> dict[str, Any]:
    return {
        "description": masked(document.get("description")),
        "timezone": document.get("timezone"),
        "bundle": dag.bundle,
        "bundle_version": dag.bundle_version,
        "version": dag.version,
        "file": dag.file,
        "previous_schedule": dag.previous_schedule,
        "schedule_switch_at": instant_json(dag.schedule_switch_at),
        "catchup": dag.catchup,
        "max_active_runs": dag.max_active_runs,
        "active": dag.active,
        "backfill": dag.backfill,
        "waiting": dag.waiting,
        "waiting_for_past": dag.waiting_for_past,
        "tasks": task_ids(document),
        "task_groups": task_groups(document),
        "params": params_json(document),
    }


def _show(dag: Dag, document: dict[str, Any], progress: AssetProgress | None) -> None:
    slots = f"{len(dag.active)} of {dag.max_active_runs} used"
    slots += f", {len(dag.waiting)} waiting" if dag.waiting else ""
    past = len(dag.waiting_for_past)
    slots += f", {past} waiting for earlier runs" if past else ""
    console.out().print(
        console.details(
            {
                "DAG": Text(dag.dag_id, "bold"),
                "state": console.state(dag.state),
                "description": masked(document.get("description")),
                "schedule": dag.schedule,
                "timezone": document.get("timezone"),
                "pause reason": dag.pause_reason,
                "error": dag.schedule_error,
                "file": dag.file,
                "version": dag.version,
                "previous schedule": _previous_schedule(dag),
                "bundle": f"{dag.bundle}, push {dag.push}",
                "tasks": tasks_text(document),
                "params": params_text(document),
                "catchup": "yes" if dag.catchup else "no",
                "slots": slots,
                "backfill": dag.backfill,
                "next run": instant(dag.next_run, dag.zone),
                "interval": _interval(dag),
                "run after": instant(dag.next_run_after, dag.zone),
                "assets": progress_text(progress),
                "updated": ", ".join(progress.updated) if progress else None,
                "missing": ", ".join(progress.missing if progress else dag.asset_ids),
            }
        )
    )


def _previous_schedule(dag: Dag) -> str | None:
    if dag.previous_schedule is None:
        return None
    until = instant(dag.schedule_switch_at, dag.zone)
    return f"{dag.previous_schedule}, for the runs that were due until {until}"


@app.command()
@on_deployment
def pause(dag_id: DagId, *, as_json: AsJson = False) -> None:
    """Pause a DAG: it gets no new runs; running steps continue."""
    find_dag(dag_id)
    _report(operations.pause(dag_id), as_json=as_json)


@app.command()
@on_deployment
def unpause(
    dag_id: DagId,
    *,
    catchup: Annotated[bool, typer.Option("--catchup", help="Create all missed runs.")] = False,
    latest: Annotated[
        bool, typer.Option("--latest", help="Create only the latest missed run.")
    ] = False,
    from_now: Annotated[
        bool, typer.Option("--from-now", help="Create no missed runs: continue with the next one.")
    ] = False,
    keep_events: Annotated[
        bool | None,
        typer.Option(
            "--keep-events/--drop-events",
            help="Keep or drop pending asset events. Default: keep them only with --catchup.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Unpause a DAG. By default its own catchup setting decides about missed runs."""
    wanted = {Missed.ALL: catchup, Missed.LATEST: latest, Missed.NONE: from_now}
    chosen = [choice for choice, is_wanted in wanted.items() if is_wanted]
    if len(chosen) > 1:
        names = " and ".join(f"--{choice}" for choice in chosen)
        raise typer.BadParameter(f"{names} exclude each other: choose one")
    find_dag(dag_id)
    missed = chosen[0] if chosen else None
    _report(operations.unpause(dag_id, missed=missed, keep_events=keep_events), as_json=as_json)


def _report(row: "Dags", *, as_json: bool) -> None:
    """Write the state of a DAG after a command."""
    dag = view_dag(row)
    if as_json:
        console.print_json(_dag_json(dag, None, None))
        return
    after = instant(dag.next_run_after, dag.zone)
    coming = f"; its next run comes after {after}" if after and dag.state == "active" else ""
    console.out().print(Text(f"DAG {dag.dag_id} is {dag.state}{coming}"), soft_wrap=True)


@app.command()
@on_deployment
def errors(*, as_json: AsJson = False) -> None:
    """List import errors, warnings, and schedules that cannot be followed."""
    found = all_problems()
    found += [
        {"bundle": dag.bundle, "severity": "error", "file": dag.file}
        | {"line": None, "message": f"DAG {dag.dag_id}: {dag.schedule_error}", "frames": []}
        for dag in map(view_dag, dags_with_schedule_errors())
    ]
    found = masked(found)
    if as_json:
        console.print_json(found)
        return
    out = console.out()
    for problem in found:
        where = problem["file"] + (f":{problem['line']}" if problem["line"] else "")
        style = "red" if problem["severity"] == "error" else "yellow"
        message = " ".join(str(problem["message"]).split())
        line = ((f"{problem['severity']}: ", style), f"{problem['bundle']}: {where}: {message}")
        out.print(Text.assemble(*line), soft_wrap=True)
    if not found:
        out.print("no errors")


def progress_text(progress: AssetProgress | None) -> str:
    """Return how many of the assets of a DAG have been updated, in words."""
    if progress is None:
        return ""
    updated = len(progress.updated)
    total = updated + len(progress.missing)
    return f"{updated} of {total} {'asset' if total == 1 else 'assets'} updated"


def _next_run(dag: Dag, progress: AssetProgress | None) -> str:
    at = dag.next_run_after if dag.next_run is None else dag.next_run
    return "; ".join(text for text in (instant(at, dag.zone), progress_text(progress)) if text)


def _interval(dag: Dag) -> str:
    if dag.next_interval_start is None or dag.next_interval_start == dag.next_interval_end:
        return ""
    start, end = dag.next_interval_start, dag.next_interval_end
    return f"{instant(start, dag.zone)} → {instant(end, dag.zone)}"


def _dag_json(dag: Dag, progress: AssetProgress | None, last: Run | None) -> dict[str, Any]:
    return {
        "dag_id": dag.dag_id,
        "schedule": dag.schedule,
        "state": dag.state,
        "pause_reason": dag.pause_reason,
        "error": dag.schedule_error,
        "next_run": instant_json(dag.next_run),
        "next_interval_start": instant_json(dag.next_interval_start),
        "next_interval_end": instant_json(dag.next_interval_end),
        "next_run_after": instant_json(dag.next_run_after),
        "assets_updated": progress.updated if progress else (),
        "assets_missing": progress.missing if progress else dag.asset_ids,
        "active_runs": len(dag.active),
        "last_run_id": last.run_id if last else None,
        "last_run_state": last.state if last else None,
    }
