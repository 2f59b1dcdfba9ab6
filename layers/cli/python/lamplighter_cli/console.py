"""Output: results go to stdout, everything else to stderr.

Owns: that nothing of what others wrote can act on the terminal. All output goes through this
module, which shows control characters as escapes and reads no markup. Rich omits colours when
NO_COLOR is set or the stream is not a terminal.
"""

import json
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import typer
from pendulum import DateTime
from pendulum.tz import local_timezone
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from lamplighter.safe_text import visible, visible_json
from lamplighter.zones import UTC, Zone, iso

# Without a terminal Rich assumes 80 columns and would wrap rows.
_FILE_WIDTH = 4_000
# The exit code that shells expect after Ctrl-C.
_INTERRUPTED = 130
# Between columns only.
_GAP = (0, 2, 0, 0)
_STYLES = {
    "success": "green",
    "completed": "green",
    "running": "cyan",
    "failed": "bold red",
    "upstream_failed": "red",
    "cancelled": "yellow",
    "up_for_retry": "yellow",
    "paused": "yellow",
    "stale": "yellow",
    "broken": "bold red",
}


class _SafeConsole(Console):
    """Shows control characters in texts as escapes; its own are in segments of their own."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render as Rich does; whatever is printed, also part by part, comes through here."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


def out() -> Console:
    """Return the console for results."""
    console = _SafeConsole()
    return console if console.is_terminal else _SafeConsole(width=_FILE_WIDTH)


def err() -> Console:
    """Return the console for everything that is not a result."""
    return _SafeConsole(stderr=True, soft_wrap=True)


def is_interactive() -> bool:
    """Return whether the user can be prompted."""
    return sys.stdin.isatty() and err().is_terminal


def error(message: str) -> None:
    """Write an error message as one line."""
    err().print(Text.assemble(("error: ", "bold red"), message))


def print_json(value: Any) -> None:
    """Write a result as JSON."""
    typer.echo(visible_json(json.dumps(value, indent=2, ensure_ascii=False)))


def print_json_line(value: Any) -> None:
    """Write a value as one line of JSON."""
    typer.echo(visible_json(json.dumps(value)))


def print_line(text: str) -> None:
    """Write one line as it is, however long; what would begin another is shown as an escape."""
    typer.echo(visible(text).replace("\n", "\\n"))


def safe(cell: str | Text) -> Text:
    """Return a text whose width can be measured: with escapes for control characters."""
    made = Text(cell) if isinstance(cell, str) else cell
    return made if made.plain.isprintable() else Text(visible(made.plain), made.style)


class Rows:
    """A table; where it is too wide for the terminal, a block of lines for each row."""

    def __init__(self, *columns: str) -> None:
        self._columns = columns
        self._rows: list[list[Text]] = []

    def add(self, *cells: str | Text) -> None:
        """Add a row; its first cell is the title of its block."""
        self._rows.append([safe(cell) for cell in cells])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._width() <= options.max_width:
            table = Table(*self._columns, box=None, pad_edge=False, padding=_GAP)
            for row in self._rows:
                table.add_row(*row)
            yield table
            return
        for name, *values in self._rows:
            yield name
            yield Padding(details(dict(zip(self._columns[1:], values, strict=True))), (0, 0, 0, 2))

    def _width(self) -> int:
        lines = [[Text(column) for column in self._columns], *self._rows]
        widths = [max(int(cell.cell_len) for cell in cells) for cells in zip(*lines, strict=True)]
        return sum(widths) + _GAP[1] * (len(widths) - 1)


def details(values: Mapping[str, Any]) -> Table:
    """Return a table of names and values, without the empty ones."""
    made = Table(show_header=False, box=None, pad_edge=False, padding=_GAP)
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in values.items():
        if value is not None and str(value):
            made.add_row(Text(name, "bold"), safe(value if isinstance(value, Text) else str(value)))
    return made


def state(name: str) -> Text:
    """Return the state of a run, step or DAG in its colour."""
    return Text(name, _STYLES.get(name, ""))


def instant(at: DateTime | None, zone: Zone | None = None) -> str:
    """Return an instant as text: in UTC, and in a time zone (default: the machine's)."""
    if at is None:
        return ""
    there = at.in_timezone(zone or _own_zone())
    clock_time = "%H:%M:%S" if at.second else "%H:%M"
    first = at.in_timezone(UTC).strftime(f"%Y-%m-%d {clock_time} UTC")
    if there.timezone_name in {"UTC", "Etc/UTC"}:
        return first
    day = "" if there.date() == at.date() else "%Y-%m-%d "
    return f"{first} ({wall_time(there, day + clock_time)} {there.timezone_name})"


def interval(start: DateTime | None, end: DateTime | None, zone: Zone | None = None) -> str:
    """Return a data interval as text; of one without, nothing."""
    return " to ".join(instant(at, zone) for at in (start, end) if at is not None)


def wall_time(there: DateTime, form: str) -> str:
    """Return a local time as text; in an hour that clocks show twice, with its UTC offset."""
    text = there.strftime(form)
    readings = {there.replace(fold=fold).utcoffset() for fold in (0, 1)}
    return text + there.format("Z") if len(readings) > 1 else text


def _own_zone() -> Zone:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # UTC where the machine has none configured
        return local_timezone()


def duration(seconds: float | None) -> str:
    """Return a duration in its two largest units."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    said = [f"{count} {unit}" for count, unit in parts if count][:2]
    return " ".join(said) or "0 s"


def cost(dollars: float | None, unbilled_jobs: int) -> str:
    """Return a cost as text, with what is not known about it yet."""
    if not unbilled_jobs:
        return "" if dollars is None else f"${dollars:,.4f}"
    known = "unknown" if dollars is None else f"${dollars:,.4f}+"
    return f"{known} ({unbilled_jobs:,} {'job' if unbilled_jobs == 1 else 'jobs'} not billed yet)"


def instant_json(at: DateTime | None) -> str | None:
    """Return an instant as it is written in JSON."""
    return None if at is None else iso(at)


def view_json(view: Any, *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the fields of a view (`lamplighter_operations.views`) as they are written in JSON."""
    values = {each.name: getattr(view, each.name) for each in fields(view)}
    return {
        name: iso(value) if isinstance(value, DateTime) else value
        for name, value in values.items()
        if name not in without
    }


def progress(*columns: ProgressColumn) -> Progress:
    """Return a progress bar that is shown only on a terminal."""
    console = err()
    default = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    return Progress(
        *(columns or default), console=console, transient=True, disable=not console.is_terminal
    )


def shorten(text: str, length: int) -> str:
    """Return a text that is short enough for a cell."""
    return text if len(text) <= length else f"{text[:length]}…"


@contextmanager
def exit_on_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end the command with one line; what the block opened has been closed by then."""
    try:
        yield
    except KeyboardInterrupt:
        err().print("stopped: all processes of this command have ended")
        raise typer.Exit(_INTERRUPTED) from None
