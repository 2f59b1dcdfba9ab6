"""What must be true of backfills: their runs are those planned, each once, never too many."""

from collections import Counter
from collections.abc import Iterator, Mapping

from lamplighter.backfill.plan import key_of
from lamplighter.scheduler.schedules import run_from_json
from lamplighter.store import runs as run_rows
from lamplighter.store.backfills import (
    COMPLETED,
    OPEN,
    RUNNING,
    free_slots,
    left,
    planned_dates,
)
from lamplighter.store.models import Backfills, Runs


def backfill_violations(runs: Mapping[str, list[Runs]]) -> Iterator[str]:
    """Yield what is wrong with backfills and their runs."""
    rows = [row for row in Backfills.scan(consistent_read=True) if row.dates is None]
    known = {row.backfill_id for row in rows}
    for row in rows:
        own = [run for run in runs.get(row.dag_id, ()) if run.backfill_id == row.backfill_id]
        planned = _of_plan(row, runs.get(row.dag_id, []))
        checks = (_of_slots(row, own), _of_index(row), _of_counts(row), planned)
        for check in checks:
            for text in check:
                yield f"backfill {row.backfill_id}: {text}"
    open_ones = Counter(row.dag_id for row in rows if row.state in OPEN)
    for dag_id, count in open_ones.items():
        if count > 1:
            yield f"DAG {dag_id} has {count} open backfills"
    for run in (run for each in runs.values() for run in each):
        owner = run.slot_backfill_id
        if owner is not None and owner not in known:
            yield f"run {run.run_key} of DAG {run.dag_id} has a slot of no backfill {owner}"


def _of_slots(row: Backfills, own: list[Runs]) -> Iterator[str]:
    active = set(row.active or ())
    living = {
        run.run_key
        for run in own
        if run.slot_backfill_id == row.backfill_id and run.state not in run_rows.FINISHED
    }
    if active != living:
        yield f"its slots are of {sorted(active)}, but {sorted(living)} live"
    if over := sorted(
        run.run_key for run in own if run.state in run_rows.FINISHED and run.slot_backfill_id
    ):
        yield f"runs that are over have slots: {over}"
    if len(active) > row.max_active_runs:
        yield f"{len(active)} active runs where {row.max_active_runs:.0f} are allowed"


def _of_index(row: Backfills) -> Iterator[str]:
    is_due = row.state == RUNNING and left(row) > 0 and free_slots(row) > 0
    if is_due != (row.due_shard is not None) or is_due != (row.next_run_create_after is not None):
        yield f"it is {'due' if is_due else 'not due'}, and the index says otherwise"
    if (row.state in OPEN) == (row.ended_at is not None):
        yield f"it is {row.state} and ended at {row.ended_at}"
    if row.state == COMPLETED and (left(row) or row.active):
        yield "it is completed, and not everything is over"
    if row.state in OPEN and not left(row) and not row.active:
        yield f"everything is over, and it is {row.state}"


def _of_counts(row: Backfills) -> Iterator[str]:
    over = row.succeeded + row.failed + row.cancelled + row.passed
    if over + len(row.active or ()) != row.position:
        yield f"{row.position:.0f} dates had their turn, of which {over:.0f} are over"


def _of_plan(row: Backfills, runs: list[Runs]) -> Iterator[str]:
    """Check that each date that had its turn has its run, and that no other date has one."""
    by_key = {run.run_key: run for run in runs}
    keys: list[str] = []
    while len(keys) < row.total:
        found = planned_dates(row, first=len(keys), limit=int(row.total))
        keys += [key_of(run_from_json(each)) for each in found]
    if twice := [key for key, count in Counter(keys).items() if count > 1]:
        yield f"planned twice: {twice}"
    passed = {key for key, _ in row.skipped_runs or ()}
    for ordinal, key in enumerate(keys[: int(row.position)], start=1):
        run = by_key.get(key)
        if run is None:
            yield f"no run for {key}, whose turn it was"
        elif run.backfill_id == row.backfill_id and run.backfill_ordinal != ordinal:
            yield f"run {key} is number {run.backfill_ordinal}, and was planned as {ordinal}"
        elif run.backfill_id is None and key not in passed:
            yield f"run {key} is not the backfill's, and was not passed over"
    had_turn = set(keys[: int(row.position)])
    strange = [
        run.run_key
        for run in runs
        if run.backfill_id == row.backfill_id and run.run_key not in had_turn
    ]
    if strange:
        yield f"runs whose turn it never was: {sorted(strange)}"
