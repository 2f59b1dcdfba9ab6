"""`lamplighter backfill`: plan, create and control runs over a range of the past."""

import datetime
import json
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pendulum import DateTime
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from lamplighter import clock
from lamplighter.backfill.plan import DEFAULT_ACTIVE_RUNS, REPROCESS, Request
from lamplighter.store.backfills import COMPLETED, backfills_of
from lamplighter.store.dags import all_dags
from lamplighter.zones import instant_in, iso
from lamplighter_cli import console
from lamplighter_cli.backfill_output import (
    backfill_json,
    backfill_table,
    backfills_table,
    dates_table,
    plan_json,
    plan_table,
    progress_text,
)
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.lookup import find_backfill, find_dag, zone_of_dates
from lamplighter_cli.options import AsJson, Conf, DagId, Every, read_conf, read_time
from lamplighter_operations import backfills as operations
from lamplighter_operations.backfills import create_backfill, plan_backfill
from lamplighter_operations.views import Backfill, view_backfill

if TYPE_CHECKING:
    from lamplighter.store.models import Backfills, Dags

app = typer.Typer(
    help="Plan, create and watch backfills: runs over a range of the past.", no_args_is_help=True
)

# More runs than this at once are more often a mistake than intended.
MAX_UNCONFIRMED_RUNS = 100
_UNCONFIRMED = 3
_DATE_LENGTH = len("2026-01-31")
_BAR_WIDTH = 60

Id = Annotated[
    str,
    typer.Argument(metavar="BACKFILL|DAG", help="The id of the backfill, or of its DAG."),
]
Start = Annotated[
    str, typer.Option(help="First date, included; in the DAG's time zone if it has no offset.")
]
End = Annotated[str, typer.Option(help="End date, not included.")]
Inclusive = Annotated[
    bool, typer.Option("--inclusive", help="Include the end; if it is a date, the whole day.")
]
Reprocess = Annotated[
    str, typer.Option(help=f"Which finished runs to run again: {', '.join(REPROCESS)}.")
]
Backwards = Annotated[bool, typer.Option("--backwards", help="Start with the newest date.")]
MaxActiveRuns = Annotated[
    int, typer.Option("--max-active-runs", min=1, help="Maximum number of its runs at a time.")
]
MaxCost = Annotated[
    float, typer.Option(min=0, help="Pause before it costs more dollars than this.")
]


@app.command()
@on_deployment
def plan(
    dag_id: DagId,
    *,
    start: Start,
    end: End,
    inclusive: Inclusive = False,
    reprocess: Reprocess = "none",
    backwards: Backwards = False,
    max_active_runs: MaxActiveRuns = DEFAULT_ACTIVE_RUNS,
    dates: Annotated[bool, typer.Option("--dates", help="List every date.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the runs, cost and triggered DAGs of a backfill without creating it."""
    dag = find_dag(dag_id)
    request = Request(
        dag_id,
        *_range(dag, start, end, is_inclusive=inclusive),
        reprocess=reprocess,
        run_backwards=backwards,
        max_active_runs=max_active_runs,
    )
    made = plan_backfill(request)
    if as_json:
        console.print_json(plan_json(dag, made))
        return
    console.out().print(plan_table(dag, made, zone_of_dates(dag)))
    if dates and made.dates:
        console.out().print()
        console.out().print(dates_table(made, zone_of_dates(dag)))


@app.command()
@on_deployment
def create(
    dag_id: DagId,
    *,
    start: Start,
    end: End,
    inclusive: Inclusive = False,
    reprocess: Reprocess = "none",
    backwards: Backwards = False,
    max_active_runs: MaxActiveRuns = DEFAULT_ACTIVE_RUNS,
    conf: Conf = "",
    max_cost: MaxCost = 0.0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create a backfill. Exit code 3 if it has more than 100 runs and was not confirmed."""
    dag = find_dag(dag_id)
    request = Request(
        dag_id,
        *_range(dag, start, end, is_inclusive=inclusive),
        reprocess=reprocess,
        run_backwards=backwards,
        max_active_runs=max_active_runs,
        conf=read_conf(conf),
        max_cost=max_cost or None,
    )
    made = plan_backfill(request)
    if not as_json and made.todo:
        console.out().print(plan_table(dag, made, zone_of_dates(dag)))
    if len(made.todo) > MAX_UNCONFIRMED_RUNS and not yes:
        _confirm(len(made.todo))
    created = view_backfill(create_backfill(request))
    if as_json:
        console.print_json(backfill_json(created))
        return
    console.out().print()
    line = f"created {created.backfill_id}: follow it with `lamplighter backfill watch {dag_id}`"
    console.out().print(Text(line), soft_wrap=True)


def _confirm(total: int) -> None:
    question = f"{total:,} runs will be created as slots become free. Create the backfill?"
    if console.is_interactive() and typer.confirm(question, err=True):
        return
    console.error(f"{total:,} runs would be created: pass --yes, or choose a shorter range")
    raise typer.Exit(_UNCONFIRMED)


@app.command("list")
@on_deployment
def list_backfills(
    dag_id: Annotated[str, typer.Argument(metavar="DAG", help="Only backfills of this DAG.")] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """List backfills, newest first."""
    dags = [find_dag(dag_id)] if dag_id else all_dags(with_backfills=True, consistent=False)
    found = [view_backfill(row) for row in backfills_of(dags)]
    if as_json:
        console.print_json([backfill_json(each) for each in found])
    elif found:
        console.out().print(backfills_table(found))
    else:
        of = f" of DAG {dag_id}" if dag_id else ""
        console.out().print(Text(f"no backfills{of} yet"))


@app.command()
@on_deployment
def show(name: Id, *, as_json: AsJson = False) -> None:
    """Show the range, progress, cost and remaining time of a backfill."""
    found = view_backfill(find_backfill(name))
    if as_json:
        console.print_json(backfill_json(found))
    else:
        console.out().print(backfill_table(found, zone_of_dates(find_dag(found.dag_id))))


@app.command()
@on_deployment
def pause(name: Id, *, as_json: AsJson = False) -> None:
    """Pause a backfill; its active runs continue."""
    _report(operations.pause_backfill(find_backfill(name).backfill_id), as_json=as_json)


@app.command()
@on_deployment
def resume(
    name: Id,
    *,
    max_active_runs: Annotated[
        int, typer.Option(min=0, help="New maximum number of its runs at a time.")
    ] = 0,
    max_cost: MaxCost = 0.0,
    as_json: AsJson = False,
) -> None:
    """Resume a paused backfill, optionally with new limits."""
    row = operations.resume_backfill(
        find_backfill(name).backfill_id,
        max_active_runs=max_active_runs or None,
        max_cost=max_cost or None,
    )
    _report(row, as_json=as_json)


@app.command()
@on_deployment
def cancel(
    name: Id,
    *,
    jobs: Annotated[
        bool, typer.Option("--jobs", help="Also cancel its active runs and their jobs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Cancel a backfill; its active runs continue, unless --jobs is given."""
    row = operations.cancel_backfill(find_backfill(name).backfill_id, cancels_running_runs=jobs)
    _report(row, as_json=as_json)


def _report(row: "Backfills", *, as_json: bool) -> None:
    """Write the state of a backfill after a command."""
    found = view_backfill(row)
    if as_json:
        console.print_json(backfill_json(found))
        return
    count = len(found.active)
    active = f"; {count} active run{'' if count == 1 else 's'}" if count else ""
    line = f"backfill {found.backfill_id} of DAG {found.dag_id} is {found.state}{active}"
    console.out().print(Text(line), soft_wrap=True)


# Watching.


@app.command()
@on_deployment
def watch(name: Id, *, every: Every = 2.0, as_json: AsJson = False) -> None:
    """Watch a backfill until it ends. Exit code 1 if it was cancelled or one of its runs failed."""
    found = view_backfill(find_backfill(name))
    out = console.out()
    written = ""
    with suppress(KeyboardInterrupt), ExitStack() as until_the_end:
        live: Live | None = None
        if out.is_terminal and not as_json:
            live = until_the_end.enter_context(Live(console=out, auto_refresh=False))
        while True:
            if live is not None:
                live.update(_screen(found), refresh=True)
            else:
                written = _write_change(found, written, as_json=as_json)
            if not found.is_open:
                break
            clock.sleep(every)
            found = view_backfill(find_backfill(found.backfill_id))
    if not found.is_open and (found.state != COMPLETED or found.failed or found.cancelled):
        raise typer.Exit(1)


def _screen(backfill: Backfill) -> RenderableType:
    title = Text.assemble((backfill.backfill_id, "bold"), "  ", console.state(backfill.state))
    why = [Text(backfill.reason)] if backfill.reason else []
    bar = ProgressBar(total=backfill.total, completed=backfill.done, width=_BAR_WIDTH)
    return Group(title, bar, Text(progress_text(backfill)), *why)


def _write_change(backfill: Backfill, before: str, *, as_json: bool) -> str:
    """Write a line if it differs from the last one; return it without its time."""
    described: dict[str, Any] = backfill_json(backfill)
    now = clock.now()
    text = json.dumps(described) if as_json else f"{backfill.state}  {progress_text(backfill)}"
    if text == before:
        return text
    if as_json:
        console.print_json_line({"at": iso(now), **described})
    else:
        console.print_line(f"{console.instant(now)}  {backfill.backfill_id}  {text}")
    return text


# Ranges.


def _range(row: "Dags", start: str, end: str, *, is_inclusive: bool) -> tuple[DateTime, DateTime]:
    """Return the start of a range, and the first instant after it."""
    zone = zone_of_dates(row)
    first, last = read_time("--start", start), read_time("--end", end)
    if is_inclusive:
        is_date = len(end) == _DATE_LENGTH
        last += datetime.timedelta(days=1) if is_date else datetime.timedelta(microseconds=1)
    return instant_in(zone, first), instant_in(zone, last)
