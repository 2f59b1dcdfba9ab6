"""Asset events that wait for a DAG, and whether they are enough for a run.

Owns: what a run takes: of every asset that the DAG waits for, all events that are pending, also of
those that the condition did not need. Pending is what lies between the number that the DAG has
consumed and the number of the asset's newest event; it is worked out and stored nowhere, so that it
cannot be wrong (see docs/adr/0011). A range of numbers, never of time.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pendulum import DateTime

from lamplighter.errors import UNREADABLE
from lamplighter.store.assets import read_assets, read_assets_at_one_moment
from lamplighter.store.models import AssetQueue, Assets, Dags
from lamplighter.store.transactions import Change
from lamplighter.zones import iso

# So many ranges are remembered for people who ask what became of an event.
_MOST_DROPPED = 50


@dataclass(frozen=True)
class Pending:
    """The events of one asset that a DAG has not consumed yet."""

    row: AssetQueue
    last_seq: int
    recorded_at: DateTime  # the newest of them

    @property
    def sequences(self) -> list[int]:
        """The last number that was consumed, and the last that there is."""
        return [int(self.row.stored["consumed_seq"]), self.last_seq]

    def consume(self) -> Change:
        """Return the write that consumes exactly these events."""
        self.row.consumed_seq = self.last_seq
        return Change(self.row, ("consumed_seq",))

    def drop(self, why: str, now: DateTime) -> Change:
        """Return the write that consumes these events without a run, and says why."""
        entry = [*self.sequences, iso(now), why]
        self.row.dropped = [*(self.row.stored.get("dropped") or ()), entry][-_MOST_DROPPED:]
        return self.consume()


PendingEvents = Mapping[str, Pending]


def pending_of(rows: Iterable[Dags]) -> dict[str, dict[str, Pending]]:
    """Return, by DAG and by asset, the events that are pending for what the DAG waits for now."""
    waits = {row.dag_id: _waited_for(row) for row in rows}
    keys = [(dag_id, asset) for dag_id, assets in waits.items() for asset in assets]
    if not keys:
        return {}
    newest = _newest(waits)
    found: dict[str, dict[str, Pending]] = {}
    for row in AssetQueue.batch_get(keys, consistent_read=True):
        asset = newest[row.dag_id].get(row.asset_id)
        if asset is not None and asset.recorded_at is not None and asset.seq > row.consumed_seq:
            pending = Pending(row, int(asset.seq), asset.recorded_at)
            found.setdefault(row.dag_id, {})[row.asset_id] = pending
    return found


def _waited_for(row: Dags) -> set[str]:
    try:
        return set(ids_of(row.asset_condition))
    except UNREADABLE:
        # Someone has changed the row by hand. Its own plan says so; the others go on.
        return set()


def _newest(waits: Mapping[str, set[str]]) -> dict[str, Mapping[str, Assets]]:
    mixed = {dag_id: ids for dag_id, ids in waits.items() if len(ids) > 1 and _share_events(ids)}
    together = read_assets(key for dag_id in waits.keys() - mixed.keys() for key in waits[dag_id])
    return {
        dag_id: read_assets_at_one_moment(ids) if dag_id in mixed else together
        for dag_id, ids in waits.items()
    }


def _share_events(ids: Iterable[str]) -> bool:
    """Return whether one event may stand under several of the ids: one is an alias or a URI."""
    return any(":" in key for key in ids)


def ids_of(condition: Any) -> Iterator[str]:
    """Yield the assets of a condition on asset ids."""
    if isinstance(condition, str):
        yield condition
    elif condition:
        (members,) = condition.values()
        for member in members:
            yield from ids_of(member)


def is_met(condition: Any, pending: PendingEvents) -> bool:
    """Return whether there are events, and enough of them."""
    # The condition is asked in any case, so that one which cannot be read does not go unnoticed.
    return _holds(condition, pending) and bool(pending)


def _holds(condition: Any, pending: PendingEvents) -> bool:
    if isinstance(condition, str):
        return condition in pending
    if not condition:
        return False
    ((kind, members),) = condition.items()
    return (all if kind == "all" else any)(_holds(member, pending) for member in members)
