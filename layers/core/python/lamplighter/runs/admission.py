"""Decides which ready steps may start: those with room in their pool, capacity, and a start.

Owns: the order of the limits, and who is next. A step first needs its pool, then capacity, and last
a start of its executor's rate, so that no start is reserved for a step that cannot use it. What it
takes of a counter is written with the step; see `store.limits`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from pendulum import DateTime

from lamplighter.dags.task import Task
from lamplighter.errors import DefinitionError
from lamplighter.executors.base import Executor
from lamplighter.store import limits
from lamplighter.store.limits import Amounts, WaitingStep, exact, minus
from lamplighter.store.models import Limits

# Whoever has waited for so long is no longer overtaken by heavier steps.
_PATIENCE = timedelta(minutes=10)
# The index of steps that wait is hardly ever further behind.
_LAG_SECONDS = 1


@dataclass(frozen=True)
class Wait:
    """Why a step cannot start now."""

    limit_id: str
    # What it needs of a counter that has less; None if others come first, or it waits for a start.
    lacks: Amounts | None = None
    # The start that was reserved.
    until: DateTime | None = None
    # When to look again, because there is room that those who come first may leave.
    look_at: DateTime | None = None


class LimitReader:
    """Reads limits, and reserves starts."""

    read_limit = staticmethod(limits.read_limit)
    resize = staticmethod(limits.resize)
    first_waiting = staticmethod(limits.first_waiting)
    reserve_start = staticmethod(limits.reserve_start)


_StepName: TypeAlias = tuple[str, str, str]


@dataclass
class Admission:
    """Admits the steps of the runs that one message is about."""

    # Starts that were reserved earlier, for whoever is next.
    permits: int = 0
    # The limit whose next steps are started, and those of them that have had their turn.
    serves: str | None = None
    tried: set[_StepName] = field(default_factory=set)
    reader: LimitReader = field(default_factory=LimitReader)
    # Counters that had too little for a step.
    exhausted: set[str] = field(default_factory=set)
    _rows: dict[str, Limits | None] = field(default_factory=dict)
    _waiting: dict[str, list[WaitingStep]] = field(default_factory=dict)
    # Room for steps that wait for their start.
    _promised: dict[_StepName, tuple[Mapping[str, Amounts], DateTime]] = field(default_factory=dict)
    # Starts of the decision that is not written yet, and of earlier ones that were refused.
    _used_permits: int = 0
    _drawn: list[DateTime] = field(default_factory=list)
    _spare: list[DateTime] = field(default_factory=list)

    def begin(self) -> None:
        """Begin a decision: what the one before has used is gone."""
        self._used_permits = 0
        self._drawn.clear()

    def forget(self, changed: Iterable[str]) -> None:
        """Read limits again that a decision has changed."""
        for limit_id in changed:
            self._rows.pop(limit_id, None)

    def take_back(self) -> None:
        """Read all again and keep the starts, because the decision was not written."""
        self.permits += self._used_permits
        self._spare += self._drawn
        self._rows.clear()
        self._waiting.clear()

    def admit(
        self,
        step: WaitingStep,
        task: Task,
        executor: Executor,
        *,
        now: DateTime,
        taken: Mapping[str, Amounts],
        is_reserved: bool = False,
    ) -> Wait | Mapping[str, Amounts]:
        """Return what a step takes of counters if it may start, or why it has to wait.

        `taken` is what the decision takes already, `is_reserved` whether a permit may be for the
        step. Raises `DefinitionError` if it can never start.
        """
        needed = limits_of(task, executor)
        for limit_id, amounts in needed.items():
            free = self._free(limit_id, executor, amounts)
            wait = self._counted(limit_id, amounts, minus(free, taken.get(limit_id, {})), step, now)
            if wait is not None:
                return wait
        wait = self._paced(executor, now, is_reserved=is_reserved)
        if wait is not None and wait.until is not None:
            self._promised[step[:3]] = needed, wait.until
        return needed if wait is None else wait

    def _counted(
        self, limit_id: str, amounts: Amounts, free: Amounts, step: WaitingStep, now: DateTime
    ) -> Wait | None:
        if not _has_room(free, amounts):
            self.exhausted.add(limit_id)
            return Wait(limit_id, amounts)
        look_at = now.add(seconds=_LAG_SECONDS)
        for name, (promised, until) in self._promised.items():
            if name != step[:3] and limit_id in promised:
                free = minus(free, promised[limit_id])
                look_at = max(look_at, until.add(seconds=_LAG_SECONDS))
        if not _has_room(free, amounts):
            self.exhausted.add(limit_id)
            return Wait(limit_id, look_at=look_at)
        if self._is_preceded(limit_id, step, now):
            # Whoever serves the limit comes to all of them.
            return Wait(limit_id, look_at=None if limit_id == self.serves else look_at)
        return None

    def _free(self, limit_id: str, executor: Executor, amounts: Amounts) -> Amounts:
        row = self._row(limit_id, executor)
        if row is None or not row.sizes:
            return {}  # a pool that someone has to create
        _require_possible(limit_id, amounts, row.sizes)
        return limits.free_of(row)

    def _row(self, limit_id: str, executor: Executor) -> Limits | None:
        if limit_id not in self._rows:
            row = self.reader.read_limit(limit_id)
            if limit_id == limits.capacity_limit(executor.name):
                sizes = exact(executor.capacity())
                if row is None or row.sizes != sizes:
                    row = self.reader.resize(limit_id, sizes)
            self._rows[limit_id] = row
        return self._rows[limit_id]

    def _is_preceded(self, limit_id: str, step: WaitingStep, now: DateTime) -> bool:
        if limit_id not in self._waiting:
            self._waiting[limit_id] = self.reader.first_waiting(limit_id)
        mine = precedence(step, now)
        waiting = (each for each in self._waiting[limit_id] if each[:3] not in self.tried)
        return any(precedence(other, now) < mine for other in waiting)

    def _paced(self, executor: Executor, now: DateTime, *, is_reserved: bool) -> Wait | None:
        rate = executor.start_rate()
        if rate is None:
            return None
        if is_reserved and self.permits > 0:
            self.permits -= 1
            self._used_permits += 1
            return None
        limit_id = limits.starts_limit(executor.name)
        if not self._spare:
            found = self.reader.reserve_start(limit_id, rate.per_second, rate.burst, now=now)
            self._spare.append(found)
        moment = self._spare.pop(0)
        self._drawn.append(moment)
        return None if moment <= now else Wait(limit_id, until=moment)


def _has_room(free: Amounts, needed: Amounts) -> bool:
    return all(free.get(resource, 0) >= amount for resource, amount in needed.items())


def has_limits(task: Task, executor: Executor) -> bool:
    """Return whether a task may have to wait for anything."""
    return bool(task.pool or executor.capacity() or executor.start_rate())


def limits_of(task: Task, executor: Executor) -> dict[str, Amounts]:
    """Return what a task needs of each counter, by limit and resource."""
    needed: dict[str, Amounts] = {}
    if task.pool is not None:
        needed[limits.pool_limit(task.pool)] = {"slots": task.pool_slots}
    if capacity := executor.capacity():
        # Of what is not limited there is always enough: no counter has it.
        footprint = executor.footprint(task.sizes).items()
        counted = {resource: amount for resource, amount in footprint if resource in capacity}
        needed[limits.capacity_limit(executor.name)] = counted
    return {limit_id: exact(amounts) for limit_id, amounts in needed.items()}


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
