"""What the end of a run changes, on it and on whoever gave it a slot. Assigns only."""

from pendulum import DateTime

from lamplighter.runs.moves import move_run
from lamplighter.store import backfills, slots
from lamplighter.store import runs as run_rows
from lamplighter.store.models import Backfills, Dags, Runs


def end_run(
    run: Runs,
    row: Dags | None,
    state: str,
    *,
    now: DateTime,
    backfill: Backfills | None = None,
) -> None:
    """Let a run be over; its free slot puts its owner back into the due index by the same write.

    A run that had a slot of a backfill leaves its DAG's row alone, also if it failed: what is done
    about the past neither pauses the present nor competes for its row.
    """
    move_run(run, state)
    run_rows.set_state_columns(run, now)
    run.target_state = None
    # Each decision raises `rev` by one, and a step's submission by one at most.
    run.submission_floor = run.rev
    if run.slot_backfill_id is not None:
        run.slot_backfill_id = None
        if backfill is not None:
            seconds = 0 if run.started_at is None else (now - run.started_at).total_seconds()
            backfills.end_run(backfill, run.run_key, state, cost=run.cost or 0, seconds=seconds)
    elif row is not None:
        slots.release(row, run.run_key)
        _count_failures(row, state)


def _count_failures(row: Dags, state: str) -> None:
    if state == run_rows.SUCCESS:
        row.consecutive_failed_runs = None
    elif state == run_rows.FAILED:
        row.consecutive_failed_runs = (row.consecutive_failed_runs or 0) + 1
        if (
            row.max_consecutive_failed_runs
            and row.consecutive_failed_runs >= row.max_consecutive_failed_runs
        ):
            row.is_paused = True
            row.pause_reason = f"{row.consecutive_failed_runs:.0f} runs failed in a row"
