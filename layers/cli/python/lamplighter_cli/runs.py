"""`lamplighter runs`: list, show, trigger, cancel, retry, clear and mark runs."""

import getpass
import json
from typing import TYPE_CHECKING, Annotated

import typer
from pendulum import DateTime
from rich.table import Table
from rich.text import Text

from lamplighter import clock
from lamplighter.errors import RefusedError
from lamplighter.store.dags import document_of_run
from lamplighter.store.runs import STATES, recent_runs, runs_of
from lamplighter.timetables.base import DataInterval
from lamplighter.zones import Zone, instant_in
from lamplighter_cli import console
from lamplighter_cli.definitions import groups_by_task
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.lookup import (
    find_dag,
    find_run,
    require_states,
    zone_of_dates,
    zone_of_runs,
)
from lamplighter_cli.options import AsJson, Conf, DagId, RunName, read_conf, read_time
from lamplighter_cli.runs_logs import logs
from lamplighter_cli.runs_open import open_ui
from lamplighter_cli.runs_output import (
    outputs_table,
    run_json,
    run_table,
    runs_table,
    steps_table,
    whole_run_json,
)
from lamplighter_cli.runs_watch import watch
from lamplighter_operations.runs import cancel_run, clear_run, mark_run, mark_step, retry_run
from lamplighter_operations.trigger import create_manual_run
from lamplighter_operations.views import Run, run_summary, view_dag, view_outputs, view_run

if TYPE_CHECKING:
    from lamplighter.store.models import Runs

app = typer.Typer(help="List, watch, trigger, cancel and retry runs.", no_args_is_help=True)
app.command("watch")(watch)
app.command("logs")(logs)
app.command("open")(open_ui)


@app.command("list")
@on_deployment
def list_runs(
    dag_id: Annotated[str, typer.Argument(metavar="DAG", help="Only runs of this DAG.")] = "",
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(help=f"Only runs in this state ({', '.join(STATES)}); repeatable."),
    ] = None,
    limit: Annotated[int, typer.Option("-n", min=1, help="Maximum number of runs.")] = 20,
    days: Annotated[
        int, typer.Option(min=1, help="Without a DAG: how many days of finished runs to search.")
    ] = 2,
    as_json: AsJson = False,
) -> None:
    """List the newest runs: of one DAG by date, of all DAGs by last change of state."""
    states = require_states(state or ())
    zone = view_dag(find_dag(dag_id)).zone if dag_id else None
    if dag_id:
        rows = runs_of(dag_id, limit=limit, states=states)
    else:
        rows = recent_runs(limit=limit, days=days, states=states or STATES)
    runs = [run_summary(row) for row in rows]
    if as_json:
        console.print_json([run_json(run) for run in runs])
    elif runs:
        console.out().print(runs_table(runs, zone))
    else:
        where = f"of DAG {dag_id}" if dag_id else f"in the last {days} days (see --days)"
        console.out().print(Text(f"no such runs {where}" if states else f"no runs {where}"))


@app.command()
@on_deployment
def show(
    run: RunName,
    *,
    outputs: Annotated[
        bool, typer.Option("--outputs", help="Also show what its steps left for later steps.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a run, its steps, and the asset events that triggered it."""
    row = find_run(run)
    found, left = view_run(row), view_outputs(row) if outputs else None
    groups = groups_by_task(document_of_run(row))
    if as_json:
        whole = whole_run_json(found, groups)
        console.print_json(whole | ({} if left is None else {"outputs": left}))
        return
    zone = zone_of_runs(found.dag_id)
    console.out().print(run_table(found, zone))
    if found.steps:
        console.out().print()
        console.out().print(steps_table(found.steps, zone, groups))
    _show_events(found)
    if left:
        console.out().print()
        console.out().print(outputs_table(left))


def _show_events(run: Run) -> None:
    if run.events:
        table = console.Rows("asset", "event", "timestamp", "partition", "extra")
        for event in run.events:
            table.add(
                event.asset,
                event.event_id,
                console.instant(event.timestamp),
                event.partition_key or "",
                json.dumps(event.extra) if event.extra else "",
            )
        console.out().print()
        console.out().print(table)
    for asset, count in run.expired_events.items():
        console.out().print(Text(f"{count} more of {asset}, which have expired"))


@app.command()
@on_deployment
def cancel(run: RunName, *, as_json: AsJson = False) -> None:
    """Cancel a run and its jobs; it ends when they have ended."""
    row = find_run(run)
    _report(cancel_run(row.dag_id, row.run_key), "its jobs are being cancelled", as_json=as_json)


@app.command()
@on_deployment
def retry(run: RunName, *, as_json: AsJson = False) -> None:
    """Retry the failed steps of a run, and the steps that did not run because of them."""
    row = find_run(run)
    _report(retry_run(row.dag_id, row.run_key), "its failed steps run again", as_json=as_json)


@app.command()
@on_deployment
def clear(
    run: RunName,
    *,
    task: Annotated[
        list[str] | None, typer.Option(help="Only this task and its downstream tasks; repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Restart a run, whatever its state; running jobs are cancelled first."""
    row = find_run(run)
    cleared = clear_run(row.dag_id, row.run_key, tasks=task or ())
    _report(cleared, "it starts again", as_json=as_json)


@app.command()
@on_deployment
def mark(
    run: RunName,
    *,
    is_success: Annotated[
        bool | None, typer.Option("--success/--failed", help="The state to set.")
    ] = None,
    why: Annotated[str, typer.Option(help="The reason; recorded with your user name.")] = "",
    task: Annotated[str, typer.Option(help="Mark only the step of this task.")] = "",
    as_json: AsJson = False,
) -> None:
    """Mark a run or a step as successful or failed.

    A running job is cancelled first. Whatever waits for the run or step continues. No asset events
    are sent for the outlets of marked steps.
    """
    if is_success is None:
        raise RefusedError("choose a state: --success or --failed")
    if not why:
        raise RefusedError("give a reason: --why TEXT")
    row, state = find_run(run), "success" if is_success else "failed"
    if task:
        marked = mark_step(row.dag_id, row.run_key, task, state, why=why, by=_user())
        what = f"task {task} was marked {state}"
    else:
        marked = mark_run(row.dag_id, row.run_key, state, why=why, by=_user())
        what = f"it was marked {state}"
    _report(marked, what, as_json=as_json)


def _user() -> str:
    """Return the name that a mark is recorded under."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # some containers run as a user without a name
        return "unknown"


@app.command()
@on_deployment
def trigger(
    dag_id: DagId,
    *,
    logical_date: Annotated[
        str,
        typer.Option(
            help="Its logical date, in the DAG's time zone if it has no offset; `none` for a run"
            " without one. Default: now."
        ),
    ] = "",
    data_interval: Annotated[
        str,
        typer.Option(
            metavar="START/END",
            help="Its data interval. Default: the timetable's interval for the date.",
        ),
    ] = "",
    conf: Conf = "",
    run_id: Annotated[str, typer.Option(help="A custom id; such a run has no date.")] = "",
    as_json: AsJson = False,
) -> None:
    """Create a run; it starts as soon as its DAG has a free slot."""
    zone = zone_of_dates(find_dag(dag_id))
    run = create_manual_run(
        dag_id,
        logical_date=_date(logical_date or ("none" if run_id else "now"), zone),
        data_interval=_interval(data_interval, zone) if data_interval else None,
        conf=read_conf(conf),
        run_id=run_id or None,
    )
    _report(run, f"see `lamplighter runs watch {dag_id}/{run.run_id}`", as_json=as_json)
    if not as_json and run.logical_date is not None:
        console.out().print(_dates_table(run_summary(run), zone))


def _dates_table(run: Run, zone: Zone) -> Table:
    interval = console.interval(run.data_interval_start, run.data_interval_end, zone)
    date = console.instant(run.logical_date, zone)
    return console.details({"logical date": date, "data interval": interval})


def _date(text: str, zone: Zone) -> DateTime | None:
    if text.lower() == "none":
        return None
    return clock.now() if text == "now" else instant_in(zone, read_time("--logical-date", text))


def _interval(text: str, zone: Zone) -> DataInterval:
    start, slash, end = text.partition("/")
    if not slash:
        raise RefusedError(
            f"--data-interval {text!r}: write it as START/END, such as"
            " 2026-01-31T06:00:00Z/2026-01-31T07:00:00Z"
        )
    ends = (instant_in(zone, read_time("--data-interval", each)) for each in (start, end))
    interval = DataInterval(*ends)
    if interval.end < interval.start:
        raise RefusedError(f"--data-interval {text!r} ends before it starts")
    return interval


def _report(row: "Runs", what: str, *, as_json: bool) -> None:
    """Write the state of a run after a command."""
    run = run_summary(row)
    if as_json:
        console.print_json(run_json(run))
        return
    detail = "" if run.state == "cancelled" else f": {what}"
    line = Text(f"run {run.run_id} of DAG {run.dag_id} is {run.state}{detail}")
    console.out().print(line, soft_wrap=True)
