"""`lamplighter simulate`: the coming days of a bundle, by the real scheduler, without AWS or Spark.

Owns: its options, and refusing them before the days pass and not after. What came of the days is
told by `simulate_report`.
"""

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pendulum import DateTime
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from lamplighter import clock
from lamplighter.bundles.layout import require_bundle
from lamplighter.bundles.parsing import BundleReport, CheckedDag, check_bundle
from lamplighter.errors import RefusedError
from lamplighter.zones import parse_instant
from lamplighter_cli import console
from lamplighter_cli.check import show_problems
from lamplighter_cli.options import AsJson, Variables, needing_local, read_variables

if TYPE_CHECKING:
    from lamplighter_local.simulation.simulation import Simulation, Task

_MAX_DAYS = 366
_PICTURES = (".png", ".svg")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def simulate(
    path: Annotated[
        Path, typer.Argument(metavar="DIR", help="The bundle: a folder with dags/.")
    ] = Path(),
    *,
    days: Annotated[int, typer.Option(help="How many days pass.", min=1, max=_MAX_DAYS)] = 30,
    at: Annotated[
        str, typer.Option(help="When they begin, such as 2026-03-27T00:00:00Z. Default: now.")
    ] = "",
    catchup: Annotated[
        bool, typer.Option("--catchup", help="Also make up for what is owed at the beginning.")
    ] = False,
    takes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DAG.TASK=90m", help="How long a task lasts; others take a second. Repeatable."
        ),
    ] = None,
    var: Variables = None,
    as_json: AsJson = False,
    csv: Annotated[Path | None, typer.Option(help="Write one row for each run here.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw runs and concurrency here: a .png or .svg file.")
    ] = None,
) -> None:
    """Show the runs of the coming days: how many, when, how many at once. AWS is not asked."""
    start = parse_instant(at) if at else clock.now().replace(microsecond=0)
    for file in filter(None, (csv, plot)):
        _require_writable(file)
    if plot is not None:
        _require_pictures(plot)
    variables = read_variables(var)
    root = require_bundle(path)
    report = _check(root)
    lasting = durations(takes or (), report.dags)
    with needing_local():
        from lamplighter_cli import simulate_report  # noqa: PLC0415 - only where it is needed
        from lamplighter_local.simulation.simulation import simulate as run_simulation  # noqa: PLC0415 - as above
    with _progress(start, days) as on_progress:
        simulation = run_simulation(
            root,
            report.dags,
            at=start,
            days=days,
            catch_up=catchup,
            takes=lasting,
            variables=variables,
            on_progress=on_progress,
        )
    if csv is not None:
        with _one_line_errors(csv):
            simulate_report.write_csv(simulation, csv)
    if plot is not None:
        _draw(simulation, plot)
    if as_json:
        console.print_json(simulate_report.as_json(simulation, catchup=catchup))
    else:
        simulate_report.show(simulation, catchup=catchup, files=[f for f in (csv, plot) if f])


def _check(root: Path) -> BundleReport:
    report = check_bundle(root)
    if report.errors:
        show_problems(report, console.err())
        raise RefusedError(f"{root} has errors and was not simulated")
    if not report.dags:
        raise RefusedError(f"{root} defines no DAG: there is nothing to simulate")
    return report


def _require_writable(file: Path) -> None:
    """Refuse a file that cannot be written, by opening it: nothing else knows for sure."""
    is_new = not file.exists()
    with _one_line_errors(file), file.open("ab"):
        pass
    if is_new:
        file.unlink()


@contextmanager
def _one_line_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RefusedError(f"{file} cannot be written: {error.strerror}") from error


def _require_pictures(file: Path) -> None:
    if file.suffix.lower() not in _PICTURES:
        raise RefusedError(f"--plot {file}: name a file that ends in {' or '.join(_PICTURES)}")
    if find_spec("matplotlib") is None:
        raise RefusedError("--plot needs matplotlib: pip install 'lamplighter[plot]'")


def _draw(simulation: "Simulation", file: Path) -> None:
    from lamplighter_local.simulation.plot import draw  # noqa: PLC0415 - matplotlib takes a second

    with _one_line_errors(file):
        draw(simulation, file)


def durations(texts: Iterable[str], dags: Iterable[CheckedDag]) -> "dict[Task, timedelta]":
    """Return how long tasks take, by DAG and task; ids may have dots, so all names are compared."""
    known = {
        f"{dag.dag_id}.{task['task_id']}": (dag.dag_id, task["task_id"])
        for dag in dags
        for task in dag.document["tasks"]
    }
    found = {}
    for text in texts:
        name, equals, duration = text.partition("=")
        if not equals:
            raise RefusedError(f"--takes {text}: write it like DAG.TASK=90m")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3) or sorted(known)[:3]
            raise RefusedError(f"--takes {text}: there is no task {name} ({', '.join(near)}, …)")
        found[known[name]] = parse_duration(duration)
    return found


def parse_duration(text: str) -> timedelta:
    """Return how long `90m`, `1h30m` or `45s` is."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise RefusedError(f"{text!r} is not a duration: write it like 45s, 90m, 1h30m or 2d")
    try:
        return sum((timedelta(**{_UNITS[u]: float(number)}) for number, u in parts), timedelta())
    except OverflowError as error:
        raise RefusedError(f"{text!r} is too long a duration") from error


class _OnProgress:
    """Moves a progress bar to where the simulated clock is."""

    def __init__(self, progress: Progress, start: DateTime, days: int) -> None:
        self._progress, self._start, self._days = progress, start, days
        self._bar = progress.add_task("Simulating", total=days * 24)

    def __call__(self, now: DateTime) -> None:
        hours = (now - self._start).total_seconds() / 3600
        day = f"day {min(int(hours / 24) + 1, self._days)} of {self._days}"
        self._progress.update(self._bar, completed=hours, description=f"Simulating {day}")


@contextmanager
def _progress(start: DateTime, days: int) -> Iterator[_OnProgress]:
    """Show how far the days have come and how long it will take, where someone is looking."""
    err = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    ) as progress:
        yield _OnProgress(progress, start, days)
