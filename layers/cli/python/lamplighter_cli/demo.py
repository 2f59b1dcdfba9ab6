"""`lamplighter demo`: the example pipeline over simulated days, on a real Spark.

Owns: the output. `lamplighter_local.demo` runs the pipeline.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from lamplighter.errors import RefusedError
from lamplighter_cli import console
from lamplighter_cli.console import exit_on_ctrl_c
from lamplighter_cli.extras import needing

if TYPE_CHECKING:
    from lamplighter_local.demo import Done, OnChange, Seen

_STATES = ("queued", "running", "success", "failed")
_SHOWN_PRODUCTS = 8
_SHOWN_STEPS = 5
# Simulated time between two lines without a terminal.
_HOURS_PER_LINE = 4


def demo(
    *,
    days: Annotated[
        int, typer.Option(min=1, max=31, help="Simulated days, starting on a Sunday.")
    ] = 2,
    orders: Annotated[int, typer.Option(min=1, help="Number of orders in the data.")] = 10_000,
    folder: Annotated[
        Path | None,
        typer.Option(help="An empty directory for the output. Default: a new temporary one."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Also keep the context and log of each job.")
    ] = False,
) -> None:
    """Run the example pipeline over simulated days, with Spark on this machine."""
    with needing("local"):
        from lamplighter_local import demo as example  # noqa: PLC0415 - only where it is needed
    example.require_java()
    began = time.monotonic()
    out = console.out()
    with exit_on_ctrl_c(), _output(folder) as place:
        out.print(
            f"{orders} orders of a web shop, {days} {'day' if days == 1 else 'days'} of its"
            " pipeline: real functions on an emulated AWS, jobs on Spark",
            highlight=False,
        )
        with _shown(out) as on_change:
            done = example.run_demo(place, orders=orders, days=days, on_change=on_change)
        if not (keep or done.has_failures):
            shutil.rmtree(place / example.JOBS, ignore_errors=True)
    _summarize(
        out, done, time.monotonic() - began, example.best_sellers(done.lake, _SHOWN_PRODUCTS)
    )
    if done.has_failures:
        raise typer.Exit(1)


@contextmanager
def _output(folder: Path | None) -> Iterator[Path]:
    """Yield the directory for the output; a temporary one is removed if the demo fails."""
    try:
        if folder is None:
            place = Path(tempfile.mkdtemp(prefix="lamplighter-demo-"))
        else:
            place = folder.resolve()
            place.mkdir(parents=True, exist_ok=True)
            if any(place.iterdir()):
                raise RefusedError(f"--folder {folder} is not empty: choose a new one")
    except OSError as error:
        raise RefusedError(f"--folder {folder}: {error.strerror}") from error
    try:
        yield place
    except BaseException:  # also Ctrl-C
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)
        raise


# Progress.


@contextmanager
def _shown(out: Console) -> Iterator["OnChange"]:
    """Yield what shows each change: a live table on a terminal, else a line now and then."""
    if not out.is_terminal:
        yield _Lines(out)
        return
    screen = _Screen()
    with Live(screen, console=out, refresh_per_second=4, transient=True):
        yield screen.update


class _Screen:
    """The live table."""

    def __init__(self) -> None:
        self._seen: Seen | None = None
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        self._bar = self._progress.add_task("generating orders, starting", total=1.0)

    def update(self, seen: "Seen") -> None:
        """Show the current state."""
        self._seen = seen
        self._progress.update(self._bar, completed=seen.part, description=_simulated(seen))

    def __rich__(self) -> Group:
        seen = self._seen
        if seen is None:
            return Group(self._progress)
        rows = console.Rows("DAG", *_STATES)
        for dag_id, states in seen.runs.items():
            rows.add(
                Text(dag_id, "bold"), *(_number(states.get(name, 0), name) for name in _STATES)
            )
        return Group(
            rows,
            "",
            console.details(
                {
                    "step": seen.running or "none",
                    "steps done": str(seen.steps_over),
                    "asset events": _events(seen) or "none",
                }
            ),
            "",
            self._progress,
        )


class _Lines:
    """Writes a line every few simulated hours."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._hours = -1
        self._began = time.monotonic()

    def __call__(self, seen: "Seen") -> None:
        """Write a line if it is due."""
        hours = int(seen.now.timestamp()) // 3600
        if self._hours >= 0 and hours < self._hours + _HOURS_PER_LINE and seen.part < 1:
            return
        if hours == self._hours:
            return
        self._hours = hours
        runs = sum(sum(states.values()) for states in seen.runs.values())
        took = time.monotonic() - self._began
        left = f"about {took / seen.part - took:.0f} s left" if 0 < seen.part < 1 else ""
        facts = [_simulated(seen), f"{seen.part:4.0%}", f"{runs} runs", f"{seen.steps_over} steps"]
        self._out.print(Text("  ".join(filter(None, [*facts, _events(seen), left]))))


def _simulated(seen: "Seen") -> str:
    return seen.now.strftime("%a %Y-%m-%d %H:%M UTC")


def _events(seen: "Seen") -> str:
    return ", ".join(f"{asset} {count}" for asset, count in seen.events.items() if count)


def _number(count: int, name: str) -> Text:
    return Text(str(count), console.state(name).style) if count else Text("-", "dim")


# Summary.


def _summarize(
    out: Console, done: "Done", seconds: float, report: tuple[str, list[dict[str, str]]]
) -> None:
    runs = console.Rows("DAG", "runs", "succeeded", "steps", "seconds on Spark")
    for dag_id in sorted({run.dag_id for run in done.runs}):
        own = [run for run in done.runs if run.dag_id == dag_id]
        jobs = [step.job_run_id for run in own for step in run.steps if step.job_run_id]
        runs.add(
            Text(dag_id, "bold"),
            str(len(own)),
            str(sum(run.state == "success" for run in own)),
            str(sum(len(run.steps) for run in own)),
            f"{sum(done.seconds.get(job, 0.0) for job in jobs):.1f}",
        )
    out.print(runs)
    _print_report(out, *report)
    out.print(Text("\nslowest steps", "bold"))
    slow = console.Rows("seconds", "step", "run")
    for took, run, step in done.slowest(_SHOWN_STEPS):
        slow.add(f"{took:.1f}", f"{run.dag_id}.{step.task_id}", run.run_id)
    out.print(slow)
    out.print(Text(f"\ntables      {done.lake}"), soft_wrap=True)
    out.print(Text(f"run report  {done.report}"), soft_wrap=True)
    ended = (
        "some runs failed; see their errors in the run report"
        if done.has_failures
        else "all runs succeeded"
    )
    out.print(Text(f"{ended}, in {seconds:.0f} s"))


def _print_report(out: Console, week: str, rows: list[dict[str, str]]) -> None:
    if not rows:
        return
    out.print(Text(f"\nbest products of the week of {week}, in francs", "bold"))
    best = console.Rows("country", "rank", "product", "revenue", "week before", "change")
    for row in rows:
        change = row["change_percent"]
        numbers = (row["revenue"], row["revenue_before"] or "-", f"{change} %" if change else "-")
        best.add(row["country"], row["rank"], row["product_id"], *numbers)
    out.print(best)
