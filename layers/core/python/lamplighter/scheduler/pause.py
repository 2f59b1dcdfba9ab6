"""Pausing and un-pausing a DAG."""

from collections.abc import Sequence

from pendulum import DateTime

from lamplighter import clock, queues
from lamplighter.scheduler import cursor, foretold
from lamplighter.scheduler.cursor import NothingForetold
from lamplighter.store.due import announcement
from lamplighter.store.models import Dags
from lamplighter.store.transactions import Write, change_dag, require_dag


def pause(dag_id: str) -> Dags:
    """Keep a DAG from getting runs; it leaves the due index in the same write."""

    def change(row: Dags) -> Sequence[Write] | None:
        if row.is_paused:
            return None
        row.is_paused = True
        return []

    return change_dag(dag_id, change) or require_dag(dag_id)


def unpause(dag_id: str) -> Dags:
    """Let a DAG have runs again; what it missed meanwhile is made up for only with catchup."""
    now = clock.now()

    def change(row: Dags) -> Sequence[Write] | None:
        if not row.is_paused:
            return None
        row.is_paused = False
        row.paused_because = row.failed_in_a_row = None
        _skip_what_was_missed(row, now)
        return []

    row = change_dag(dag_id, change) or require_dag(dag_id)
    queues.announce_due(announcement(row))
    # Runs that were frozen in the middle go on.
    queues.send_submits((dag_id, key) for key in sorted(row.active or ()))
    return row


def _skip_what_was_missed(row: Dags, now: DateTime) -> None:
    stored = cursor.stored_next(row)
    if row.catchup or stored is None or stored.run_after > now or cursor.is_continuous(row):
        return
    outlook = foretold.outlooks_of([row]).get(row.dag_id) or cursor.rule_of(row)
    try:
        cursor.set_next(row, cursor.newest_due(outlook, stored, now=now))
    except NothingForetold:
        foretold.ask_for_more([row.dag_id])  # the claim decides when the answer is there
