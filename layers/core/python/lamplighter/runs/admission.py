"""Decides which ready steps may start: those with room in their pool, capacity, and a start.

Owns: the order of the limits, and who is next. A step first needs its pool, then capacity, and last
a start of its executor's rate, so that no start is reserved for a step that cannot use it. What it
takes of a counter is written with the step; see `store.limits`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from pendulum import DateTime

from lamplighter.dags.task import SparkTask
from lamplighter.errors import DefinitionError
from lamplighter.executors.base import Executor
from lamplighter.runs.job_request import sizes_of
from lamplighter.store import limits
from lamplighter.store.limits import Amounts, WaitingStep
from lamplighter.store.models import Limits

# Whoever has waited for so long is no longer overtaken by heavier steps.
_PATIENCE = timedelta(minutes=10)


@dataclass(frozen=True)
class Wait:
    """Why a step cannot start now."""

    limit_id: str
    # What it needs of a counter that has less; None if others come first, or it waits for a start.
    lacks: Amounts | None = None
    # The start that was reserved.
    until: DateTime | None = None


class LimitReader:
    """Reads limits, and reserves starts."""

    read_limit = staticmethod(limits.read_limit)
    resize = staticmethod(limits.resize)
    first_waiting = staticmethod(limits.first_waiting)
    reserve_start = staticmethod(limits.reserve_start)


@dataclass
class Admission:
    """Admits the steps of the runs that one message is about."""

    # Starts that were reserved earlier, for whoever is next.
    permits: int = 0
    # The limit whose next steps are started: nobody comes before them.
    serves: str | None = None
    reader: LimitReader = field(default_factory=LimitReader)
    # Limits that made a step wait, and those of them that have room: for others, who come first.
    refused: set[str] = field(default_factory=set)
    rivals: set[str] = field(default_factory=set)
    _rows: dict[str, Limits | None] = field(default_factory=dict)
    _free: dict[str, dict[str, float]] = field(default_factory=dict)
    _waiting: dict[str, list[WaitingStep]] = field(default_factory=dict)

    def read_again(self, *, unused_permits: int) -> None:
        """Forget what was read, because a decision that was based on it was refused."""
        self.permits += unused_permits
        self._rows.clear()
        self._free.clear()
        self._waiting.clear()

    def admit(
        self, step: WaitingStep, task: SparkTask, executor: Executor, *, now: DateTime
    ) -> Wait | Mapping[str, Amounts]:
        """Return what a step takes of counters if it may start, or why it has to wait.

        Raises `DefinitionError` if it can never start.
        """
        needed = limits_of(task, executor)
        for limit_id, amounts in needed.items():
            wait = self._counted(limit_id, amounts, step, executor, now)
            if wait is not None:
                self.refused.add(limit_id)
                return wait
        wait = self._paced(executor, now)
        if wait is not None:
            self.refused.add(wait.limit_id)
            return wait
        for limit_id, amounts in needed.items():
            free = self._free[limit_id]
            self._free[limit_id] = {
                resource: there - amounts.get(resource, 0) for resource, there in free.items()
            }
        return needed

    def _counted(
        self, limit_id: str, amounts: Amounts, step: WaitingStep, executor: Executor, now: DateTime
    ) -> Wait | None:
        row = self._row(limit_id, executor)
        if row is None or not row.sizes:
            return Wait(limit_id, amounts)  # until someone creates the pool
        _require_possible(limit_id, amounts, row.sizes)
        free = self._free[limit_id]
        if any(free.get(resource, 0) < amount for resource, amount in amounts.items()):
            return Wait(limit_id, amounts)
        if limit_id != self.serves and self._is_preceded(limit_id, step, now):
            self.rivals.add(limit_id)
            return Wait(limit_id)
        return None

    def _row(self, limit_id: str, executor: Executor) -> Limits | None:
        if limit_id not in self._rows:
            row = self.reader.read_limit(limit_id)
            if limit_id == limits.capacity_limit(executor.name):
                sizes = dict(executor.capacity())
                if row is None or row.sizes != sizes:
                    row = self.reader.resize(limit_id, sizes)
            self._rows[limit_id] = row
            self._free[limit_id] = {} if row is None else limits.free_of(row)
        return self._rows[limit_id]

    def _is_preceded(self, limit_id: str, step: WaitingStep, now: DateTime) -> bool:
        if limit_id not in self._waiting:
            self._waiting[limit_id] = self.reader.first_waiting(limit_id)
        mine = precedence(step, now)
        return any(precedence(other, now) < mine for other in self._waiting[limit_id])

    def _paced(self, executor: Executor, now: DateTime) -> Wait | None:
        rate = executor.start_rate()
        if rate is None:
            return None
        if self.permits > 0:
            self.permits -= 1
            return None
        limit_id = limits.starts_limit(executor.name)
        moment = self.reader.reserve_start(limit_id, rate.per_second, rate.burst, now=now)
        return None if moment <= now else Wait(limit_id, until=moment)


def has_limits(task: SparkTask, executor: Executor) -> bool:
    """Return whether a task may have to wait for anything."""
    return bool(task.pool or executor.capacity() or executor.start_rate())


def limits_of(task: SparkTask, executor: Executor) -> dict[str, Amounts]:
    """Return what a task needs of each counter, by limit and resource."""
    needed: dict[str, Amounts] = {}
    if task.pool is not None:
        needed[limits.pool_limit(task.pool)] = {"slots": task.pool_slots}
    if executor.capacity():
        needed[limits.capacity_limit(executor.name)] = executor.footprint(sizes_of(task))
    return needed


def _require_possible(limit_id: str, amounts: Amounts, sizes: Amounts) -> None:
    for resource, amount in amounts.items():
        if amount > sizes.get(resource, 0) > 0:
            raise DefinitionError(
                f"it needs {amount:g} {resource} of {limit_id}, which has {sizes[resource]:g}: make"
                " the step smaller or the limit larger"
            )


# Who is next.


def precedence(step: WaitingStep, now: DateTime) -> tuple[object, ...]:
    """Return what steps are sorted by: heavier ones first, but patience has an end.

    Steps that have waited for ten minutes come before all others, by due time.
    """
    has_waited_long = now - step.since >= _PATIENCE
    return (not has_waited_long, step.due if has_waited_long else step.turn, step[:3])


def in_turn(steps: Iterable[WaitingStep], now: DateTime) -> list[WaitingStep]:
    """Return steps that wait, those first that are next."""
    return sorted(steps, key=lambda step: precedence(step, now))
