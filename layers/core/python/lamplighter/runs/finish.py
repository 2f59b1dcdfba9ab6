"""Ends a run and frees its slot, in one transaction."""

from collections.abc import Sequence

from lamplighter import clock, queues
from lamplighter.store import runs as run_rows
from lamplighter.store.due import announcement, run_of
from lamplighter.store.models import Dags
from lamplighter.store.transactions import Cancelled, Write, change_dag, patiently


def finish_run(dag_id: str, run_key: str, *, state: str) -> bool:
    """Let a run be over; return False if it was over already.

    Freeing the slot puts the DAG back into the due index in the same write, and the DAG is
    announced to the claim, so that what waited for the slot gets it at once.
    """
    now = clock.now()

    def change(row: Dags) -> Sequence[Write]:
        _free_slot(row, run_key)
        _count_failures(row, state)
        return [run_rows.finish(dag_id, run_key, state=state, now=now)]

    try:
        row = change_dag(dag_id, change)
        if row is None:  # the DAG was deleted while its run lived
            patiently([run_rows.finish(dag_id, run_key, state=state, now=now)])
    except Cancelled:
        return False
    run_rows.log_move(dag_id, run_key, state)
    if row is not None:
        queues.announce_due(announcement(row))
    return True


def _free_slot(row: Dags, run_key: str) -> None:
    row.active = set(row.active or ()) - {run_key} or None
    waiting = {entry for entry in row.waiting or () if run_of(entry) != run_key}
    row.waiting = waiting or None


def _count_failures(row: Dags, state: str) -> None:
    if state == run_rows.SUCCESS:
        row.failed_in_a_row = None
    elif state == run_rows.FAILED:
        row.failed_in_a_row = (row.failed_in_a_row or 0) + 1
        if row.max_failed_in_a_row and row.failed_in_a_row >= row.max_failed_in_a_row:
            row.is_paused = True
            row.paused_because = f"{row.failed_in_a_row:.0f} runs failed in a row"
