"""Ends runs without executing them: for tests of what comes before and after."""

from lamplighter import clock, queues
from lamplighter.errors import TransientError
from lamplighter.runs.states import end_run
from lamplighter.store import runs as run_rows
from lamplighter.store.backfills import backfill_write, read_backfill
from lamplighter.store.dags import dag_write, read_dag
from lamplighter.store.models import Runs
from lamplighter.store.slots import announcement
from lamplighter.store.transactions import (
    Change,
    TransactionCanceled,
    Write,
    retry_attempts,
    transact,
)


def finish_run(dag_id: str, run_key: str, *, state: str) -> bool:
    """Let a run be over, whatever its steps; return False if it was over, or never was."""
    for _ in retry_attempts():
        try:
            run, row = Runs.get(dag_id, run_key, consistent_read=True), read_dag(dag_id)
        except Runs.DoesNotExist:
            return False
        if run.state in run_rows.FINISHED:
            return False
        backfill = None if run.slot_backfill_id is None else read_backfill(run.slot_backfill_id)
        end_run(run, row, state, now=clock.now(), backfill=backfill)
        run.rev = run.stored["rev"] + 1
        writes: list[Write] = [Change(run, ("rev",))]
        writes += [dag_write(row)] if row is not None else []
        writes += [backfill_write(backfill, now=clock.now())] if backfill is not None else []
        try:
            transact(writes)
        except TransactionCanceled:
            continue
        if row is not None:
            queues.announce_due(announcement(row))
        if backfill is not None and backfill.due_shard is not None:
            queues.send_backfills([backfill.backfill_id])
        return True
    raise TransientError(f"run {run_key} of DAG {dag_id!r} is being changed by too many at once")
