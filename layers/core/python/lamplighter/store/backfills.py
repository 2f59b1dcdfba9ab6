"""Rows of backfills: states, slots, planned dates.

Owns: when a backfill is over, and whether it is in the due index. Runs of a backfill use its slots
and none of the DAG's, so neither waits for the other.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from pendulum import DateTime

from lamplighter import runtime, settings
from lamplighter.errors import PermanentError, RefusedError, TransientError
from lamplighter.store import wire
from lamplighter.store.models import Backfills, Dags, Runs
from lamplighter.store.runs import CANCELLED, FAILED, SUCCESS
from lamplighter.store.slots import shard_of
from lamplighter.store.transactions import (
    Cause,
    Change,
    Put,
    TransactionCanceled,
    Write,
    sleep_with_jitter,
    transact_with_retry,
)

__all__ = ["CANCELLED", "COMPLETED", "OPEN", "PAUSED", "RUNNING"]

RUNNING, PAUSED, COMPLETED = "running", "paused", "completed"
OPEN = frozenset({RUNNING, PAUSED})
# Dates per row: 2,000 are about 20 KB compressed.
_PER_ROW = 2_000
_MAX_PASSED_OVER = 100
_TRIES = 24
_MARK = "-"

Dates = Sequence[dict[str, str | None]]


# Slots and states: assign only.


def free_slots(row: Backfills) -> int:
    """Return how many more runs may be active."""
    return max(0, int(row.max_active_runs) - len(row.active or ()))


def left(row: Backfills) -> int:
    """Return how many planned runs are left."""
    return int(row.total) - int(row.position)


def may_begin(row: Backfills | None) -> bool:
    """Return whether a run with a slot may begin; always, if the backfill was deleted."""
    return row is None or row.state in {RUNNING, COMPLETED}


def has_to_end(row: Backfills | None, *, is_queued: bool) -> bool:
    """Return whether a run of it must be cancelled."""
    return (
        row is not None and row.state == CANCELLED and (is_queued or bool(row.cancels_running_runs))
    )


def occupy(row: Backfills, run_keys: Iterable[str]) -> None:
    """Give each run a slot."""
    row.active = set(row.active or ()) | set(run_keys) or None


def release_dead(row: Backfills, run_keys: AbstractSet[str]) -> None:
    """Free the slots of runs that are over or deleted, without counting their results."""
    row.active = set(row.active or ()) - run_keys or None
    row.cancelled += len(run_keys)


def end_run(row: Backfills, run: Runs) -> None:
    """Count a run that has just finished, and free its slot."""
    if run.run_key not in (row.active or ()):
        return
    row.active = set(row.active or ()) - {run.run_key} or None
    row.succeeded += run.state == SUCCESS
    row.failed += run.state == FAILED
    row.cancelled += run.state == CANCELLED
    if run.started_at is not None:
        row.seconds = (row.seconds or 0) + (run.ended_at - run.started_at).total_seconds()
    if run.cost is not None:
        row.cost = (row.cost or 0) + run.cost
    if run.unbilled_jobs:
        row.unbilled_runs = (row.unbilled_runs or 0) + 1
        row.last_unbilled_at = run.ended_at


def add_late_cost(row: Backfills, cost: float, *, is_run_complete: bool) -> None:
    """Add what a job of a finished run cost; the run may have other jobs that are not billed."""
    row.cost = (row.cost or 0) + cost
    if is_run_complete:
        row.unbilled_runs = max(0, (row.unbilled_runs or 0) - 1) or None


def awaits_bills(row: Backfills, now: DateTime) -> bool:
    """Return whether jobs of finished runs may still be billed."""
    if not row.unbilled_runs or row.last_unbilled_at is None:
        return False
    return now < row.last_unbilled_at.add(hours=settings.current().cost_wait_hours)


def pass_over(row: Backfills, passed: Iterable[tuple[str, str]]) -> None:
    """Note planned runs that are not needed, with the reasons."""
    new = [list(each) for each in passed]
    if new:
        row.passed += len(new)
        row.skipped_runs = [*(row.skipped_runs or ()), *new][-_MAX_PASSED_OVER:]


def backfill_write(row: Backfills, *, now: DateTime) -> Put | Change:
    """Return the write of everything assigned, on condition that `rev` is unchanged.

    State and index entry are derived here, in the same write.
    """
    if row.state in OPEN and not left(row) and not row.active:
        row.state, row.reason, row.ended_at = COMPLETED, None, now
    is_due = row.state == RUNNING and left(row) > 0 and free_slots(row) > 0
    if not is_due:
        row.next_run_create_after = row.due_shard = None
    elif row.due_shard is None:
        row.next_run_create_after = now
        row.due_shard = shard_of(row.backfill_id, settings.current().run_shards)
    if not row.is_stored:
        row.rev = 1
        return Put(row)
    row.rev = row.stored["rev"] + 1
    return Change(row, ("rev",))


# Reading and changing.


def read_backfill(backfill_id: str) -> Backfills | None:
    """Return a backfill, or None."""
    try:
        return Backfills.get(backfill_id, consistent_read=True)
    except Backfills.DoesNotExist:
        return None


def read_backfills(backfill_ids: Iterable[str]) -> dict[str, Backfills]:
    """Return the backfills that exist, by id."""
    ids = sorted(set(backfill_ids))
    rows = Backfills.batch_get(ids, consistent_read=True) if ids else ()
    return {row.backfill_id: row for row in rows}


def due_backfills(shard: int, until: DateTime) -> Iterator[str]:
    """Yield the backfills of one shard that may create runs, oldest first."""
    items = wire.query_shard(Backfills, "due", ("due_shard", "next_run_create_after"), shard, until)
    return (item["backfill_id"]["S"] for item in items)


def change_backfill(
    backfill_id: str,
    change: Callable[[Backfills], Sequence[Write] | None],
    *,
    now: DateTime,
    row: Backfills | None = None,
) -> Backfills:
    """Change a backfill and other rows in one transaction; return the new state.

    `change` assigns and returns the other writes, or None if there is nothing to do; it is called
    again if the row has changed. If another write is refused, `TransactionCanceled` is raised.
    """
    row = row or read_backfill(backfill_id)
    for _ in range(_TRIES):
        if row is None:
            raise RefusedError(f"there is no backfill {backfill_id!r}")
        others = change(row)
        if others is None:
            return row
        try:
            transact_with_retry([*others, backfill_write(row, now=now)])
        except TransactionCanceled as cancelled:
            *reasons, own = cancelled.reasons
            if any(reason.cause is Cause.CONDITION_FAILED for reason in reasons):
                raise
            row = own.row
            sleep_with_jitter()
        else:
            return row
    raise TransientError(f"backfill {backfill_id!r} is contended; try again")


# Ids: <dag_id>-<number>.


def next_id(dag: Dags) -> str:
    """Return the id of a DAG's next backfill."""
    return f"{dag.dag_id}{_MARK}{_number(dag) + 1}"


def _number(dag: Dags) -> int:
    return int(dag.backfill.rpartition(_MARK)[2]) if dag.backfill else 0


def backfills_of(dags: Iterable[Dags]) -> list[Backfills]:
    """Return all backfills of DAGs, newest first."""
    ids = [f"{dag.dag_id}{_MARK}{at}" for dag in dags for at in range(1, _number(dag) + 1)]
    rows = read_backfills(ids)
    # Those of the same instant are ordered by number.
    made = [rows[each] for each in reversed(ids) if each in rows]
    return sorted(made, key=lambda row: row.created_at, reverse=True)


def newest_of(dag: Dags) -> Backfills | None:
    """Return a DAG's newest backfill."""
    return read_backfill(dag.backfill) if dag.backfill else None


# Dates.


def date_rows(backfill_id: str, dates: Dates) -> list[Backfills]:
    """Return the rows that hold the planned dates."""
    return [
        Backfills(
            _row_id(backfill_id, at),
            dates=gzip.compress(json.dumps(dates[at : at + _PER_ROW]).encode(), mtime=0),
        )
        for at in range(0, len(dates), _PER_ROW)
    ]


def _row_id(backfill_id: str, at: int) -> str:
    return f"{backfill_id}#{at // _PER_ROW}"


def planned_dates(row: Backfills, *, first: int, limit: int) -> list[dict[str, Any]]:
    """Return at most `limit` planned dates from a position on, of one row."""
    if first >= row.total:
        return []
    found = _dates(_row_id(row.backfill_id, first))
    begin = first % _PER_ROW
    return list(found[begin : begin + limit])


# They never change.
@runtime.cached(maxsize=16)
def _dates(row_id: str) -> Sequence[dict[str, Any]]:
    found = read_backfill(row_id)
    if found is None or found.dates is None:
        raise PermanentError(f"the dates of backfill {row_id.partition('#')[0]!r} were deleted")
    dates: list[dict[str, Any]] = json.loads(gzip.decompress(found.dates))
    return dates
