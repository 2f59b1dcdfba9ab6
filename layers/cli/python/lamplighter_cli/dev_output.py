"""Output of `lamplighter dev`: a line per activity, and a screen with DAGs and running steps."""

from typing import TYPE_CHECKING

from pendulum import DateTime
from rich.console import ConsoleDimensions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from lamplighter_cli import console
from lamplighter_cli.dags import progress_text
from lamplighter_operations.views import Dag, Step

if TYPE_CHECKING:
    from lamplighter_local.dev.activity import Activity
    from lamplighter_local.dev.session import SessionInfo, Snapshot

_STYLES = {
    "error": "bold red",
    "warning": "yellow",
    "event": "magenta",
    "registered": "green",
    "fixed": "green",
}
# Lines for the header, the titles and the numbers of omitted rows.
_FRAME_LINES = 7
_MAX_STEPS = 8
_MIN_DAGS = 3


def activity_line(activity: "Activity", *, is_short: bool) -> Text:
    """Return an activity as a line; a short line has no date."""
    at = f"{activity.at:%H:%M:%S}" if is_short else f"{activity.at:%Y-%m-%d %H:%M:%S} UTC"
    style = _STYLES.get(activity.state)
    state = Text(activity.state, style) if style else console.state(activity.state)
    shown = [Text(at, "dim"), Text(activity.about), state, Text(activity.detail)]
    return Text("  ").join(part for part in shown if part.plain)


def screen(snapshot: "Snapshot", info: "SessionInfo", size: ConsoleDimensions) -> RenderableType:
    """Return DAGs and running steps, in as many lines as the terminal has."""
    room = max(_MIN_DAGS, size.height - _FRAME_LINES - min(len(snapshot.running), _MAX_STEPS))
    return Group("", _header(snapshot, info), _dags(snapshot, info, room), *_steps(snapshot))


def _header(snapshot: "Snapshot", info: "SessionInfo") -> Text:
    ticked = f", last tick {snapshot.ticked_at:%H:%M}" if snapshot.ticked_at else ""
    now = console.instant(snapshot.now.replace(microsecond=0))
    return Text.assemble(
        (f"{info.bundle}", "bold"), f"  {now}{ticked}  {info.endpoint_url}", no_wrap=True
    )


def _dags(snapshot: "Snapshot", info: "SessionInfo", room: int) -> RenderableType:
    if not snapshot.dags:
        return Text(f"no DAGs yet: save a file in {info.root / 'dags'}")
    table = _table("DAG", "schedule", "state", "next run", "runs")
    for dag in snapshot.dags[:room]:
        counts = ((len(dag.active), "active"), (len(dag.waiting), "waiting"))
        table.add_row(
            Text(dag.dag_id, "bold"),
            Text(dag.schedule),
            console.state(dag.state),
            Text(_next_run(dag, snapshot)),
            Text(", ".join(f"{count} {word}" for count, word in counts if count)),
        )
    left = len(snapshot.dags) - room
    return Group(table, Text(f"and {left} more DAGs", "dim")) if left > 0 else table


def _next_run(dag: Dag, snapshot: "Snapshot") -> str:
    texts = [progress_text(snapshot.assets.get(dag.dag_id))]
    if dag.next_run_after is not None and dag.state == "active":
        until = _until(dag.next_run_after, snapshot)
        texts.insert(0, f"{dag.next_run_after:%m-%d %H:%M} UTC, {until}")
    return "; ".join(filter(None, texts))


def _until(at: DateTime, snapshot: "Snapshot") -> str:
    seconds = (at - snapshot.now).total_seconds()
    return "due" if seconds <= 0 else f"in {_span(seconds)}"


def _span(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _steps(snapshot: "Snapshot") -> list[RenderableType]:
    if not snapshot.running:
        return []
    table = _table("step", "state", "for", "run")
    for run, step in snapshot.running[:_MAX_STEPS]:
        table.add_row(
            Text(step.task_id + (f" (try {step.try_number})" if step.try_number > 1 else "")),
            console.state(step.state),
            Text(_elapsed(step, snapshot)),
            Text(run),
        )
    left = len(snapshot.running) - _MAX_STEPS
    return [table, *([Text(f"and {left} more steps", "dim")] if left > 0 else [])]


def _elapsed(step: Step, snapshot: "Snapshot") -> str:
    if step.started_at is None:
        return ""
    return _span(max(0.0, (snapshot.now - step.started_at).total_seconds()))


def _table(*columns: str) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        # One line each: the height of the screen is limited.
        made.add_column(column, no_wrap=True, overflow="ellipsis")
    return made
