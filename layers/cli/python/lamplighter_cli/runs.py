"""`lamplighter runs`: which there are, what one is made of, and what can be asked of it."""

import getpass
import json
from typing import Annotated

import typer
from pendulum import DateTime
from rich.text import Text

from lamplighter import clock
from lamplighter.errors import RefusedError
from lamplighter.events.lineage import RunEvents, triggering_asset_events
from lamplighter.operations.marks import mark_run, mark_step
from lamplighter.operations.runs import cancel_run, clear_run, retry_run
from lamplighter.operations.trigger import create_manual_run
from lamplighter.store.models import Runs
from lamplighter.store.runs import STATES, recent_runs, runs_of
from lamplighter.timetables.base import DataInterval
from lamplighter.zones import parse_instant
from lamplighter_cli import console
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.finding import find_dag, find_run, require_states, zone_of, zone_of_run
from lamplighter_cli.logs import logs
from lamplighter_cli.options import AsJson, Conf, read_conf
from lamplighter_cli.run_facts import (
    run_json,
    run_table,
    runs_table,
    step_json,
    steps_of,
    steps_table,
)
from lamplighter_cli.watch import watch

app = typer.Typer(help="Runs: list, watch, trigger, cancel, try again.", no_args_is_help=True)
app.command("watch")(watch)
app.command("logs")(logs)

Run = Annotated[str, typer.Argument(help="The run, as DAG/RUN.")]


@app.command("list")
@on_deployment
def list_runs(
    dag_id: Annotated[str, typer.Argument(metavar="DAG", help="Only runs of this DAG.")] = "",
    *,
    state: Annotated[
        list[str] | None, typer.Option(help=f"Only such: {', '.join(STATES)}; repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option("-n", min=1, help="How many at most.")] = 20,
    days: Annotated[
        int, typer.Option(min=1, help="Without a DAG: how far back to look for finished runs.")
    ] = 2,
    as_json: AsJson = False,
) -> None:
    """Show the newest runs: of a DAG by their dates, of all DAGs by their last change of state."""
    states = require_states(state or ())
    zone = zone_of(find_dag(dag_id)) if dag_id else None
    if dag_id:
        rows = runs_of(dag_id, limit=limit, states=states)
    else:
        rows = recent_runs(limit=limit, days=days, states=states or STATES)
    if as_json:
        console.print_json([run_json(row) for row in rows])
    elif rows:
        console.out().print(runs_table(rows, zone))
    else:
        where = f"of DAG {dag_id}" if dag_id else f"in the last {days} days (see --days)"
        console.out().print(Text(f"no such runs {where}" if states else f"no runs {where}"))


@app.command()
@on_deployment
def show(run: Run, *, as_json: AsJson = False) -> None:
    """Show a run, its steps, and the asset events that triggered it."""
    row = find_run(run)
    found = triggering_asset_events(row)
    steps = steps_of(row)
    if as_json:
        events = {"triggering_asset_events": dict(found.events), "expired": dict(found.expired)}
        described = {"conf": row.conf or {}, "steps": [step_json(step) for step in steps]}
        console.print_json({**run_json(row), **described, **events})
        return
    zone = zone_of_run(row)
    console.out().print(run_table(row, zone))
    if steps:
        console.out().print()
        console.out().print(steps_table(steps, zone))
    _show_events(found)


@app.command()
@on_deployment
def cancel(run: Run, *, as_json: AsJson = False) -> None:
    """End a run: its Spark jobs are cancelled, and it is over when they are."""
    row = find_run(run)
    _tell(cancel_run(row.dag_id, row.run_key), "its jobs are being cancelled", as_json=as_json)


@app.command()
@on_deployment
def retry(run: Run, *, as_json: AsJson = False) -> None:
    """Try the failed steps of a run again, and what never ran because of them."""
    row = find_run(run)
    _tell(retry_run(row.dag_id, row.run_key), "its failed steps run again", as_json=as_json)


@app.command()
@on_deployment
def clear(
    run: Run,
    *,
    task: Annotated[
        list[str] | None,
        typer.Option(help="Only this task and all that follow it; may be given several times."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let a run begin again, whatever became of it; jobs that still run are cancelled first."""
    row = find_run(run)
    cleared = clear_run(row.dag_id, row.run_key, tasks=task or ())
    _tell(cleared, "it begins again", as_json=as_json)


@app.command()
@on_deployment
def mark(
    run: Run,
    *,
    is_success: Annotated[
        bool | None, typer.Option("--success/--failed", help="What it is from now on.")
    ] = None,
    why: Annotated[str, typer.Option(help="The reason, which is recorded with your name.")] = "",
    task: Annotated[str, typer.Option(help="Only the step of this task.")] = "",
    as_json: AsJson = False,
) -> None:
    """Say that a run or a step is a success or failed, whatever became of it.

    A job that still runs is cancelled first. What waits for it goes on; nothing is told of outlets.
    """
    if is_success is None:
        raise RefusedError("say what it is: --success or --failed")
    if not why:
        raise RefusedError("say why it is marked: --why TEXT")
    row, state = find_run(run), "success" if is_success else "failed"
    if task:
        marked = mark_step(row.dag_id, row.run_key, task, state, why=why, by=_user())
        what = f"task {task} was marked {state}"
    else:
        marked = mark_run(row.dag_id, row.run_key, state, why=why, by=_user())
        what = f"it was marked {state}"
    _tell(marked, what, as_json=as_json)


def _user() -> str:
    """Return the name that a mark is recorded under."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a process whose user has no name, as in some containers
        return "unknown"


@app.command()
@on_deployment
def trigger(
    dag_id: Annotated[str, typer.Argument(metavar="DAG", help="The id of the DAG.")],
    *,
    logical_date: Annotated[
        str, typer.Option(help="Its date, or none for an undated run. Default: now.")
    ] = "",
    data_interval: Annotated[
        str,
        typer.Option(
            metavar="START/END", help="Its interval. Default: what the timetable makes of the date."
        ),
    ] = "",
    conf: Conf = "",
    run_id: Annotated[str, typer.Option(help="An id of your own; such a run has no date.")] = "",
    as_json: AsJson = False,
) -> None:
    """Create a run; it starts as soon as its DAG has a free slot."""
    date = _date(logical_date or ("none" if run_id else "now"))
    if find_dag(dag_id).is_custom and date is not None and not data_interval:
        raise RefusedError(
            f"DAG {dag_id!r} has a timetable of its own, which is not asked here: give"
            " --data-interval START/END, or --logical-date none"
        )
    run = create_manual_run(
        dag_id,
        logical_date=date,
        data_interval=_interval(data_interval) if data_interval else None,
        conf=read_conf(conf),
        run_id=run_id or None,
    )
    _tell(run, f"see `lamplighter runs watch {dag_id}/{run.run_id}`", as_json=as_json)


def _date(text: str) -> DateTime | None:
    if text.lower() == "none":
        return None
    return clock.now() if text == "now" else parse_instant(text)


def _interval(text: str) -> DataInterval:
    start, slash, end = text.partition("/")
    if not slash:
        raise RefusedError(
            f"--data-interval {text!r}: write it as START/END, such as"
            " 2026-01-31T06:00:00Z/2026-01-31T07:00:00Z"
        )
    interval = DataInterval(parse_instant(start), parse_instant(end))
    if interval.end < interval.start:
        raise RefusedError(f"--data-interval {text!r} ends before it begins")
    return interval


def _tell(row: Runs, what: str, *, as_json: bool) -> None:
    if as_json:
        console.print_json(run_json(row))
        return
    then = "" if row.state == "cancelled" else f": {what}"
    said = Text(f"run {row.run_id} of DAG {row.dag_id} is {row.state}{then}")
    console.out().print(said, soft_wrap=True)


def _show_events(found: RunEvents) -> None:
    if found.events:
        table = console.Rows("asset", "event", "timestamp", "partition", "extra")
        for asset, events in found.events.items():
            for event in events:
                at = console.instant(parse_instant(event["timestamp"]))
                extra = json.dumps(event["extra"]) if event["extra"] else ""
                cells = (asset, event["event_id"], at, event["partition_key"], extra)
                table.add(*(cell or "" for cell in cells))
        console.out().print()
        console.out().print(table)
    for asset, count in found.expired.items():
        console.out().print(Text(f"{count} more of {asset}, which are no longer kept"))
