"""Slots that no longer say what is true: found, and put right. No protocol here leaves any behind.

A row edited or deleted by hand, or a table restored to an earlier moment, can. Then a DAG waits for
runs that are over, or runs more of them than it may.

Owns: what a DAG's `active`, `waiting` and `waiting_for_past` must be, given its runs. Whoever ends
a run, or begins it again, writes the DAG's row too; so what is worked out from runs that were read
after the row holds if the row is written, or found, as it was read.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lamplighter import queues
from lamplighter.store.due import announcement, run_of, waiting_entry
from lamplighter.store.runs import unfinished_runs
from lamplighter.store.models import Dags, Runs
from lamplighter.store.runs import FINISHED, RUNNING
from lamplighter.store.dags import read_dag
from lamplighter.store.dags import change_dag
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
    rows = list(Dags.scan(consistent_read=True))
    suspects = [row for row in rows if sorted(listed[row.dag_id]) != sorted(_named(row))]
    # The scan and the index are of different moments: each suspect is looked at again, alone.
    found = (_drift_now(row.dag_id, listed[row.dag_id]) for row in suspects)
    return [drift for drift in found if drift is not None]


def _named(row: Dags) -> list[str]:
    """Return the runs that a DAG's row names, each as often as it does."""
    return [*(row.active or ()), *map(run_of, row.waiting or ()), *(row.waiting_for_past or ())]


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


def mend(drift: Drift) -> Drift | None:
    """Put the slots of a DAG right and let the claim look at it; return what was mended, if any."""
    mended: Drift | None = None

    def change(row: Dags) -> Sequence[Write] | None:
        nonlocal mended
        mended = _put_right(row, drift.lost)
        return None if mended is None else []

    row = change_dag(drift.dag_id, change)
    if row is not None and mended is not None:
        queues.announce_due(announcement(row))
        queues.send_submits((drift.dag_id, key) for key in mended.lost)
    return mended


def _put_right(row: Dags, others: Iterable[str]) -> Drift | None:
    """Assign the slots that a DAG's runs mean; `others` are runs that it may have overlooked."""
    active, waiting = set(row.active or ()), set(row.waiting or ())
    past = set(row.waiting_for_past or ())
    runs = _living(row.dag_id, {*_named(row), *others})
    # Of several places a run keeps the slot, or else its place among those that wait for one.
    kept = {entry for entry in waiting if run_of(entry) in runs and run_of(entry) not in active}
    placed = active | {run_of(entry) for entry in kept}
    kept_past = past & runs.keys() - placed
    lost = runs.keys() - placed - kept_past
    row.waiting_for_past = kept_past or None
    row.active = ((active & runs.keys()) | {k for k in lost if runs[k].state == RUNNING}) or None
    row.waiting = (
        kept | {waiting_entry(runs[k].queued_at, k) for k in lost if runs[k].state != RUNNING}
    ) or None
    dead = (active - runs.keys()) | {run_of(entry) for entry in waiting - kept}
    dead |= past - kept_past
    return Drift(row.dag_id, tuple(sorted(dead)), tuple(sorted(lost))) if dead or lost else None


def _living(dag_id: str, keys: Collection[str]) -> dict[str, Runs]:
    """Return the runs that exist, are not over, and have no slot of a backfill."""
    found = Runs.batch_get([(dag_id, key) for key in keys], consistent_read=True) if keys else ()
    return {run.run_key: run for run in found if run.state not in FINISHED and run.slot_backfill_id is None}
