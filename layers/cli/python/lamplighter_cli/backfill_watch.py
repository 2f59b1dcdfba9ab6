"""`lamplighter backfill watch`: a backfill as it goes on, with a bar and when it may be over."""

import json
from contextlib import ExitStack, suppress
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from lamplighter import clock
from lamplighter.store.backfills import COMPLETED, OPEN
from lamplighter.store.models import Backfills
from lamplighter.zones import iso
from lamplighter_cli import console
from lamplighter_cli.backfill_facts import backfill_json, done, progress_of
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.finding import find_backfill
from lamplighter_cli.options import AsJson

_WIDTH = 60


@on_deployment
def watch(
    name: Annotated[str, typer.Argument(metavar="BACKFILL|DAG", help="Its id, or its DAG's.")],
    *,
    every: Annotated[float, typer.Option(min=0.2, help="Look again after so many seconds.")] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Follow a backfill until it is over: exit 1 if it was cancelled or a run of it failed."""
    row = find_backfill(name)
    out = console.out()
    said = ""
    with suppress(KeyboardInterrupt), ExitStack() as until_the_end:
        live: Live | None = None
        if out.is_terminal and not as_json:
            live = until_the_end.enter_context(Live(console=out, auto_refresh=False))
        while True:
            if live is not None:
                live.update(_screen(row), refresh=True)
            else:
                said = _write(row, said, as_json=as_json)
            if row.state not in OPEN:
                break
            clock.sleep(every)
            row = find_backfill(row.backfill_id)
    if row.state not in OPEN and (row.state != COMPLETED or row.failed or row.cancelled):
        raise typer.Exit(1)


def _screen(row: Backfills) -> RenderableType:
    title = Text.assemble((row.backfill_id, "bold"), "  ", console.state(row.state))
    reason = [Text(row.reason)] if row.reason else []
    bar = ProgressBar(total=int(row.total), completed=done(row), width=_WIDTH)
    return Group(title, bar, Text(progress_of(row)), *reason)


def _write(row: Backfills, before: str, *, as_json: bool) -> str:
    """Write a line if it is not the one that was written last; return what it says."""
    said = json.dumps(backfill_json(row)) if as_json else f"{row.state}  {progress_of(row)}"
    if said != before:
        now = clock.now()
        line = json.dumps({"at": iso(now), **json.loads(said)}) if as_json else said
        typer.echo(line if as_json else f"{console.instant(now)}  {row.backfill_id}  {line}")
    return said
