"""Asset events that wait for a DAG, and whether they are enough for a run.

Owns: what a run takes: of every asset that the DAG waits for, all events that are pending, also of
those that the condition did not need. What is taken is a range of sequences, never of time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lamplighter.store.models import AssetQueue
from lamplighter.store.transactions import Update


@dataclass(frozen=True)
class Pending:
    """The events of one asset that a DAG has not consumed yet."""

    row: AssetQueue

    @property
    def sequences(self) -> list[int]:
        """The last sequence that was consumed, and the last that there is."""
        return [int(self.row.consumed_seq), int(self.row.last_seq)]

    def consume(self) -> Update:
        """Return the write that consumes exactly these events."""
        consumed, last = self.row.consumed_seq, self.row.last_seq
        unchanged = AssetQueue.consumed_seq == consumed
        return Update(self.row, [AssetQueue.consumed_seq.set(last)], unchanged)


def pending_events(dag_id: str) -> dict[str, Pending]:
    """Return what is pending for a DAG, by asset."""
    rows = AssetQueue.query(dag_id, consistent_read=True)
    return {row.asset_id: Pending(row) for row in rows if row.last_seq > row.consumed_seq}


def ids_of(condition: Any) -> Iterator[str]:
    """Yield the assets of a condition on asset ids."""
    if isinstance(condition, str):
        yield condition
    elif condition:
        (members,) = condition.values()
        for member in members:
            yield from ids_of(member)


def holds(condition: Any, pending: Mapping[str, object]) -> bool:
    """Return whether a condition on asset ids is true, given those that have events."""
    if isinstance(condition, str):
        return condition in pending
    if not condition:
        return False
    ((kind, members),) = condition.items()
    return (all if kind == "all" else any)(holds(member, pending) for member in members)
