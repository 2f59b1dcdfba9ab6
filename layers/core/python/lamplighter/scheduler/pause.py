"""Pausing and un-pausing a DAG."""

from collections.abc import Callable, Sequence

from pendulum import DateTime

from lamplighter import clock, queues
from lamplighter.errors import TransientError
from lamplighter.scheduler import cursor, foretold
from lamplighter.scheduler.cursor import NothingForetold
from lamplighter.scheduler.pending import pending_of
from lamplighter.store.due import announcement
from lamplighter.store.models import Dags
from lamplighter.store.transactions import Cancelled, Write, change_dag, pauses, require_dag


def pause(dag_id: str) -> Dags:
    """Keep a DAG from getting runs; it leaves the due index in the same write."""

    def change(row: Dags) -> Sequence[Write] | None:
        if row.is_paused:
            return None
        row.is_paused = True
        return []

    return change_dag(dag_id, change) or require_dag(dag_id)


def unpause(dag_id: str) -> Dags:
    """Let a DAG have runs again; what it missed meanwhile is made up for only with catchup.

    Asset events are no different: without catchup all that are pending are dropped.
    """
    now = clock.now()

    def change(row: Dags) -> Sequence[Write] | None:
        if not row.is_paused:
            return None
        row.is_paused = False
        row.paused_because = row.failed_in_a_row = None
        _skip_what_was_missed(row, now)
        return [] if row.catchup else _drop_pending(row, now)

    row = _change_unless_moved(dag_id, change) or require_dag(dag_id)
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


def _drop_pending(row: Dags, now: DateTime) -> list[Write]:
    row.asset_since = None
    pending = pending_of([row])[row.dag_id]
    drops = [events.drop("dropped while paused", now) for events in pending.events.values()]
    # An event that comes at this moment is dropped with the others, or finds the DAG un-paused.
    return [*drops, *pending.unchanged()]


def _change_unless_moved(
    dag_id: str, change: Callable[[Dags], Sequence[Write] | None]
) -> Dags | None:
    """Change a DAG's row and what is pending for it; again if that moves at this moment."""
    for _ in pauses():
        try:
            return change_dag(dag_id, change)
        except Cancelled:
            continue
    raise TransientError(f"the assets of DAG {dag_id!r} are being changed; try again")
