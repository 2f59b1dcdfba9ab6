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


# How many there are.


def free_slots(row: Dags) -> int:
    """Return how many more runs may be active; the limit may have been lowered meanwhile."""
    return max(0, int(row.max_active_runs) - len(row.active or ()))


def slots_for_schedule(row: Dags) -> int:
    """Return how many more runs the schedule may create.

    Runs that wait for the run before occupy no slot, but count here: a run that failed would
    otherwise be followed by one waiting run for every date.
    """
    return max(0, free_slots(row) - len(row.waiting_for_past or ()))


# Entries of `waiting`.


def waiting_entry(since: DateTime, run_key: str) -> str:
    """Return how a waiting run is written: texts sort by the time they began to wait."""
    return f"{instant_text(since)}|{run_key}"


def run_of(entry: str) -> str:
    """Return the key of the run that a waiting entry names."""
    return entry.partition("|")[2]


def by_logical_date(entry: str) -> tuple[str, str]:
    """Return what waiting runs are sorted by; an id of free text says nothing about time."""
    since, _, run_key = entry.partition("|")
    return (since if run_key.startswith(FREE_TEXT) else run_key, run_key)


def oldest_waiting(row: Dags) -> DateTime | None:
    """Return since when the run that has waited longest for a slot is waiting."""
    return _INSTANT.deserialize(min(row.waiting)) if row.waiting else None


# Where a run is.


def named_runs(row: Dags) -> list[str]:
    """Return the runs that occupy a slot or wait, each as often as the row names it."""
    return [*(row.active or ()), *map(run_of, row.waiting or ()), *(row.waiting_for_past or ())]


def holds_slot(row: Dags, run_key: str, *, is_running: bool) -> bool:
    """Return whether a run occupies a slot: one that is running does unless the row has it wait."""
    return run_key in (row.active or ()) or (is_running and run_key not in named_runs(row))


def waits_for_past(row: Dags, run_key: str) -> bool:
    """Return whether a run has given its slot back."""
    return run_key in (row.waiting_for_past or ())


# Moving runs.


def occupy(row: Dags, run_keys: Iterable[str]) -> None:
    """Give runs a slot each."""
    row.active = set(row.active or ()) | set(run_keys) or None


def wait_for_slot(row: Dags, run_key: str, *, since: DateTime) -> None:
    """Let a run wait until the claim gives it a slot."""
    row.waiting = set(row.waiting or ()) | {waiting_entry(since, run_key)}


def stop_waiting(row: Dags, entries: Iterable[str]) -> None:
    """Take entries out of `waiting`: their runs get a slot, or need none any more."""
    row.waiting = set(row.waiting or ()) - set(entries) or None


def give_back(row: Dags, run_key: str) -> None:
    """Free the slot of a run that has nothing to do until the run before it is repaired.

    Otherwise the run before could never be tried again. It is not put among those that wait for a
    slot, since the claim would give it one at once.
    """
    if run_key in (row.active or ()):
        row.active = set(row.active or ()) - {run_key} or None
        row.waiting_for_past = set(row.waiting_for_past or ()) | {run_key}


def queue_again(row: Dags, run_key: str, *, now: DateTime) -> None:
    """Let a run that gave its slot back wait for one, because its past no longer keeps it."""
    row.waiting_for_past = set(row.waiting_for_past or ()) - {run_key} or None
    wait_for_slot(row, run_key, since=now)


def release(row: Dags, run_key: str) -> None:
    """Free the slot, or the place in line, of a run that is over."""
    row.active = set(row.active or ()) - {run_key} or None
    row.waiting_for_past = set(row.waiting_for_past or ()) - {run_key} or None
    row.waiting = {entry for entry in row.waiting or () if run_of(entry) != run_key} or None


def remember_served(row: Dags, run_types: AbstractSet[str]) -> None:
    """Note which types of run have had a slot in this round."""
    row.served_run_types = set(run_types) or None


# Repairing what someone edited by hand.


class Corrections(NamedTuple):
    """Runs whose place on a row was wrong: those that need none, and those that had none."""

    dead: Collection[str]
    lost: Collection[str]


def correct(row: Dags, *, running: AbstractSet[str], queued: dict[str, DateTime]) -> Corrections:
    """Assign the slots that a DAG's unfinished runs mean, and return what was wrong.

    `running` are keys of runs that have begun, `queued` of those that have not, and since when.
    """
    active, waiting = set(row.active or ()), set(row.waiting or ())
    past = set(row.waiting_for_past or ())
    alive = running | queued.keys()
    # Of several places a run keeps the slot, or else its place among those that wait for one.
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
    """The two attributes that the index is built on; without a shard the DAG is not in it."""

    next_run_create_after: DateTime | None
    due_shard: int | None


def index_entry(row: Dags, *, shards: int) -> Entry:
    """Return what a DAG's row must say, given everything else it says."""
    is_held_up = row.waiting_for_past and not slots_for_schedule(row)
    scheduled = None if is_held_up else row.next_run_after
    reasons = (scheduled, row.asset_condition_met_at, oldest_waiting(row))
    key = min((instant for instant in reasons if instant is not None), default=None)
    is_member = key is not None and is_open(row) and free_slots(row) > 0
    return Entry(key, shard_of(row.dag_id, shards) if is_member else None)


def announcement(row: Dags) -> list[tuple[str, DateTime]]:
    """Return when the claim should look at a DAG, as written just now; nothing if never."""
    at = row.next_run_create_after
    return [] if row.due_shard is None or at is None else [(row.dag_id, at)]


def is_open(row: Dags) -> bool:
    """Return whether the DAG may have runs at all."""
    return not (row.is_paused or row.is_stale or row.has_import_errors)


def shard_of(dag_id: str, shards: int) -> int:
    """Return the shard of a DAG, the same in every process."""
    return zlib.crc32(dag_id.encode()) % shards
