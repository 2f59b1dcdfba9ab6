"""Finds and repairs slots of DAGs, backfills and limits that do not match their runs.

Lamplighter itself leaves none behind, but manual edits, deleted rows or a restored table can. Then
a DAG or a backfill waits for runs that are over, or runs too many.

Every start or end of a run also writes the DAG's row. So a repair computed from runs that were read
after the row is valid if the row is unchanged.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lamplighter import clock, queues
from lamplighter.store import limits, slots
from lamplighter.store.backfills import backfills_of, change_backfill, read_backfill, release_dead
from lamplighter.store.dags import all_dags, change_dag, read_dag
from lamplighter.store.models import Backfills, Dags, Limits, Runs
from lamplighter.store.runs import FINISHED, RUNNING, read_runs, unfinished_runs
from lamplighter.store.slots import announcement
from lamplighter.store.transactions import Write, retry_attempts


@dataclass(frozen=True)
class Drift:
    """Differences between the slots of a DAG and its runs, by run key."""

    dag_id: str
    # Runs that hold a slot or wait although they are over or deleted, or that are listed twice.
    dead: tuple[str, ...]
    # Unfinished runs that are not listed.
    lost: tuple[str, ...]


def find_drift() -> list[Drift]:
    """Return the DAGs whose slots are wrong; reads all DAGs and all unfinished runs."""
    # Runs first: a run that begins later is then not missing from an older row.
    listed: dict[str, set[str]] = defaultdict(set)
    for run in unfinished_runs():
        listed[run.dag_id].add(run.run_key)
    rows = all_dags()
    suspects = [row for row in rows if sorted(listed[row.dag_id]) != sorted(slots.named_runs(row))]
    # Scan and index differ in time, so each suspect is checked again.
    found = (_drift_now(row.dag_id, listed[row.dag_id]) for row in suspects)
    return [drift for drift in found if drift is not None]


def _drift_now(dag_id: str, listed: Collection[str]) -> Drift | None:
    """Return what is wrong with a DAG's slots, if its row has not changed meanwhile."""
    row = read_dag(dag_id)
    for _ in retry_attempts():
        if row is None:
            return None
        drift = _put_right(row, listed)
        again = read_dag(dag_id)
        if again is not None and again.rev == row.stored["rev"]:
            return drift
        row = again
    return None  # it changes all the time, so its writers keep its slots right


def repair_dag(drift: Drift) -> Drift | None:
    """Repair the slots of a DAG and have it claimed; return what was repaired, if anything."""
    repaired: Drift | None = None

    def change(row: Dags) -> Sequence[Write] | None:
        nonlocal repaired
        repaired = _put_right(row, drift.lost)
        return None if repaired is None else []

    row = change_dag(drift.dag_id, change)
    if row is not None and repaired is not None:
        queues.announce_due(announcement(row))
        queues.send_submits((drift.dag_id, key) for key in repaired.lost)
    return repaired


def _put_right(row: Dags, others: Iterable[str]) -> Drift | None:
    """Assign the slots that a DAG's runs need; `others` are runs that may be missing."""
    runs = _living(row.dag_id, {*slots.named_runs(row), *others})
    running = {key for key, run in runs.items() if run.state == RUNNING}
    queued = {key: run.queued_at for key, run in runs.items() if run.state != RUNNING}
    dead, lost = slots.correct(row, running=running, queued=queued)
    return Drift(row.dag_id, tuple(sorted(dead)), tuple(sorted(lost))) if dead or lost else None


def _living(dag_id: str, keys: Collection[str]) -> dict[str, Runs]:
    """Return the unfinished runs without a slot of a backfill."""
    found = read_runs((dag_id, key) for key in keys)
    return {
        run.run_key: run
        for run in found
        if run.state not in FINISHED and run.slot_backfill_id is None
    }


# Slots of backfills.


@dataclass(frozen=True)
class BackfillDrift:
    """Slots of a backfill whose runs are over or deleted."""

    backfill_id: str
    dead: tuple[str, ...]


def find_backfill_drift() -> list[BackfillDrift]:
    """Return the backfills with wrong slots; reads all that hold any, and their runs."""
    rows = backfills_of(all_dags(with_backfills=True))
    # Rows and runs were read at different times, so each suspect is checked again.
    suspects = [row for row in rows if row.active and _dead(row)]
    found = (_backfill_drift_now(row.backfill_id) for row in suspects)
    return [drift for drift in found if drift is not None]


def _backfill_drift_now(backfill_id: str) -> BackfillDrift | None:
    """Return what is wrong with a backfill, if its row has not changed meanwhile."""
    row = read_backfill(backfill_id)
    dead = () if row is None else _dead(row)
    again = read_backfill(backfill_id)
    if not dead or row is None or again is None or again.rev != row.rev:
        return None
    return BackfillDrift(backfill_id, tuple(sorted(dead)))


def repair_backfill(drift: BackfillDrift) -> BackfillDrift | None:
    """Free the slots of finished runs and continue the backfill; return what was repaired."""
    repaired: BackfillDrift | None = None

    def change(row: Backfills) -> Sequence[Write] | None:
        nonlocal repaired
        dead = _dead(row)
        repaired = BackfillDrift(row.backfill_id, tuple(sorted(dead))) if dead else None
        release_dead(row, dead)
        return [] if dead else None

    change_backfill(drift.backfill_id, change, now=clock.now())
    if repaired is not None:
        queues.send_backfills([drift.backfill_id])
    return repaired


def _dead(row: Backfills) -> set[str]:
    """Return the runs with a slot of a backfill that are over, deleted, or not its own."""
    keys = set(row.active or ())
    runs = read_runs((row.dag_id, key) for key in keys)
    living = (run for run in runs if run.state not in FINISHED)
    return keys - {run.run_key for run in living if run.slot_backfill_id == row.backfill_id}


# Pools and capacities.


@dataclass(frozen=True)
class LimitDrift:
    """A counter of which more or less is free than its steps leave, by resource."""

    limit_id: str
    recorded: Mapping[str, float]
    actual: Mapping[str, float]


def find_limit_drift() -> list[LimitDrift]:
    """Return the limits that are wrong; reads all steps."""
    before = {row.limit_id: row for row in limits.all_counters()}
    held = limits.held_by_steps()
    # A limit that changes meanwhile is used, and kept right by those who use it.
    same = [row for row in limits.all_counters() if _is_same(row, before.get(row.limit_id))]
    found = (_limit_drift(row, held) for row in same)
    return [drift for drift in found if drift is not None]


def _is_same(row: Limits, before: Limits | None) -> bool:
    return before is not None and row.attribute_values == before.attribute_values


def _limit_drift(row: Limits, held: Mapping[str, Mapping[str, float]]) -> LimitDrift | None:
    actual = limits.minus(row.sizes, held.get(row.limit_id, {}))
    recorded = limits.free_of(row)
    return LimitDrift(row.limit_id, recorded, actual) if recorded != actual else None


def repair_limit(drift: LimitDrift) -> LimitDrift | None:
    """Correct a limit and start what waits for it; return what was repaired, if anything."""
    row = limits.read_limit(drift.limit_id)
    if (
        row is None
        or limits.free_of(row) != drift.recorded
        or not limits.set_free(row, drift.actual)
    ):
        return None
    queues.send_start(drift.limit_id)
    return drift
