"""`lamplighter next`: the next runs of a DAG, in UTC and in its own time zone."""

import datetime
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from lamplighter import clock
from lamplighter.assets.asset import decode_condition
from lamplighter.bundles.parsing import CheckedDag, find_upcoming_runs
from lamplighter.bundles.worker import UpcomingQuery
from lamplighter.loading import author_code_as_data
from lamplighter.serialization import zone_of_dag
from lamplighter.zones import UTC, Zone, instant_in, parse_instant
from lamplighter_cli import console
from lamplighter_cli.options import AsJson, DagId, DagsDir, read_time


def next_runs(
    dag_id: DagId,
    *,
    count: Annotated[int, typer.Option("-n", "--count", help="Number of runs.", min=1)] = 5,
    dags: DagsDir = Path(),
    at: Annotated[
        str,
        typer.Option(
            help="The date or time to start from, in the DAG's time zone if it has no offset."
            " Default: now."
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Show the next runs of a DAG, with gaps between intervals and clock changes. Runs offline."""
    moment = read_time("--at", at) if at else clock.now().replace(microsecond=0)
    query = UpcomingQuery(dag_id=dag_id, count=count, at=moment.isoformat())
    dag, runs = find_upcoming_runs(dags, query)
    if as_json:
        console.print_json(runs)
    elif not runs:
        console.out().print(Text(f"{dag_id}: {_why_none(dag)}"))
    else:
        _show(dag, runs, moment)


def _why_none(dag: CheckedDag) -> str:
    document = dag.document["timetable"]
    if "asset_condition" in document["data"]:
        with author_code_as_data():
            condition = decode_condition(document["data"]["asset_condition"])
        return f"runs when its assets are updated: {condition.describe()}"
    if document["type"] == "NullTimetable":
        return "has no schedule; trigger runs manually"
    return f"has no more runs (schedule {dag.schedule!r})"


def _show(dag: CheckedDag, runs: list[dict[str, Any]], moment: datetime.datetime) -> None:
    own_zone = zone_of_dag(dag.document)
    zones = [UTC] if own_zone == UTC else [UTC, own_zone]
    out = console.out()
    title = f"  {dag.schedule}  {dag.description}".rstrip()
    since = console.instant(instant_in(own_zone, moment), own_zone)
    out.print(Text.assemble((dag.dag_id, "bold"), title, f"  from {since}"), soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for column in ("run id", "zone", "logical date", "data interval", "run after", ""):
        table.add_column(column, no_wrap=bool(column), overflow="fold")
    before: dict[str, Any] | None = None
    for run in runs:
        marks = Text(", ".join(_marks(before, run, own_zone)), style="yellow")
        for zone in zones:
            row = [zone.name, _local(run["logical_date"], zone), _interval(run, zone)]
            row.append(_local(run["run_after"], zone))
            is_first = zone is zones[0]
            table.add_row(
                run["run_id"] if is_first else "",
                *row,
                marks if is_first else "",
                style="" if is_first else "dim",
            )
        before = run
    out.print(table)


def _interval(run: dict[str, Any], zone: Zone) -> str:
    """Return start and end with their weekdays, the end without what the start already says."""
    start, end = run["data_interval_start"], run["data_interval_end"]
    if start is None:
        return "-"
    first, last = (parse_instant(text).in_timezone(zone) for text in (start, end))
    clock_time = "%H:%M:%S" if first.second or last.second else "%H:%M"
    begin = console.wall_time(first, f"%a %Y-%m-%d {clock_time}")
    if start == end:
        return begin
    day = "%a %m-%d " if first.year == last.year else "%Y-%m-%d "
    day = "" if first.date() == last.date() else day
    return f"{begin} → {console.wall_time(last, day + clock_time)}"


def _local(text: str | None, zone: Zone) -> str:
    if text is None:
        return "-"
    return console.wall_time(parse_instant(text).in_timezone(zone), "%Y-%m-%d %H:%M:%S")


def _marks(before: dict[str, Any] | None, run: dict[str, Any], zone: Zone) -> list[str]:
    marks = []
    instants = [run["data_interval_start"] or run["run_after"], run["data_interval_end"]]
    if before is not None:
        previous_end = before["data_interval_end"]
        if before["data_interval_start"] != previous_end and instants[0] > previous_end:
            marks.append(f"gap of {_length(previous_end, instants[0])} before")
        instants.insert(0, before["run_after"])
    offsets = [parse_instant(t).in_timezone(zone).utcoffset() for t in instants if t is not None]
    for one, other in pairwise(offsets):
        if one is not None and other is not None and one != other:
            hours = abs(other - one) / datetime.timedelta(hours=1)
            marks.append(f"clocks go {'forward' if other > one else 'back'} {hours:g} h")
    return marks


def _length(start: str, end: str) -> str:
    return (parse_instant(end) - parse_instant(start)).in_words(locale="en")
