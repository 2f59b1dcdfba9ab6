"""What `lamplighter dev` shows: a line for what has happened, and a screen of how things stand."""

from typing import TYPE_CHECKING

from pendulum import DateTime
from rich.console import ConsoleDimensions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from lamplighter.store.models import Dags
from lamplighter_cli import console
from lamplighter_cli.dags import state_of

if TYPE_CHECKING:
    from lamplighter_local.dev.news import LiveStep, News
    from lamplighter_local.dev.session import Place, View

_STYLES = {
    "error": "bold red",
    "warning": "yellow",
    "event": "magenta",
    "registered": "green",
    "mended": "green",
}
# Header, titles, and the lines that say how much is left out.
_FRAME = 7
_MAX_STEPS = 8
_LEAST_DAGS = 3


def line_of(news: "News", *, is_short: bool) -> Text:
    """Return a line about what has happened; a short one leaves out the day."""
    at = f"{news.at:%H:%M:%S}" if is_short else f"{news.at:%Y-%m-%d %H:%M:%S} UTC"
    style = _STYLES.get(news.state)
    state = Text(news.state, style) if style else console.state(news.state)
    shown = [Text(at, "dim"), Text(news.about), state, Text(news.detail)]
    return Text("  ").join(part for part in shown if part.plain)


def screen_of(view: "View", place: "Place", size: ConsoleDimensions) -> RenderableType:
    """Return how things stand, in as many lines as the terminal has."""
    room = max(_LEAST_DAGS, size.height - _FRAME - min(len(view.live), _MAX_STEPS))
    return Group("", _header(view, place), _dags(view, place, room), *_steps(view))


def _header(view: "View", place: "Place") -> Text:
    ticked = f", last tick {view.ticked_at:%H:%M}" if view.ticked_at else ""
    now = console.instant(view.now.replace(microsecond=0))
    return Text.assemble(
        (f"{place.bundle}", "bold"), f"  {now}{ticked}  {place.endpoint_url}", no_wrap=True
    )


def _dags(view: "View", place: "Place", room: int) -> RenderableType:
    if not view.dags:
        return Text(f"no DAGs yet: save a file in {place.root / 'dags'}")
    table = _table("DAG", "schedule", "state", "next run", "runs")
    for row in view.dags[:room]:
        counts = ((len(row.active or ()), "active"), (len(row.waiting or ()), "waiting"))
        table.add_row(
            Text(row.dag_id, "bold"),
            Text(row.schedule),
            console.state(state_of(row)),
            Text(_next(row, view)),
            Text(", ".join(f"{count} {word}" for count, word in counts if count)),
        )
    left = len(view.dags) - room
    return Group(table, Text(f"and {left} more DAGs", "dim")) if left > 0 else table


def _next(row: Dags, view: "View") -> str:
    texts = []
    if row.next_run_after is not None and state_of(row) == "active":
        texts.append(f"{row.next_run_after:%m-%d %H:%M} UTC, {_until(row.next_run_after, view)}")
    if row.dag_id in view.updated:
        done, wanted = view.updated[row.dag_id]
        texts.append(f"{done} of {wanted} {'asset' if wanted == 1 else 'assets'} updated")
    return "; ".join(texts)


def _until(at: DateTime, view: "View") -> str:
    seconds = (at - view.now).total_seconds()
    return "due" if seconds <= 0 else f"in {_span(seconds)}"


def _span(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _steps(view: "View") -> list[RenderableType]:
    if not view.live:
        return []
    table = _table("step", "state", "for", "run")
    for step in view.live[:_MAX_STEPS]:
        table.add_row(
            Text(step.task_id + (f" (try {step.try_number})" if step.try_number > 1 else "")),
            console.state(step.state),
            Text(_lasted(step, view)),
            Text(step.run),
        )
    left = len(view.live) - _MAX_STEPS
    return [table, *([Text(f"and {left} more steps", "dim")] if left > 0 else [])]


def _lasted(step: "LiveStep", view: "View") -> str:
    if step.started_at is None:
        return ""
    return _span(max(0.0, (view.now - step.started_at).total_seconds()))


def _table(*columns: str) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        # One line each, whatever the width: the screen has only so many.
        made.add_column(column, no_wrap=True, overflow="ellipsis")
    return made
