"""Pending asset events of a DAG, and whether they satisfy its condition.

Owns: what a run consumes: all pending events of every asset of the condition. Pending is the range
from the sequence number that the DAG has consumed to the newest of the asset. It is derived and
never stored, so it cannot be wrong (docs/adr/0011).
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pendulum import DateTime

from lamplighter.assets.condition import AssetId, AssetLeaf, decode_on_ids
from lamplighter.errors import UNREADABLE, MalformedRowError, TransientError
from lamplighter.store.assets import read_asset_queue, read_assets, read_assets_at_one_moment
from lamplighter.store.models import AssetQueue, Assets, Dags
from lamplighter.store.transactions import Change, Check
from lamplighter.zones import iso

if TYPE_CHECKING:
    from lamplighter.store.rows import Malformed

log = logging.getLogger(__name__)

# Dropped ranges that are kept for `trace_event`.
_MAX_DROPPED = 50


@dataclass(frozen=True)
class Pending:
    """The events of one asset that a DAG has not consumed."""

    row: AssetQueue
    last_seq: int
    recorded_at: DateTime  # of the newest event

    @property
    def sequences(self) -> list[int]:
        """The last number consumed, and the last recorded."""
        return [int(self.row.stored["consumed_seq"]), self.last_seq]

    def consume(self) -> Change:
        """Return the write that consumes exactly these events."""
        self.row.consumed_seq = self.last_seq
        return Change(self.row, ("consumed_seq",))

    def drop(self, why: str, now: DateTime) -> Change:
        """Return the write that consumes these events without a run, with the reason."""
        entry = [*self.sequences, iso(now), why]
        self.row.dropped = [*(self.row.stored.get("dropped") or ()), entry][-_MAX_DROPPED:]
        return self.consume()


@dataclass(frozen=True)
class PendingEvents:
    """The pending events of a DAG by asset, and the rows of all assets of its condition."""

    events: Mapping[str, Pending] = field(default_factory=dict)
    assets: Mapping[str, Assets] = field(default_factory=dict)

    def unchanged(self) -> list[Check]:
        """Return checks that nothing has been recorded since this was read."""
        return [Check(row, Assets.seq == row.seq) for row in self.assets.values()]


def pending_of(rows: Collection[Dags]) -> dict[str, PendingEvents]:
    """Return the pending events by DAG, without DAGs whose assets cannot be read."""
    waits = {row.dag_id: waited_for(row) for row in rows}
    newest = _newest(waits)
    keys = [(dag_id, key) for dag_id, assets in newest.items() for key in assets]
    pending: dict[str, dict[str, Pending]] = {dag_id: {} for dag_id in newest}
    malformed: list[Malformed] = []
    for row in read_asset_queue(keys, malformed=malformed):
        asset = newest[row.dag_id][row.asset_id]
        if asset.recorded_at is not None and asset.seq > row.consumed_seq:
            found = Pending(row, int(asset.seq), asset.recorded_at)
            pending[row.dag_id][row.asset_id] = found
    for dag_id, _ in (bad.key for bad in malformed):
        newest.pop(dag_id, None)
    return {dag_id: PendingEvents(pending[dag_id], assets) for dag_id, assets in newest.items()}


def waited_for(row: Dags) -> set[str]:
    """Return the assets of a DAG's condition."""
    try:
        return ids_of(row.asset_condition)
    except UNREADABLE:
        # Edited by hand. The claim of this DAG reports it; the others go on.
        return set()


def _newest(waits: Mapping[str, set[str]]) -> dict[str, Mapping[str, Assets]]:
    """Return the asset rows by DAG, as far as they can be read."""
    mixed = {dag_id: ids for dag_id, ids in waits.items() if len(ids) > 1 and share_events(ids)}
    together = {key for dag_id in waits.keys() - mixed.keys() for key in waits[dag_id]}
    malformed: set[str] = set()
    rows = read_assets(together, malformed=malformed)
    found: dict[str, Mapping[str, Assets]] = {
        dag_id: {key: rows[key] for key in ids if key in rows}
        for dag_id, ids in waits.items()
        if dag_id not in mixed and not ids & malformed
    }
    for dag_id, ids in mixed.items():
        try:
            found[dag_id] = read_assets_at_one_moment(ids)
        except (MalformedRowError, TransientError):
            log.warning("assets of a DAG cannot be read", extra={"dag_id": dag_id}, exc_info=True)
    return found


def share_events(ids: Iterable[str]) -> bool:
    """Return whether one event may be under several of the ids: one is an alias or a URI."""
    return any(":" in key for key in ids)


def ids_of(condition: Any) -> set[str]:
    """Return the assets of a condition as stored on a DAG's row."""
    leaves = decode_on_ids(condition).leaves()
    return {leaf.asset_id for leaf in leaves if isinstance(leaf, AssetId)}


def is_met(condition: Any, pending: Collection[str]) -> bool:
    """Return whether the assets with pending events satisfy the condition."""

    def has_events(leaf: AssetLeaf) -> bool:
        return isinstance(leaf, AssetId) and leaf.asset_id in pending

    # Always evaluated, so that an unreadable condition is noticed.
    return decode_on_ids(condition).holds(has_events) and bool(pending)
