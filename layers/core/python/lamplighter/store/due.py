"""Whether a DAG is in the due index, and under which instant. Pure; used by every writer.

The key is the earliest instant at which a run may be created or released: the next run of the
timetable, an asset condition that is met, a run that waits for a slot. A DAG is in the index while
it may have runs and has a free slot. Nothing else decides about the index.
"""

import zlib
from typing import NamedTuple

from pendulum import DateTime

from lamplighter.store.models.dags import Dags
from lamplighter.store.slots import free_slots, oldest_waiting, slots_for_schedule


class Entry(NamedTuple):
    """The two attributes of the index; without a shard the DAG is not in it."""

    next_run_create_after: DateTime | None
    due_shard: int | None


def index_entry(row: Dags, *, shards: int) -> Entry:
    """Return the index entry that a DAG's row must have."""
    is_held_up = row.waiting_for_past and not slots_for_schedule(row)
    scheduled = None if is_held_up else row.next_run_after
    reasons = (scheduled, row.asset_condition_met_at, oldest_waiting(row))
    key = min((instant for instant in reasons if instant is not None), default=None)
    is_member = key is not None and is_open(row) and free_slots(row) > 0
    return Entry(key, shard_of(row.dag_id, shards) if is_member else None)


def announcement(row: Dags) -> list[tuple[str, DateTime]]:
    """Return when a DAG should be claimed after this write; empty if never."""
    at = row.next_run_create_after
    return [] if row.due_shard is None or at is None else [(row.dag_id, at)]


def is_open(row: Dags) -> bool:
    """Return whether the DAG may have runs at all."""
    return not (row.is_paused or row.is_stale or row.has_import_errors)


def shard_of(dag_id: str, shards: int) -> int:
    """Return the shard of a DAG, the same in every process."""
    return zlib.crc32(dag_id.encode()) % shards
