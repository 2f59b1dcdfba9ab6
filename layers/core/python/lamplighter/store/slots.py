"""Slots of a DAG, and its entry in the due index, which follows from them.

Owns: the columns `active`, `waiting`, `waiting_for_past` and `served_run_types` of a DAG's row,
which nobody else assigns, and the key of the index: the earliest instant at which something may
create or release a run. Pure: these functions read and assign, and write nothing.
"""

import zlib
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from pendulum import DateTime

from lamplighter.identifiers import FREE_TEXT
from lamplighter.store.models.dags import Dags
from lamplighter.store.rows import Instant, instant_text

_INSTANT = Instant()


# Counting.


def free_slots(row: Dags) -> int:
    """Return the number of free slots; the limit may have been lowered."""
    return max(0, int(row.max_active_runs) - len(row.active or ()))


def slots_for_schedule(row: Dags) -> int:
    """Return how many more runs the schedule may create.

    Runs that wait for the previous run hold no slot but count here: otherwise a failed run would be
    followed by a waiting run for every date.
    """
    return max(0, free_slots(row) - len(row.waiting_for_past or ()))


# Entries of `waiting`.


def waiting_entry(since: DateTime, run_key: str) -> str:
    """Return the entry of a waiting run; entries sort by the start of waiting."""
    return f"{instant_text(since)}|{run_key}"


def run_of(entry: str) -> str:
    """Return the run key of an entry of `waiting`."""
    return entry.partition("|")[2]


def by_logical_date(entry: str) -> tuple[str, str]:
    """Return the sort key of a waiting run; custom ids have no date."""
    since, _, run_key = entry.partition("|")
    return (since if run_key.startswith(FREE_TEXT) else run_key, run_key)


def oldest_waiting(row: Dags) -> DateTime | None:
    """Return since when the first run in the queue has been waiting."""
    return _INSTANT.deserialize(min(row.waiting)) if row.waiting else None


# Looking up a run.


def named_runs(row: Dags) -> list[str]:
    """Return the runs that hold a slot or wait, as often as the row lists them."""
    return [*(row.active or ()), *map(run_of, row.waiting or ()), *(row.waiting_for_past or ())]


def holds_slot(row: Dags, run_key: str, *, is_running: bool) -> bool:
    """Return whether a run holds a slot: a running one does unless it is listed as waiting."""
    return run_key in (row.active or ()) or (is_running and run_key not in named_runs(row))


def waits_for_past(row: Dags, run_key: str) -> bool:
    """Return whether a run has given its slot back to wait for the previous run."""
    return run_key in (row.waiting_for_past or ())


# Moving runs.


def occupy(row: Dags, run_keys: Iterable[str]) -> None:
    """Give each run a slot."""
    row.active = set(row.active or ()) | set(run_keys) or None


def wait_for_slot(row: Dags, run_key: str, *, since: DateTime) -> None:
    """Queue a run until a claim gives it a slot."""
    row.waiting = set(row.waiting or ()) | {waiting_entry(since, run_key)}


def stop_waiting(row: Dags, entries: Iterable[str]) -> None:
    """Remove entries of `waiting`: their runs get a slot, or need none."""
    row.waiting = set(row.waiting or ()) - set(entries) or None


def give_back(row: Dags, run_key: str) -> None:
    """Free the slot of a run that cannot continue until the previous run is repaired.

    Otherwise the previous run could never be retried. The run is not added to `waiting`, as the
    claim would give it a slot at once.
    """
    if run_key in (row.active or ()):
        row.active = set(row.active or ()) - {run_key} or None
        row.waiting_for_past = set(row.waiting_for_past or ()) | {run_key}


def queue_again(row: Dags, run_key: str, *, now: DateTime) -> None:
    """Queue a run that gave its slot back, because the previous run no longer blocks it."""
    row.waiting_for_past = set(row.waiting_for_past or ()) - {run_key} or None
    wait_for_slot(row, run_key, since=now)


def release(row: Dags, run_key: str) -> None:
    """Free the slot or queue entry of a finished run."""
    row.active = set(row.active or ()) - {run_key} or None
    row.waiting_for_past = set(row.waiting_for_past or ()) - {run_key} or None
    row.waiting = {entry for entry in row.waiting or () if run_of(entry) != run_key} or None


def remember_served(row: Dags, run_types: AbstractSet[str]) -> None:
    """Record which run types have had a slot in this round."""
    row.served_run_types = set(run_types) or None


# Repairing manual edits.


class Corrections(NamedTuple):
    """Runs whose entries were wrong: those that need none, and those that had none."""

    dead: Collection[str]
    lost: Collection[str]


def correct(row: Dags, *, running: AbstractSet[str], queued: dict[str, DateTime]) -> Corrections:
    """Assign the slots that a DAG's unfinished runs need, and return what was wrong.

    `running` are keys of running runs, `queued` those of queued runs with the start of waiting.
    """
    active, waiting = set(row.active or ()), set(row.waiting or ())
    past = set(row.waiting_for_past or ())
    alive = running | queued.keys()
    # A run with several entries keeps its slot, else its entry in `waiting`.
    kept = {entry for entry in waiting if run_of(entry) in alive and run_of(entry) not in active}
    placed = active | {run_of(entry) for entry in kept}
    kept_past = past & alive - placed
    lost = alive - placed - kept_past
    row.waiting_for_past = kept_past or None
    row.active = ((active & alive) | (lost & running)) or None
    row.waiting = kept | {waiting_entry(queued[key], key) for key in lost - running} or None
    dead = (active - alive) | {run_of(entry) for entry in waiting - kept} | (past - kept_past)
    return Corrections(dead, lost)


# The due index. Nothing else ever decides whether a DAG is in it.


class Entry(NamedTuple):
    """The two attributes of the index; without a shard the DAG is not in it."""

    next_run_create_after: DateTime | None
    due_shard: int | None


def index_entry(row: Dags, *, shards: int) -> Entry:
    """Return the index entry that a DAG's row must have."""
    is_held_up = row.waiting_for_past and not slots_for_schedule(row)
    scheduled = None if is_held_up else row.next_run_after
    # At the start date, events that came before it are considered.
    assets = row.asset_condition_met_at if row.asset_start_at is None else row.asset_start_at
    reasons = (scheduled, assets, oldest_waiting(row))
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
