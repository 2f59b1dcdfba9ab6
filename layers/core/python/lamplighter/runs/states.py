"""States of runs and steps, and the legal transitions between them."""

from lamplighter.store.models import Runs, Steps
from lamplighter.store.runs import CANCELLED, FAILED, QUEUED, RUNNING, SUCCESS

__all__ = ["CANCELLED", "FAILED", "QUEUED", "RUNNING", "SUCCESS", "move_run", "move_step"]

NONE = "none"
SUBMITTED = "submitted"
CANCELLING = "cancelling"
UP_FOR_RETRY = "up_for_retry"
SKIPPED = "skipped"
UPSTREAM_FAILED = "upstream_failed"

# States in which a step may have a running job.
LIVE = frozenset({SUBMITTED, RUNNING, CANCELLING})
# Final states of a step, unless it is cleared.
OVER = frozenset({SUCCESS, FAILED, SKIPPED, UPSTREAM_FAILED})

_ENDS_OF_A_JOB = frozenset({SUCCESS, FAILED, UP_FOR_RETRY, SKIPPED})

STEP_MOVES: dict[str, frozenset[str]] = {
    # Without a job: the request could not be prepared, or the step was marked.
    NONE: frozenset({SUBMITTED, SUCCESS, FAILED, SKIPPED, UPSTREAM_FAILED}),
    SUBMITTED: _ENDS_OF_A_JOB | {RUNNING, CANCELLING},
    RUNNING: _ENDS_OF_A_JOB | {CANCELLING},
    CANCELLING: _ENDS_OF_A_JOB | {NONE},
    UP_FOR_RETRY: frozenset({SUBMITTED, FAILED, NONE}),
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


def move_run(run: Runs, to: str) -> None:
    """Assign a state to a run; an illegal transition is a bug."""
    if to not in RUN_MOVES[run.state]:
        raise ValueError(f"run {run.run_key} of DAG {run.dag_id!r} cannot go {run.state} -> {to}")
    run.state = to
