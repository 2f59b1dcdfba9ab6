"""`lamplighter simulate`: the next days of a bundle with the real scheduler, without AWS or Spark.

Owns: the options, which are validated before the simulation starts. `simulate_output` shows the
results.
"""

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pendulum import DateTime
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from lamplighter import clock, runtime
from lamplighter.bundles.layout import require_bundle
from lamplighter.bundles.parsing import BundleReport, CheckedDag, check_bundle
from lamplighter.errors import RefusedError
from lamplighter.zones import parse_instant
from lamplighter_cli import console
from lamplighter_cli.check import show_problems
from lamplighter_cli.extras import needing, require_package
from lamplighter_cli.options import (
    AsJson,
    BundleDir,
    PollRealSources,
    Variables,
    read_variables,
)

if TYPE_CHECKING:
    from lamplighter_local.simulation.simulate import Simulation, Task

_MAX_DAYS = 366
_PLOT_FORMATS = (".png", ".svg")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def simulate(
    path: BundleDir = Path(),
    *,
    days: Annotated[
        int, typer.Option(help="Number of days to simulate.", min=1, max=_MAX_DAYS)
    ] = 30,
    at: Annotated[
        str, typer.Option(help="When they start, such as 2026-03-27T00:00:00Z. Default: now.")
    ] = "",
    catchup: Annotated[
        bool, typer.Option("--catchup", help="Also create the runs that are due at the start.")
    ] = False,
    takes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DAG.TASK=90m", help="How long a task takes (default: a second); repeatable."
        ),
    ] = None,
    var: Variables = None,
    poll_real_sources: PollRealSources = False,
    as_json: AsJson = False,
    csv: Annotated[Path | None, typer.Option(help="Write a CSV file with a row per run.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw runs and concurrency to a .png or .svg file.")
    ] = None,
) -> None:
    """Simulate the runs of the next days: how many, when, how many at once. Runs offline."""
    start = parse_instant(at) if at else clock.now().replace(microsecond=0)
    for file in filter(None, (csv, plot)):
        _require_writable(file)
    if plot is not None:
        _require_plotting(plot)
    variables = read_variables(var)
    root = require_bundle(path)
    # As of the start, so that it tells of the same DAGs as the simulation.
    with runtime.using(clock=clock.FixedClock(start)):
        report = _check(root)
    lasting = durations(takes or (), report.dags)
    with needing("local"):
        from lamplighter_cli import simulate_output  # noqa: PLC0415 - only where it is needed
        from lamplighter_local.simulation.simulate import simulate as run_simulation  # noqa: PLC0415 - as above
    with _progress(start, days) as on_progress:
        simulation = run_simulation(
            root,
            report.dags,
            at=start,
            days=days,
            catch_up=catchup,
            takes=lasting,
            variables=variables,
            poll_real_sources=poll_real_sources,
            on_progress=on_progress,
        )
    if csv is not None:
        with _one_line_errors(csv):
            simulate_output.write_csv(simulation, csv)
    if plot is not None:
        _draw(simulation, plot)
    if as_json:
        console.print_json(simulate_output.as_json(simulation, catchup=catchup))
    else:
        simulate_output.show(simulation, catchup=catchup, files=[f for f in (csv, plot) if f])


def _check(root: Path) -> BundleReport:
    report = check_bundle(root)
    if report.errors:
        show_problems(report, console.err())
        raise RefusedError(f"{root} has errors and was not simulated")
    if not report.dags:
        raise RefusedError(f"{root} defines no DAGs: there is nothing to simulate")
    return report


def _require_writable(file: Path) -> None:
    """Refuse a file that cannot be opened for writing."""
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


def _require_plotting(file: Path) -> None:
    if file.suffix.lower() not in _PLOT_FORMATS:
        raise RefusedError(f"--plot {file}: the file name must end in {' or '.join(_PLOT_FORMATS)}")
    require_package("matplotlib", "plot")


def _draw(simulation: "Simulation", file: Path) -> None:
    from lamplighter_local.simulation.plot import draw  # noqa: PLC0415 - matplotlib takes a second

    with _one_line_errors(file):
        draw(simulation, file)


def durations(texts: Iterable[str], dags: Iterable[CheckedDag]) -> "dict[Task, timedelta]":
    """Return the duration of tasks, by DAG and task; ids may contain dots, so whole names count."""
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
    """Return the duration that `90m`, `1h30m` or `45s` stands for."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise RefusedError(f"{text!r} is not a duration: write it like 45s, 90m, 1h30m or 2d")
    try:
        return sum((timedelta(**{_UNITS[u]: float(number)}) for number, u in parts), timedelta())
    except OverflowError as error:
        raise RefusedError(f"{text!r} is too long a duration") from error


class _OnProgress:
    """Moves a progress bar with the simulated clock."""

    def __init__(self, progress: Progress, start: DateTime, days: int) -> None:
        self._progress, self._start, self._days = progress, start, days
        self._bar = progress.add_task("Simulating", total=days * 24)

    def __call__(self, now: DateTime) -> None:
        hours = (now - self._start).total_seconds() / 3600
        day = f"day {min(int(hours / 24) + 1, self._days)} of {self._days}"
        self._progress.update(self._bar, completed=hours, description=f"Simulating {day}")


@contextmanager
def _progress(start: DateTime, days: int) -> Iterator[_OnProgress]:
    """Show the simulated day and the remaining time, on a terminal only."""
    with console.progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(compact=True),
    ) as progress:
        yield _OnProgress(progress, start, days)
