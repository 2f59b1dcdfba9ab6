"""Slots of DAGs and backfills that no longer say what is true: found, and put right.

No protocol here leaves any behind. A row edited or deleted by hand, or a table restored to an
earlier moment, can. Then a DAG or a backfill waits for runs that are over, or runs too many.

Whoever ends a run, or begins it again, writes the DAG's row too; so what is worked out from runs
that were read after the row holds if the row is written, or found, as it was read.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lamplighter import clock, queues
from lamplighter.store import slots
from lamplighter.store.backfills import backfills_of, change_backfill, read_backfill, release_dead
from lamplighter.store.dags import all_dags, change_dag, read_dag
from lamplighter.store.models import Backfills, Dags, Runs
from lamplighter.store.runs import FINISHED, RUNNING, read_runs, unfinished_runs
from lamplighter.store.slots import announcement
from lamplighter.store.transactions import Write, retry_attempts


@dataclass(frozen=True)
class Drift:
    """How the slots of a DAG differ from its runs, by the keys of these."""

    dag_id: str
    # Runs that occupy a slot, or wait for one or for their past, and are over or gone, or that do
    # more than one of these.
    dead: tuple[str, ...]
    # Runs that are not over, and do none of these.
    lost: tuple[str, ...]


def find_drift() -> list[Drift]:
    """Return the DAGs whose slots are wrong; reads all DAGs and all runs that are not over."""
    # Runs first: one that begins after that is not missed in a row that was read before.
    listed: dict[str, set[str]] = defaultdict(set)
    for run in unfinished_runs():
        listed[run.dag_id].add(run.run_key)
    rows = all_dags()
    suspects = [row for row in rows if sorted(listed[row.dag_id]) != sorted(slots.named_runs(row))]
    # The scan and the index are of different moments: each suspect is looked at again, alone.
    found = (_drift_now(row.dag_id, listed[row.dag_id]) for row in suspects)
    return [drift for drift in found if drift is not None]


def _drift_now(dag_id: str, listed: Collection[str]) -> Drift | None:
    """Return how a DAG's slots are wrong, if they are and its row has not changed meanwhile."""
    row = read_dag(dag_id)
    for _ in retry_attempts():
        if row is None:
            return None
        drift = _put_right(row, listed)
        again = read_dag(dag_id)
        if again is not None and again.rev == row.stored["rev"]:
            return drift
        row = again
    return None  # it is alive, and whoever changes it so often knows its slots


def repair_dag(drift: Drift) -> Drift | None:
    """Put the slots of a DAG right and let the claim look at it; return what was mended, if any."""
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
    """Assign the slots that a DAG's runs mean; `others` are runs that it may have overlooked."""
    runs = _living(row.dag_id, {*slots.named_runs(row), *others})
    running = {key for key, run in runs.items() if run.state == RUNNING}
    queued = {key: run.queued_at for key, run in runs.items() if run.state != RUNNING}
    dead, lost = slots.correct(row, running=running, queued=queued)
    return Drift(row.dag_id, tuple(sorted(dead)), tuple(sorted(lost))) if dead or lost else None


def _living(dag_id: str, keys: Collection[str]) -> dict[str, Runs]:
    """Return the runs that exist, are not over, and have no slot of a backfill."""
    found = read_runs((dag_id, key) for key in keys)
    return {
        run.run_key: run
        for run in found
        if run.state not in FINISHED and run.slot_backfill_id is None
    }


# Slots of backfills.


@dataclass(frozen=True)
class BackfillDrift:
    """The slots of a backfill whose runs are over or gone."""

    backfill_id: str
    dead: tuple[str, ...]


def find_backfill_drift() -> list[BackfillDrift]:
    """Return the backfills with such slots; reads all that occupy any, and their runs."""
    rows = backfills_of(all_dags(with_backfills=True))
    # Rows and runs were read at different moments: each suspect is looked at again, alone.
    suspects = [row for row in rows if row.active and _dead(row)]
    found = (_backfill_drift_now(row.backfill_id) for row in suspects)
    return [drift for drift in found if drift is not None]


def _backfill_drift_now(backfill_id: str) -> BackfillDrift | None:
    """Return what is wrong with a backfill, if its row has not changed while its runs were read."""
    row = read_backfill(backfill_id)
    dead = () if row is None else _dead(row)
    again = read_backfill(backfill_id)
    if not dead or row is None or again is None or again.rev != row.rev:
        return None
    return BackfillDrift(backfill_id, tuple(sorted(dead)))


def repair_backfill(drift: BackfillDrift) -> BackfillDrift | None:
    """Free the slots whose runs are over, and let the backfill go on; return what was mended."""
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
    """Return the runs that occupy a slot of a backfill, and are over, gone, or no longer its."""
    keys = set(row.active or ())
    runs = read_runs((row.dag_id, key) for key in keys)
    living = (run for run in runs if run.state not in FINISHED)
    return keys - {run.run_key for run in living if run.slot_backfill_id == row.backfill_id}
