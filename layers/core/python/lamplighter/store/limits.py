"""Limits that steps share: pools, the capacity of an executor, and the rate of its job starts.

Owns: their rows, and the index of the steps that wait. A pool and a capacity are counters: they
change in the transaction that changes the step, so nothing is taken twice or left behind. A rate is
a token bucket, kept as the instant of the newest start that was reserved.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from pendulum import DateTime
from pynamodb.expressions.condition import Condition

from lamplighter.errors import RefusedError, TransientError
from lamplighter.store.models import Limits, Steps
from lamplighter.store.rows import instant_text
from lamplighter.store.runs import run_ref
from lamplighter.store.transactions import Update, delete_if, retry_attempts, update_if
from lamplighter.zones import as_utc

POOL = "pool:"
STARTS = "starts:"
_SLOTS = "slots"
# After a throttle, starts are this much slower for this time: others use the same quota.
_SLOWDOWN, _SLOW_SECONDS = 2.0, 60

_INDEX_LAG = timedelta(minutes=1)
_MAX_WEIGHT = 10**9 - 1
# Entries read of each index.
FIRST = 25
# All functions that start jobs write the same row, one after the other.
_TRIES_TO_RESERVE = 24

Amounts = Mapping[str, float]


def exact(amounts: Amounts) -> dict[str, float]:
    """Return amounts as they can be added up and given back one by one without a difference."""
    return {resource: round(amount, 6) for resource, amount in amounts.items()}


def minus(one: Amounts, other: Amounts) -> Amounts:
    """Return what is left of amounts."""
    return exact({each: amount - other.get(each, 0) for each, amount in one.items()})


def pool_limit(pool: str) -> str:
    """Return the limit of a pool."""
    return f"{POOL}{pool}"


def capacity_limit(executor: str) -> str:
    """Return the limit of what the jobs of an executor may use together."""
    return f"capacity:{executor}"


def starts_limit(executor: str) -> str:
    """Return the limit of how often an executor may start jobs."""
    return f"{STARTS}{executor}"


def read_limit(limit_id: str) -> Limits | None:
    """Return the row of a limit, or None."""
    try:
        return Limits.get(limit_id, consistent_read=True)
    except Limits.DoesNotExist:
        return None


# Counters.


def free_of(row: Limits) -> dict[str, float]:
    """Return what is free of a counter, by resource."""
    return {resource: float(_free(row, resource) or 0) for resource in row.sizes or {}}


def _free(row: Limits | type[Limits], resource: str) -> Any:
    return getattr(row, f"free_{resource}")


@dataclass
class LimitChange:
    """What one transaction takes from a counter; a negative amount is given back."""

    limit_id: str
    taken: dict[str, float] = field(default_factory=dict)
    # What a step needs that has to wait because there is less.
    lacks: Amounts | None = None
    has_to_wait: bool = False

    def take(self, amounts: Amounts, *, sign: int = 1) -> None:
        """Take amounts, or give them back with the sign -1."""
        for resource, amount in amounts.items():
            self.taken[resource] = round(self.taken.get(resource, 0) + sign * amount, 6)

    @property
    def is_change(self) -> bool:
        """Whether there is anything to write."""
        return self.has_to_wait or any(self.taken.values())

    @property
    def frees(self) -> bool:
        """Whether others find more afterwards."""
        return any(amount < 0 for amount in self.taken.values())

    def write(self, now: DateTime) -> Update:
        """Return the write: refused if something is lacking, or if what was lacking is there."""
        taken = {resource: amount for resource, amount in self.taken.items() if amount}
        actions: list[Any] = [_free(Limits, each).add(-amount) for each, amount in taken.items()]
        if self.has_to_wait:
            actions.append(Limits.waited_at.set(now))
        condition: Condition | None = None
        for resource, amount in taken.items():
            if amount > 0:
                condition = _and(condition, _free(Limits, resource) >= amount)
        if self.lacks is not None:
            condition = _and(condition, self._still_lacks(self.lacks))
        return Update(Limits(self.limit_id), actions, condition)

    def _still_lacks(self, needed: Amounts) -> Condition:
        # A pool that does not exist lacks everything.
        found: Condition = Limits.sizes.does_not_exist()
        for resource, amount in needed.items():
            at_least = round(self.taken.get(resource, 0) + amount, 6)
            found = found | (_free(Limits, resource) < at_least)
        return found


def _and(one: Condition | None, other: Condition) -> Condition:
    return other if one is None else one & other


def resize(limit_id: str, sizes: Amounts, *, description: str | None = None) -> Limits:
    """Give a counter a size; what is taken stays taken. Return its row."""
    for _ in retry_attempts():
        row = read_limit(limit_id)
        before = {} if row is None else row.sizes or {}
        changes = {
            resource: sizes.get(resource, 0) - before.get(resource, 0)
            for resource in {*sizes, *before}
        }
        actions: list[Any] = [_free(Limits, each).add(change) for each, change in changes.items()]
        actions.append(Limits.sizes.set(dict(sizes)))
        if description is not None:
            actions.append(Limits.description.set(description))
        is_same = Limits.sizes == before if before else Limits.sizes.does_not_exist()
        changed = Limits(limit_id)
        if update_if(changed, actions, is_same):
            return changed
    raise TransientError(f"limit {limit_id} is being changed by others; try again")


def list_pools() -> list[Limits]:
    """Return all pools by name."""
    found = Limits.scan(Limits.limit_id.startswith(POOL), consistent_read=True)
    return sorted((row for row in found if row.sizes), key=lambda row: row.limit_id)


def set_pool(pool: str, slots: int, *, description: str | None = None) -> Limits:
    """Create a pool or change its size."""
    return resize(pool_limit(pool), {_SLOTS: slots}, description=description)


def delete_pool(pool: str) -> None:
    """Delete a pool; refused while steps hold its slots or wait for them."""
    row = read_limit(pool_limit(pool))
    if row is None or not row.sizes:
        raise RefusedError(f"there is no pool {pool!r}")
    if count_waiting(row.limit_id):
        raise RefusedError(f"pool {pool!r}: steps wait for it; let them finish or cancel them")
    is_unused = (Limits.free_slots == row.sizes[_SLOTS]) & (Limits.sizes == row.sizes)
    if not delete_if(Limits(row.limit_id), is_unused):
        raise RefusedError(f"pool {pool!r} is in use; set its slots to 0 and wait")


def all_counters() -> list[Limits]:
    """Return all pools and capacities."""
    return [row for row in Limits.scan(consistent_read=True) if row.sizes]


def held_by_steps() -> dict[str, dict[str, float]]:
    """Return what steps hold, by limit and resource; reads the whole table of steps."""
    held: dict[str, dict[str, float]] = {}
    for step in Steps.scan(Steps.holds.exists(), consistent_read=True):
        for limit_id, amounts in (step.holds or {}).items():
            found = held.setdefault(limit_id, {})
            for resource, amount in amounts.items():
                found[resource] = found.get(resource, 0) + amount
    return held


def set_free(row: Limits, free: Amounts) -> bool:
    """Correct what is free of a counter; return False if it has changed since it was read."""
    actions = [_free(Limits, resource).set(amount) for resource, amount in free.items()]
    is_same: Condition = Limits.sizes == row.sizes
    for resource in free:
        is_same = is_same & (_free(Limits, resource) == _free(row, resource))
    return update_if(Limits(row.limit_id), actions, is_same)


# Token buckets.


def reserve_start(limit_id: str, per_second: float, burst: int, *, now: DateTime) -> DateTime:
    """Reserve the next free start, and return when it is: now, unless the bucket is empty."""
    for _ in retry_attempts(_TRIES_TO_RESERVE):
        row = read_limit(limit_id)
        before = None if row is None else row.last_start_at
        is_slow = row is not None and row.slow_until is not None and row.slow_until > now
        moment = next_start(before, per_second, burst, now=now, is_slow=is_slow)
        is_first: Condition = Limits.last_start_at.does_not_exist()
        is_same = is_first if before is None else Limits.last_start_at == before
        if update_if(Limits(limit_id), [Limits.last_start_at.set(moment)], is_same):
            return max(moment, now)
    raise TransientError(f"too many starts are reserved at once at {limit_id}; try again")


def next_start(
    before: DateTime | None,
    per_second: float,
    burst: int,
    *,
    now: DateTime,
    is_slow: bool = False,
) -> DateTime:
    """Return the instant of the start after `before`; it lies in the past for a start at once."""
    interval = timedelta(seconds=(_SLOWDOWN if is_slow else 1.0) / per_second)
    # A full bucket is as if the last start had been so long ago.
    full = now - interval * (0 if is_slow else burst)
    return as_utc((full if before is None else max(before, full)) + interval)


def slow_down(limit_id: str, *, now: DateTime) -> None:
    """Lower the rate of a token bucket for a while, because a call was throttled."""
    until = Limits.slow_until.set(now.add(seconds=_SLOW_SECONDS))
    update_if(Limits(limit_id), [until], Limits.last_start_at.exists())


# Steps that wait.


class WaitingStep(NamedTuple):
    """An entry of the index of steps that wait for a limit."""

    dag_id: str
    run_key: str
    step_id: str
    since: DateTime
    turn: str

    @property
    def due(self) -> str:
        """When its run was due, as text that sorts."""
        return self.turn.partition("|")[2]


def turn_of(weight: int, due_at: DateTime) -> str:
    """Return what sorts steps by weight, heaviest first, then by due time."""
    lightness = _MAX_WEIGHT - max(-_MAX_WEIGHT, min(weight, _MAX_WEIGHT))
    return f"{lightness:010}|{instant_text(due_at)}"


def first_waiting(limit_id: str) -> list[WaitingStep]:
    """Return those steps that wait for a limit of which one is next.

    They are the heaviest, and those that have waited longest.
    """
    rows = [
        *Steps.turns.query(limit_id, limit=FIRST),
        *Steps.waiting.query(limit_id, limit=FIRST),
    ]
    return list(dict.fromkeys(map(_waiting_step, rows)))


def _waiting_step(row: Steps) -> WaitingStep:
    dag_id, _, run_key = row.run_ref.partition("|")
    return WaitingStep(dag_id, run_key, row.step_id, row.waits_since, row.turn)


def count_waiting(limit_id: str) -> int:
    """Return how many steps wait for a limit."""
    return int(Steps.waiting.count(limit_id))


def leave_queue(step: WaitingStep) -> None:
    """Take a step whose run cannot be advanced out of the index, so that nobody waits behind it."""
    row = Steps(run_ref(step.dag_id, step.run_key), step.step_id)
    update_if(
        row,
        [Steps.waits_for.remove(), Steps.start_reserved_at.remove()],
        Steps.waits_since == step.since,
    )


def stop_dispatching(limit_id: str, *, seen: DateTime, now: DateTime) -> None:
    """Record that nobody waits for a counter, unless someone began to lately.

    The index of waiting steps lags behind them.
    """
    if now - seen > _INDEX_LAG:
        is_same = Limits.waited_at == seen
        update_if(Limits(limit_id), [Limits.waited_at.remove()], is_same)


def has_waited_for(limit_ids: Collection[str] | None = None) -> list[str]:
    """Return the counters that steps had to wait for, of some or all."""
    if limit_ids is None:
        rows: Iterable[Limits] = Limits.scan(Limits.waited_at.exists(), consistent_read=True)
    else:
        rows = Limits.batch_get(limit_ids, consistent_read=True) if limit_ids else ()
    return sorted(row.limit_id for row in rows if row.waited_at is not None)
