"""`lamplighter runs watch`: runs as they go on. A table that changes, or a line for each change."""

import json
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live

from lamplighter import clock
from lamplighter.store.models import Runs
from lamplighter.store.runs import FINISHED, SUCCESS, recent_runs, runs_of
from lamplighter.zones import Zone, iso
from lamplighter_cli import console
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.finding import find_dag, find_run, zone_of, zone_of_run
from lamplighter_cli.options import AsJson
from lamplighter_cli.run_facts import run_name, runs_table, steps_of, steps_table

_MOST = 20


@dataclass(frozen=True)
class _View:
    """What a look at the tables found: for the screen, and as states by run and task."""

    screen: RenderableType
    states: dict[tuple[str, str | None], str]
    # The state of the run that is watched, when it is over.
    end: str | None = None


@on_deployment
def watch(
    what: Annotated[
        str, typer.Argument(metavar="DAG/RUN|DAG", help="A run, or a DAG. Default: all DAGs.")
    ] = "",
    *,
    every: Annotated[float, typer.Option(min=0.2, help="Look again after so many seconds.")] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Follow a run until it is over (exit 1 if it failed), or a DAG until Ctrl-C."""
    if "/" in what:
        run = find_run(what)
        look = partial(_look_at_run, what, zone_of_run(run))
    else:
        look = partial(_look_at_runs, what, zone_of(find_dag(what)) if what else None)
    end: str | None = None
    with suppress(KeyboardInterrupt), ExitStack() as until_the_end:
        out = console.out()
        if out.is_terminal and not as_json:
            live = until_the_end.enter_context(Live(console=out, auto_refresh=False))
            end = _follow(look, lambda view: live.update(view.screen, refresh=True), every)
        else:
            end = _follow(look, _Lines(as_json=as_json), every)
    if end not in {None, SUCCESS}:
        raise typer.Exit(1)


def _follow(look: Callable[[], _View], show: Callable[[_View], None], every: float) -> str:
    """Show what there is to see until the run that is watched is over; return its state then."""
    while True:
        view = look()
        show(view)
        if view.end is not None:
            return view.end
        clock.sleep(every)


def _look_at_run(name: str, zone: Zone | None) -> _View:
    run = find_run(name)
    steps = steps_of(run)
    states: dict[tuple[str, str | None], str] = {
        (run_name(run), step.step_id): step.state for step in steps
    }
    states[run_name(run), None] = run.state
    screen = Group(runs_table([run], zone), "", steps_table(steps, zone))
    return _View(screen, states, run.state if run.state in FINISHED else None)


def _look_at_runs(dag_id: str, zone: Zone | None) -> _View:
    runs = runs_of(dag_id, limit=_MOST) if dag_id else recent_runs(limit=_MOST, days=1)
    return _View(_several(runs, zone), {(run_name(run), None): run.state for run in runs})


def _several(runs: list[Runs], zone: Zone | None) -> RenderableType:
    return runs_table(runs, zone) if runs else "no runs yet; Ctrl-C ends this"


class _Lines:
    """Writes a line for each state that was another one the last time, or not there."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._before: dict[tuple[str, str | None], str] | None = None

    def __call__(self, view: _View) -> None:
        """Write what has changed; at first, what is not over."""
        before = self._before
        for (run, task), state in view.states.items():
            is_news = before is not None and before.get((run, task)) != state
            if is_news or (before is None and (view.end or state not in FINISHED)):
                self._write(run, task, state)
        self._before = view.states

    def _write(self, run: str, task: str | None, state: str) -> None:
        now = clock.now()
        if self._as_json:
            line = {"at": iso(now), "run": run, "task_id": task, "state": state}
            typer.echo(json.dumps(line))
        else:
            typer.echo("  ".join(filter(None, (console.instant(now), run, task, state))))
