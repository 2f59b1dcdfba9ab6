"""What a backfill may be expected to cost, to take, and to set off: from what happened before."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lamplighter.identifiers import alias_id, asset_id, uri_id
from lamplighter.store.assets import consumers_of
from lamplighter.store.backfills import free_slots, left
from lamplighter.store.models import Backfills
from lamplighter.store.runs import SUCCESS, runs_of

_LOOKED_AT = 20


@dataclass(frozen=True)
class Expected:
    """What a run takes on average; None where nothing is known."""

    runs: int = 0
    cost: float | None = None
    seconds: float | None = None


def expect(dag_id: str) -> Expected:
    """Return what the newest successful runs of a DAG took."""
    runs = runs_of(dag_id, limit=_LOOKED_AT, states=[SUCCESS])
    return Expected(
        runs=len(runs),
        cost=_mean(run.cost for run in runs),
        seconds=_mean(
            (run.ended_at - run.started_at).total_seconds()
            for run in runs
            if run.ended_at is not None and run.started_at is not None
        ),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def total_seconds(runs: int, at_once: int, seconds: float | None) -> float | None:
    """Return how long so many runs take, given how long one does."""
    return None if seconds is None else math.ceil(runs / at_once) * seconds


def consumers(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the DAGs that wait for what a DAG's tasks update, each with the names of that."""
    found: dict[str, list[str]] = {}
    for name, key in sorted(_outlets(document.get("tasks", ()))):
        for dag_id in consumers_of(key):
            found.setdefault(dag_id, []).append(name)
    return dict(sorted(found.items()))


def _outlets(tasks: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    found = set()
    for task in tasks:
        for outlet in task.get("outlets", ()):
            ((kind, data),) = outlet.items()
            name, uri = data["name"], data.get("uri")
            found.add((name, alias_id(name) if kind == "alias" else asset_id(name)))
            if uri:
                found.add((uri, uri_id(uri)))
    return found


# While it goes on.


def finished(row: Backfills) -> int:
    """Return how many of its runs are over."""
    return int(row.succeeded + row.failed + row.cancelled)


def cost_of_a_run(row: Backfills) -> float | None:
    """Return what a run of it costs: as its own did, or, before there are any, as history says."""
    billed = finished(row) - int(row.unbilled_runs or 0)
    if billed and row.cost is not None:
        return row.cost / billed
    return row.expected_cost


def seconds_left(row: Backfills) -> float | None:
    """Return how long it still takes, if it goes on as it did."""
    seconds = row.expected_seconds
    if finished(row) and row.seconds:
        seconds = row.seconds / finished(row)
    return total_seconds(left(row) + len(row.active or ()), int(row.max_active_runs), seconds)


def affordable(row: Backfills) -> int:
    """Return how many more runs may begin: as many as there are slots for, and money.

    Whatever is under way or not billed is counted as if it cost what a run costs. Before anything
    is known about that, one run at a time has to show it.
    """
    slots = min(free_slots(row), left(row))
    if row.max_cost is None:
        return slots
    each, unknown = cost_of_a_run(row), len(row.active or ()) + int(row.unbilled_runs or 0)
    if each is None:
        return min(slots, max(0, 1 - unknown))
    rest = row.max_cost - (row.cost or 0) - unknown * each
    if each <= 0:
        return slots if rest > 0 else 0
    return max(0, min(slots, math.floor(rest / each + 1e-9)))
