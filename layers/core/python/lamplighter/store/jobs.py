"""The rows of jobs on Lambda, and every move of their states.

Each move is a conditional write, so that of two who try, one has made it. Only the move to RUNNING
lets a job be run, and a job that is given up can never be moved there afterwards.
"""

from datetime import timedelta
from typing import NamedTuple

from pendulum import DateTime
from pynamodb.expressions.condition import Condition

from lamplighter import clock, settings
from lamplighter.errors import in_short
from lamplighter.store.models import Jobs
from lamplighter.store.transactions import update_if

SUBMITTED, RUNNING, SUCCESS, FAILED = "SUBMITTED", "RUNNING", "SUCCESS", "FAILED"
CANCELLING, CANCELLED = "CANCELLING", "CANCELLED"


class Claim(NamedTuple):
    """An invocation that would run a job: its id, how long it lives, and what it is billed for."""

    claim_id: str
    deadline: DateTime
    memory_mb: int | None
    architecture: str


def request_job(
    job_id: str, *, context_uri: str, bundle_uri: str, timeout: timedelta | None
) -> None:
    """Create the row of a job, unless there is one."""
    now = clock.now()
    actions = [
        Jobs.state.set(SUBMITTED),
        Jobs.context_uri.set(context_uri),
        Jobs.bundle_uri.set(bundle_uri),
        Jobs.requested_at.set(now),
        Jobs.expires_at.set(now.add(days=settings.current().run_retention_days)),
    ]
    if timeout is not None:
        actions.append(Jobs.timeout_seconds.set(timeout.total_seconds()))
    update_if(Jobs(job_id), actions, Jobs.job_id.does_not_exist())


def read_job(job_id: str) -> Jobs | None:
    """Return the row of a job as it is now."""
    try:
        return Jobs.get(job_id, consistent_read=True)
    except Jobs.DoesNotExist:
        return None


def claim_job(job_id: str, claim: Claim) -> Jobs | None:
    """Move a job to RUNNING for an invocation; return its row, or None if it is not to be run."""
    row = Jobs(job_id)
    actions = [
        Jobs.state.set(RUNNING),
        Jobs.claim_id.set(claim.claim_id),
        Jobs.started_at.set(clock.now()),
        Jobs.deadline.set(claim.deadline),
        Jobs.architecture.set(claim.architecture),
    ]
    if claim.memory_mb is not None:
        actions.append(Jobs.memory_mb.set(claim.memory_mb))
    # Or again, after an answer that was lost.
    is_ours = (Jobs.state == RUNNING) & (Jobs.claim_id == claim.claim_id)
    return row if update_if(row, actions, (Jobs.state == SUBMITTED) | is_ours) else None


def end_job(row: Jobs, state: str, details: str) -> None:
    """Move a job that this invocation has claimed to its end, which may be a cancellation."""
    is_ours = Jobs.claim_id == row.claim_id
    if not _end(row.job_id, RUNNING, state, details, is_ours):
        _end(row.job_id, CANCELLING, CANCELLED, "it was cancelled while it ran", is_ours)


def cancel_job(job_id: str) -> None:
    """End a job that has not begun, or ask the invocation that runs it to end it."""
    if not _end(job_id, SUBMITTED, CANCELLED, "it was cancelled before it began"):
        update_if(Jobs(job_id), [Jobs.state.set(CANCELLING)], Jobs.state == RUNNING)


def give_up_job(row: Jobs, state: str, details: str) -> None:
    """End a job that nobody can run any more, unless it has moved on."""
    _end(row.job_id, row.state, state, details)


def _end(
    job_id: str, before: str, after: str, details: str, condition: Condition | None = None
) -> bool:
    actions = [
        Jobs.state.set(after),
        Jobs.details.set(in_short(details)),
        Jobs.ended_at.set(clock.now()),
    ]
    is_there = Jobs.state == before
    return update_if(Jobs(job_id), actions, is_there if condition is None else is_there & condition)
