"""`lamplighter backfill`: runs over a range of the past, planned first, then created."""

import datetime
from typing import Annotated, Any

import typer
from pendulum import DateTime
from rich.text import Text

from lamplighter.backfill.expect import consumers, expect, total_seconds
from lamplighter.backfill.plan import DEFAULT_ACTIVE_RUNS, REPROCESS, Act, Plan, Request
from lamplighter.errors import RefusedError
from lamplighter.operations import backfills
from lamplighter.operations.backfills import create_backfill, plan_backfill
from lamplighter.registry.custom_timetables import custom_runs_between
from lamplighter.store.backfills import backfills_of
from lamplighter.store.models import Backfills, Dags
from lamplighter.store.versions import newest_document
from lamplighter.zones import Zone, as_utc, later_reading, parse_zone
from lamplighter_cli import console
from lamplighter_cli.backfill_facts import backfill_json, backfill_table, backfills_table
from lamplighter_cli.backfill_watch import watch
from lamplighter_cli.console import instant, instant_json
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.finding import find_backfill, find_dag, zone_of
from lamplighter_cli.options import AsJson, Conf, read_conf

app = typer.Typer(
    help="Backfills: plan runs over a range of the past, create them, follow them.",
    no_args_is_help=True,
)
app.command("watch")(watch)

# More than this many runs at once is more often a mistake than a wish.
MAX_UNASKED = 100
_UNCONFIRMED = 3
_DATE = len("2026-01-31")

Dag = Annotated[str, typer.Argument(metavar="DAG", help="The id of the DAG.")]
Id = Annotated[str, typer.Argument(metavar="BACKFILL|DAG", help="Its id, or its DAG's.")]
Start = Annotated[
    str, typer.Option(help="The first date, included; without an offset in the DAG's zone.")
]
End = Annotated[str, typer.Option(help="The date to end before, which is not included.")]
Inclusive = Annotated[
    bool, typer.Option("--inclusive", help="Include the end: of a date, the whole day.")
]
Reprocess = Annotated[
    str,
    typer.Option(help=f"Which finished runs to run again: {', '.join(REPROCESS)}."),
]
Backwards = Annotated[bool, typer.Option("--backwards", help="Begin with the newest date.")]
AtOnce = Annotated[
    int, typer.Option("--max-active-runs", min=1, help="So many of its runs at a time.")
]
MaxCost = Annotated[
    float, typer.Option(min=0, help="Pause before it has cost more dollars than this.")
]


@app.command()
@on_deployment
def plan(
    dag_id: Dag,
    *,
    start: Start,
    end: End,
    inclusive: Inclusive = False,
    reprocess: Reprocess = "none",
    backwards: Backwards = False,
    max_active_runs: AtOnce = DEFAULT_ACTIVE_RUNS,
    dates: Annotated[bool, typer.Option("--dates", help="Show every date.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what a backfill would do, cost and set off; nothing is changed."""
    row = find_dag(dag_id)
    request = Request(
        dag_id,
        *_range(row, start, end, is_inclusive=inclusive),
        reprocess=reprocess,
        run_backwards=backwards,
        max_active_runs=max_active_runs,
    )
    made = plan_backfill(request, ask_author=custom_runs_between)
    if as_json:
        console.print_json(_plan_json(row, made))
        return
    _show_plan(row, made)
    if dates and made.dates:
        zone = _zone(row)
        table = console.Rows("date", "run", "then")
        for each in made.dates:
            date = instant(each.info.logical_date or each.info.run_after, zone)
            table.add(date, each.run_key, each.act.value)
        console.out().print()
        console.out().print(table)


@app.command()
@on_deployment
def create(
    dag_id: Dag,
    *,
    start: Start,
    end: End,
    inclusive: Inclusive = False,
    reprocess: Reprocess = "none",
    backwards: Backwards = False,
    max_active_runs: AtOnce = DEFAULT_ACTIVE_RUNS,
    conf: Conf = "",
    max_cost: MaxCost = 0.0,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask, however many runs it has.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create a backfill. Exit 3 if it has more than 100 runs and nobody confirmed them."""
    row = find_dag(dag_id)
    request = Request(
        dag_id,
        *_range(row, start, end, is_inclusive=inclusive),
        reprocess=reprocess,
        run_backwards=backwards,
        max_active_runs=max_active_runs,
        conf=read_conf(conf),
        max_cost=max_cost or None,
    )
    made = plan_backfill(request, ask_author=custom_runs_between)
    if not as_json and made.todo:
        _show_plan(row, made)
    if len(made.todo) > MAX_UNASKED and not yes:
        _confirm(len(made.todo))
    created = create_backfill(request, ask_author=custom_runs_between)
    if as_json:
        console.print_json(backfill_json(created))
        return
    console.out().print()
    said = f"created {created.backfill_id}: follow it with `lamplighter backfill watch {dag_id}`"
    console.out().print(Text(said), soft_wrap=True)


def _confirm(total: int) -> None:
    question = f"{total:,} runs would be created, as its slots allow. Create the backfill?"
    if console.is_interactive() and typer.confirm(question, err=True):
        return
    console.error(f"{total:,} runs would be created: pass --yes, or take a shorter range")
    raise typer.Exit(_UNCONFIRMED)


@app.command("list")
@on_deployment
def list_backfills(
    dag_id: Annotated[str, typer.Argument(metavar="DAG", help="Only those of this DAG.")] = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Show backfills, newest first."""
    dags = [find_dag(dag_id)] if dag_id else list(Dags.scan(Dags.backfill.exists()))
    rows = backfills_of(dags)
    if as_json:
        console.print_json([backfill_json(row) for row in rows])
    elif rows:
        console.out().print(backfills_table(rows))
    else:
        of = f" of DAG {dag_id}" if dag_id else ""
        console.out().print(Text(f"no backfills{of} yet"))


@app.command()
@on_deployment
def show(name: Id, *, as_json: AsJson = False) -> None:
    """Show a backfill: what was asked for, how far it is, what it cost, when it may be over."""
    row = find_backfill(name)
    if as_json:
        console.print_json(backfill_json(row))
    else:
        dag = find_dag(row.dag_id)
        console.out().print(backfill_table(row, _zone(dag)))


@app.command()
@on_deployment
def pause(name: Id, *, as_json: AsJson = False) -> None:
    """Let no more of its runs begin; those that have begun go on."""
    _tell(backfills.pause_backfill(find_backfill(name).backfill_id), as_json=as_json)


@app.command()
@on_deployment
def resume(
    name: Id,
    *,
    max_active_runs: Annotated[
        int, typer.Option(min=0, help="From now on, so many of its runs at a time.")
    ] = 0,
    max_cost: MaxCost = 0.0,
    as_json: AsJson = False,
) -> None:
    """Let it go on where it stands, with other limits if you like."""
    row = backfills.resume_backfill(
        find_backfill(name).backfill_id,
        max_active_runs=max_active_runs or None,
        max_cost=max_cost or None,
    )
    _tell(row, as_json=as_json)


@app.command()
@on_deployment
def cancel(
    name: Id,
    *,
    jobs: Annotated[
        bool, typer.Option("--jobs", help="Cancel the jobs of its running runs too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Let it create no more runs; those that have begun go on, unless their jobs are cancelled."""
    row = backfills.cancel_backfill(find_backfill(name).backfill_id, cancels_running_runs=jobs)
    _tell(row, as_json=as_json)


def _tell(row: Backfills, *, as_json: bool) -> None:
    if as_json:
        console.print_json(backfill_json(row))
        return
    count = len(row.active or ())
    runs = "run of it is" if count == 1 else "runs of it are"
    going_on = f"; {count} {runs} under way" if count else ""
    said = f"backfill {row.backfill_id} of DAG {row.dag_id} is {row.state}{going_on}"
    console.out().print(Text(said), soft_wrap=True)


# Ranges.


def _zone(row: Dags) -> Zone:
    return zone_of(row) or parse_zone(newest_document(row).get("timezone", "UTC"))


def _range(row: Dags, start: str, end: str, *, is_inclusive: bool) -> tuple[DateTime, DateTime]:
    """Return where a range begins and where it ends, which is the first instant after it."""
    zone = _zone(row)
    first, last = _instant("--start", start, zone), _instant("--end", end, zone)
    if is_inclusive and len(end) == _DATE:
        day = datetime.date.fromisoformat(end) + datetime.timedelta(days=1)
        last = _instant("--end", day.isoformat(), zone)
    elif is_inclusive:
        last = last.add(microseconds=1)
    return first, last


def _instant(option: str, text: str, zone: Zone) -> DateTime:
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise RefusedError(
            f"{option} {text!r} is not a date: write it like 2026-01-31 or 2026-01-31T06:00:00Z"
        ) from error
    return later_reading(found, zone) if found.tzinfo is None else as_utc(found)


# The plan.


def _show_plan(row: Dags, made: Plan) -> None:
    request, counts, todo = made.request, made.counts(), made.todo
    zone = _zone(row)
    dated = [each.info.logical_date or each.info.run_after for each in todo]
    expected, woken = _expected(row, made)
    console.out().print(
        console.facts(
            {
                "DAG": Text(row.dag_id, "bold"),
                "from": f"{instant(request.start, zone)}, included",
                "to": f"{instant(request.end, zone)}, not included",
                "runs": _runs(counts, len(todo)),
                "left alone": _left_alone(counts),
                "first": instant(dated[0], zone) if dated else None,
                "last": instant(dated[-1], zone) if len(dated) > 1 else None,
                "at a time": request.max_active_runs if todo else None,
                "expected": expected if todo else None,
                "wakes": woken if todo else None,
                "paused": "yes: it begins when the DAG is un-paused" if row.is_paused else None,
            }
        )
    )


def _runs(counts: dict[Act, int], todo: int) -> str:
    if not todo:
        return "none"
    again = counts.get(Act.REDO, 0)
    return f"{todo:,}" + (f", of which {again:,} exist and run again" if again else "")


def _left_alone(counts: dict[Act, int]) -> str:
    kinds = ((Act.EXISTS, "have a run"), (Act.IN_FLIGHT, "have one under way"))
    return ", ".join(f"{counts[act]:,} {words}" for act, words in kinds if counts.get(act))


def _expected(row: Dags, made: Plan) -> tuple[str, str]:
    """Return what the runs may cost and take, and which DAGs they wake, in words."""
    known, todo = expect(row.dag_id), len(made.todo)
    seconds = total_seconds(todo, made.request.max_active_runs, known.seconds)
    cost = None if known.cost is None else f"${known.cost * todo:,.2f}"
    parts = " and ".join(filter(None, (cost, console.duration(seconds))))
    said = f"about {parts}, as its last {known.runs} runs went" if parts else "no runs to judge by"
    woken = [
        f"{dag_id} (through {', '.join(names)}), up to {todo:,} runs"
        for dag_id, names in consumers(newest_document(row)).items()
    ]
    return said, "; ".join(woken)


def _plan_json(row: Dags, made: Plan) -> dict[str, Any]:
    known, request, todo = expect(row.dag_id), made.request, len(made.todo)
    return {
        "dag_id": row.dag_id,
        "start": instant_json(request.start),
        "end": instant_json(request.end),
        "reprocess": request.reprocess,
        "backwards": request.run_backwards,
        "max_active_runs": request.max_active_runs,
        "runs": todo,
        "expected_cost": None if known.cost is None else known.cost * todo,
        "expected_seconds": total_seconds(todo, request.max_active_runs, known.seconds),
        "judged_by_runs": known.runs,
        "consumers": consumers(newest_document(row)),
        "dates": [
            {
                "run_key": each.run_key,
                "logical_date": instant_json(each.info.logical_date),
                "run_after": instant_json(each.info.run_after),
                "then": each.act.value,
            }
            for each in made.dates
        ],
    }
