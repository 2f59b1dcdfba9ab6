"""`lamplighter runs watch`: a live table of runs or, without a terminal, a line for each change."""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live

from lamplighter import clock
from lamplighter.store.dags import document_of_run
from lamplighter.store.runs import FINISHED, SUCCESS, recent_runs, runs_of
from lamplighter.zones import Zone, iso
from lamplighter_cli import console
from lamplighter_cli.definitions import Groups, groups_by_task
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.lookup import find_dag, find_run, zone_of_runs
from lamplighter_cli.options import AsJson, Every
from lamplighter_cli.runs_output import runs_table, steps_table
from lamplighter_operations.views import run_summary, steps_of, view_dag

_MAX_RUNS = 20


@dataclass(frozen=True)
class _Snapshot:
    """The state of what is watched: as a table, and by run and task."""

    table: RenderableType
    states: dict[tuple[str, str | None], str]
    # The final state of the watched run, once it has finished.
    end: str | None = None


@on_deployment
def watch(
    what: Annotated[
        str, typer.Argument(metavar="DAG/RUN|DAG", help="A run, or a DAG. Default: all DAGs.")
    ] = "",
    *,
    every: Every = 2.0,
    as_json: AsJson = False,
) -> None:
    """Watch a run until it finishes (exit code 1 if it failed), or a DAG until Ctrl-C."""
    if "/" in what:
        row = find_run(what)
        groups = groups_by_task(document_of_run(row))
        read = partial(_read_run, what, zone_of_runs(row.dag_id), groups)
    else:
        read = partial(_read_runs, what, view_dag(find_dag(what)).zone if what else None)
    end: str | None = None
    with suppress(KeyboardInterrupt), ExitStack() as until_the_end:
        out = console.out()
        if out.is_terminal and not as_json:
            live = until_the_end.enter_context(Live(console=out, auto_refresh=False))
            end = _follow(read, lambda found: live.update(found.table, refresh=True), every)
        else:
            end = _follow(read, _Lines(as_json=as_json), every)
    if end not in {None, SUCCESS}:
        raise typer.Exit(1)


def _follow(read: Callable[[], _Snapshot], show: Callable[[_Snapshot], None], every: float) -> str:
    """Show snapshots until the watched run has finished; return its final state."""
    while True:
        found = read()
        show(found)
        if found.end is not None:
            return found.end
        clock.sleep(every)


def _read_run(name: str, zone: Zone | None, groups: Groups) -> _Snapshot:
    row = find_run(name)
    run, steps = run_summary(row), steps_of(row)
    states: dict[tuple[str, str | None], str] = {
        (run.name, step.task_id): step.state for step in steps
    }
    states[run.name, None] = run.state
    table = Group(runs_table([run], zone), "", steps_table(steps, zone, groups))
    return _Snapshot(table, states, run.state if run.state in FINISHED else None)


def _read_runs(dag_id: str, zone: Zone | None) -> _Snapshot:
    rows = runs_of(dag_id, limit=_MAX_RUNS) if dag_id else recent_runs(limit=_MAX_RUNS, days=1)
    runs = [run_summary(row) for row in rows]
    table = runs_table(runs, zone) if runs else "no runs yet; press Ctrl-C to stop"
    return _Snapshot(table, {(run.name, None): run.state for run in runs})


class _Lines:
    """Writes a line for each state that has changed since the last snapshot."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._before: dict[tuple[str, str | None], str] | None = None

    def __call__(self, found: _Snapshot) -> None:
        """Write what has changed; the first time, what has not finished."""
        before = self._before
        for (run, task), state in found.states.items():
            is_changed = before is not None and before.get((run, task)) != state
            if is_changed or (before is None and (found.end or state not in FINISHED)):
                self._write(run, task, state)
        self._before = found.states

    def _write(self, run: str, task: str | None, state: str) -> None:
        now = clock.now()
        if self._as_json:
            line = {"at": iso(now), "run": run, "task_id": task, "state": state}
            console.print_json_line(line)
        else:
            console.print_line("  ".join(filter(None, (console.instant(now), run, task, state))))
