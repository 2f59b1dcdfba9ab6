"""States of runs and steps, the legal moves, and the changes that no job causes. Assigns only.

Owns: the end of a run, time limits, marks, and expiry. A marked step never has a live job: its job
is cancelled first, and then it ends as marked. It emits no outlet events, because its data is
unknown.
"""

from typing import TYPE_CHECKING, Any

from pendulum import DateTime

from lamplighter import settings
from lamplighter.errors import readable
from lamplighter.store import backfills, slots
from lamplighter.store.models import Backfills, Dags, Runs, Steps
from lamplighter.store.runs import (
    CANCELLED,
    FAILED,
    QUEUED,
    RUNNING,
    SUCCESS,
    set_state_columns,
)
from lamplighter.zones import iso

if TYPE_CHECKING:
    from lamplighter.runs.view import RunView

__all__ = ["CANCELLED", "FAILED", "QUEUED", "RUNNING", "SUCCESS", "move_run", "move_step"]

NONE = "none"
# Ready, and waiting for a limit: a pool, capacity, or a start.
SCHEDULED = "scheduled"
SUBMITTED = "submitted"
CANCELLING = "cancelling"
UP_FOR_RETRY = "up_for_retry"
SKIPPED = "skipped"
UPSTREAM_FAILED = "upstream_failed"

# States in which a step may have a running job.
LIVE = frozenset({SUBMITTED, RUNNING, CANCELLING})
# Final states of a step, unless it is cleared.
OVER = frozenset({SUCCESS, FAILED, SKIPPED, UPSTREAM_FAILED})

# Reasons for cancelling a job.
TIMEOUT, CANCEL, CLEAR = "timeout", "cancel", "clear"
# States that a run or a step can be marked as.
MARKS = (SUCCESS, FAILED)
# Marks kept on a run.
_KEPT_MARKS = 50
_MAX_ERROR = 2_000

Mark = dict[str, Any]

_ENDS_OF_A_JOB = frozenset({SUCCESS, FAILED, UP_FOR_RETRY, SKIPPED})

STEP_MOVES: dict[str, frozenset[str]] = {
    # Without a job: the request could not be prepared, or the step was marked.
    NONE: frozenset({SCHEDULED, SUBMITTED, SUCCESS, FAILED, SKIPPED, UPSTREAM_FAILED}),
    SCHEDULED: frozenset({SUBMITTED, FAILED, SKIPPED, UPSTREAM_FAILED, NONE}),
    # Back, if its job was not started because the call was throttled.
    SUBMITTED: _ENDS_OF_A_JOB | {RUNNING, CANCELLING, SCHEDULED},
    RUNNING: _ENDS_OF_A_JOB | {CANCELLING},
    CANCELLING: _ENDS_OF_A_JOB | {NONE},
    UP_FOR_RETRY: frozenset({SCHEDULED, SUBMITTED, FAILED, NONE}),
    **dict.fromkeys(OVER, frozenset({NONE})),
}

RUN_MOVES: dict[str, frozenset[str]] = {
    QUEUED: frozenset({RUNNING, SUCCESS, FAILED, CANCELLED}),
    RUNNING: frozenset({SUCCESS, FAILED, CANCELLED}),
    **dict.fromkeys((SUCCESS, FAILED, CANCELLED), frozenset({QUEUED})),
}


def move_step(step: Steps, to: str) -> None:
    """Assign a state to a step; an illegal transition is a bug."""
    if to not in STEP_MOVES[step.state]:
        raise ValueError(f"step {step.step_id!r} of {step.run_ref} cannot go {step.state} -> {to}")
    step.state = to
    if to not in LIVE:
        step.holds = None
    if to != SCHEDULED:
        stop_waiting(step)


def stop_waiting(step: Steps) -> None:
    """Take a step out of the index of those that wait for a limit."""
    step.waits_for = step.waits_since = step.turn = step.start_reserved_at = None


def move_run(run: Runs, to: str) -> None:
    """Assign a state to a run; an illegal transition is a bug."""
    if to not in RUN_MOVES[run.state]:
        raise ValueError(f"run {run.run_key} of DAG {run.dag_id!r} cannot go {run.state} -> {to}")
    run.state = to


# The end of a run.


def end_run(
    run: Runs, row: Dags | None, state: str, *, now: DateTime, backfill: Backfills | None = None
) -> None:
    """End a run; the freed slot puts its DAG back into the due index in the same write.

    A run of a backfill does not touch its DAG's row, even if it failed: reprocessing the past does
    not pause the schedule or compete for its row.
    """
    move_run(run, state)
    set_state_columns(run, now)
    run.target_state = None
    # A decision raises `rev` by one, and a step's submission by at most one.
    run.submission_floor = run.rev
    if run.slot_backfill_id is not None:
        run.slot_backfill_id = None
        if backfill is not None:
            backfills.end_run(backfill, run)
    elif row is not None:
        slots.release(row, run.run_key)
        _count_failures(row, state)


def _count_failures(row: Dags, state: str) -> None:
    if state == SUCCESS:
        row.consecutive_failed_runs = None
    elif state == FAILED:
        count = row.consecutive_failed_runs = (row.consecutive_failed_runs or 0) + 1
        if row.max_consecutive_failed_runs and count >= row.max_consecutive_failed_runs:
            row.is_paused = True
            row.pause_reason = f"{count:.0f} runs failed in a row"


def add_up_costs(view: "RunView") -> None:
    """Set the usage and cost of a run to the sums over its steps; None if nothing is known."""
    steps = view.steps.values()
    for name in ("vcpu_hours", "memory_gb_hours", "storage_gb_hours", "cost"):
        known = [value for step in steps if (value := getattr(step, name)) is not None]
        setattr(view.run, name, round(sum(known), 9) if known else None)
    view.run.unbilled_jobs = sum(len(step.unbilled_jobs or ()) for step in steps) or None


# Time limits, and runs that are being cancelled.


def time_out_run(view: "RunView", now: DateTime) -> None:
    """Start to end a run that has exceeded its `dagrun_timeout`."""
    deadline = run_deadline(view)
    if deadline is not None and deadline <= now:
        view.run.target_state = FAILED
        view.run.reason = f"dagrun_timeout: it ran for longer than {view.dag.dagrun_timeout}"


def run_deadline(view: "RunView") -> DateTime | None:
    """Return when a run exceeds its `dagrun_timeout`, if it has one and is not being ended."""
    run, limit = view.run, view.dag.dagrun_timeout
    if limit is None or run.started_at is None or run.target_state is not None:
        return None
    return run.started_at + limit


def time_out_step(view: "RunView", step: Steps, now: DateTime) -> None:
    """Start to cancel the job of a step that has exceeded its `execution_timeout`."""
    deadline = deadline_of(view, step)
    if deadline is not None and deadline <= now:
        move_step(step, CANCELLING)
        step.cancel_action = TIMEOUT


def deadline_of(view: "RunView", step: Steps) -> DateTime | None:
    """Return when a running step exceeds its `execution_timeout`, if it has one."""
    limit = view.dag.tasks[step.step_id].execution_timeout
    if limit is None or step.state != RUNNING or step.started_at is None:
        return None
    return step.started_at + limit


def end_step(view: "RunView", step: Steps, now: DateTime) -> None:
    """Cancel a step of a run that is being ended, or drop its retry."""
    if step.state in {SUBMITTED, RUNNING}:
        move_step(step, CANCELLING)
    if step.state == CANCELLING and step.cancel_action not in {SUCCESS, FAILED}:
        step.cancel_action = CANCEL
    if step.state == SCHEDULED and (not step.try_number or step.error is None):
        move_step(step, NONE)
    if step.state in {SCHEDULED, UP_FOR_RETRY}:
        move_step(step, FAILED)
        step.error = shorten(f"{step.error}; not retried: {view.run.reason}")
        step.retry_at = None
        set_expiry(step, now)


def shorten(text: str | None) -> str | None:
    """Return an error as stored: readable, and only its end if it is too long."""
    if text is None:
        return None
    text = readable(text)
    # The end of a traceback names the cause.
    return text if len(text) <= _MAX_ERROR else f"…{text[-_MAX_ERROR:]}"


# Marks.


def record_mark(
    view: "RunView", state: str, *, why: str, by: str, task: str | None, now: DateTime
) -> Mark:
    """Record on the run who marked what as what, when and why."""
    was = view.run.state if task is None else view.step(task).state
    mark = {"at": iso(now), "by": by, "task_id": task, "from": was, "to": state, "why": why}
    view.run.marks = [*(view.run.marks or ()), mark][-_KEPT_MARKS:]
    return mark


def mark_text(mark: Mark) -> str:
    """Return a mark as a sentence."""
    return f"marked {mark['to']} by {mark['by']}: {mark['why']}"


def assign_mark(step: Steps, mark: Mark, now: DateTime) -> None:
    """Mark a step, at once or when its job is cancelled."""
    step.marked, step.error = mark, mark_text(mark)
    if step.state in LIVE:
        if step.state != CANCELLING:
            move_step(step, CANCELLING)
        step.cancel_action = mark["to"]
        return
    if step.state != NONE:
        move_step(step, NONE)
    move_step(step, mark["to"])
    step.retry_at = step.capacity_since = None
    step.ended_at = now
    set_expiry(step, now)


def needs_mark(step: Steps | None, state: str) -> bool:
    """Return whether a step has to be marked because its run was marked as `state`.

    In a run marked as success, every step is a success or skipped; a failed run leaves its steps.
    """
    if state != SUCCESS:
        return False
    if step is not None and step.state == CANCELLING:
        return step.cancel_action != SUCCESS
    return step is None or step.state not in {SUCCESS, SKIPPED}


# How long steps are kept.


def set_expiry(step: Steps, now: DateTime) -> None:
    """Set when a step expires: with its run if it is over, otherwise never."""
    step.expires_at = _expiry(now) if step.state in OVER else None


def expire_step(step: Steps, now: DateTime) -> None:
    """Make a step of a finished run expire with the run."""
    if step.expires_at is None:
        step.expires_at = _expiry(now)


def postpone_expiry(step: Steps, now: DateTime) -> None:
    """Keep a step from expiring before its run is over."""
    if step.expires_at is not None and step.expires_at - now < (_expiry(now) - now) / 2:
        step.expires_at = None


def _expiry(now: DateTime) -> DateTime:
    return now.add(days=settings.current().run_retention_days)
