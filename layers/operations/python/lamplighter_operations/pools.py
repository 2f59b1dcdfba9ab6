"""Pools, as operators see and change them."""

from collections.abc import Iterator
from dataclasses import dataclass

from lamplighter import queues
from lamplighter.errors import RefusedError
from lamplighter.identifiers import require_id
from lamplighter.store import limits
from lamplighter.store.models import Limits

_MAX_SLOTS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Pool:
    """A pool: its size, the slots that steps hold, and how many steps wait."""

    pool: str
    slots: int
    used: int
    waiting: int
    description: str | None = None


def list_pools() -> Iterator[Pool]:
    """Yield all pools by name."""
    return map(_view, limits.list_pools())


def set_pool(pool: str, slots: int, *, description: str | None = None) -> Pool:
    """Create a pool or change its size; steps that wait are started if there is room."""
    require_id(pool, what="pool")
    if not 0 <= slots <= _MAX_SLOTS:
        raise RefusedError(f"pool {pool!r}: slots must be from 0 to {_MAX_SLOTS:,}, not {slots}")
    row = limits.set_pool(pool, slots, description=description)
    queues.send_start(row.limit_id)
    return _view(row)


def delete_pool(pool: str) -> None:
    """Delete a pool that nobody uses or waits for."""
    limits.delete_pool(pool)


def _view(row: Limits) -> Pool:
    slots = int(row.sizes["slots"])
    return Pool(
        pool=row.limit_id.removeprefix(limits.POOL),
        slots=slots,
        used=slots - int(limits.free_of(row)["slots"]),
        waiting=limits.count_waiting(row.limit_id),
        description=row.description,
    )
