"""Runs and their steps as JSON and as tables."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pendulum import DateTime
from rich.table import Table

from lamplighter.executors import named
from lamplighter.zones import Zone
from lamplighter_cli import console
from lamplighter_cli.console import Rows, instant, view_json
from lamplighter_cli.definitions import GROUPS_JOIN, Groups
from lamplighter_operations.views import Run, Step

# Fields of `Run` that only `runs show` has, below the others.
_DETAILS = frozenset({"conf", "events", "expired_events", "steps"})


def run_json(run: Run) -> dict[str, Any]:
    """Return a run as JSON, as in lists."""
    return view_json(run, without=_DETAILS)


def whole_run_json(run: Run, groups: Groups) -> dict[str, Any]:
    """Return a run with its steps, their task groups, and its events as JSON."""
    events: dict[str, list[dict[str, Any]]] = {}
    for event in run.events:
        events.setdefault(event.asset, []).append(view_json(event, without={"asset", "seq"}))
    return {
        **run_json(run),
        "conf": run.conf,
        "steps": [
            view_json(step, without={"max_try_number"}) | {"groups": groups.get(step.task_id, ())}
            for step in run.steps
        ],
        "triggering_asset_events": events,
        "expired": run.expired_events,
    }


def run_table(run: Run, zone: Zone | None) -> Table:
    """Return the fields of a run as a table."""
    shown = {name.replace("_", " "): getattr(run, name) for name in run_json(run)}
    shown |= {"state": console.state(run.state), "marks": "\n".join(map(_mark_text, run.marks))}
    shown |= {"cost": console.cost(run.cost, run.unbilled_jobs), "unbilled jobs": None}
    return console.details(
        {
            name: instant(value, zone) if isinstance(value, DateTime) else value
            for name, value in shown.items()
        }
    )


def _mark_text(mark: Mapping[str, Any]) -> str:
    what = f"task {mark['task_id']}" if mark["task_id"] else "run"
    return f"{mark['at']} {what} {mark['from']} -> {mark['to']} by {mark['by']}: {mark['why']}"


def runs_table(runs: Iterable[Run], zone: Zone | None) -> Rows:
    """Return a list of runs as a table."""
    table = Rows("run", "state", "run after", "started", "ended", "cost")
    for run in runs:
        instants = (run.run_after, run.started_at, run.ended_at)
        cells = (*(instant(at, zone) for at in instants), console.cost(run.cost, run.unbilled_jobs))
        table.add(run.name, console.state(run.state), *cells)
    return table


def steps_table(steps: Iterable[Step], zone: Zone | None, groups: Groups) -> Rows:
    """Return the steps of a run as a table; with their task groups, if any is in one."""
    group = ("group",) if groups else ()
    table = Rows("task", *group, "state", "try", "job", "started", "ended", "cost", "error")
    for step in steps:
        table.add(
            step.task_id,
            *(GROUPS_JOIN.join(groups.get(step.task_id, ())) for _ in group),
            console.state(step.state),
            f"{step.try_number} of {step.max_try_number}",
            step.job_run_id or "",
            instant(step.started_at, zone),
            _waits(step, zone) or instant(step.ended_at, zone),
            _cost(step),
            last_line(step.error),
        )
    return table


def _cost(step: Step) -> str:
    if step.job_run_id and not named(step.executor).bills_jobs:
        return "not counted"
    return console.cost(step.cost, len(step.unbilled_jobs))


def outputs_table(outputs: Mapping[str, Mapping[str, Any]]) -> Rows:
    """Return what steps left for later ones as a table."""
    table = Rows("task", "output", "value")
    for task_id, left in outputs.items():
        for name, value in left.items():
            table.add(task_id, name, json.dumps(value))
    return table


def _waits(step: Step, zone: Zone | None) -> str:
    if step.waits_for is not None:
        return f"waits for {_limit(step.waits_for)} since {instant(step.waits_since, zone)}"
    if step.retry_at is None:
        return ""
    retry = f"retry at {instant(step.retry_at, zone)}"
    if step.capacity_since is None:
        return retry
    return f"no capacity since {instant(step.capacity_since, zone)}, {retry}"


def _limit(limit_id: str) -> str:
    kind, _, name = limit_id.partition(":")
    kinds = {"capacity": "capacity on", "starts": "its start on"}
    return f"{kinds.get(kind, kind)} {name}"


def last_line(error: str | None) -> str:
    """Return the last line of an error: after a traceback, it names the exception."""
    return (error or "").strip().rpartition("\n")[2]
