"""Steps of runs: reads, and changes that need no decision about the run."""

from pendulum import DateTime

from lamplighter.store.models import Runs, Steps
from lamplighter.store.transactions import update_if

_SUBMITTED, _RUNNING = "submitted", "running"
# The states in which a step may have a job.
_WITH_A_JOB = ("cancelling", _RUNNING, _SUBMITTED)


def run_ref(dag_id: str, run_key: str) -> str:
    """Return the hash key of a run's steps."""
    return f"{dag_id}|{run_key}"


def steps_of(run: Runs) -> dict[str, Steps]:
    """Return the steps of a run by id."""
    if run.rev == 1:
        return {}  # the run has just been created
    found = Steps.query(run_ref(run.dag_id, run.run_key), consistent_read=True)
    return {step.step_id: step for step in found if step.run_created_at == run.created_at}


def read_step(run: Runs, step_id: str) -> Steps | None:
    """Return a step; it may belong to an earlier run with the same key."""
    try:
        return Steps.get(run_ref(run.dag_id, run.run_key), step_id, consistent_read=True)
    except Steps.DoesNotExist:
        return None


def record_job(step: Steps, job_run_id: str) -> bool:
    """Record the job of a submission; return False if the step has moved on."""
    is_same = (Steps.submission == step.submission) & Steps.state.is_in(*_WITH_A_JOB)
    row = Steps(step.run_ref, step.step_id)
    return update_if(row, [Steps.job_run_id.set(job_run_id)], is_same)


def record_running(
    ref: str, step_id: str, submission: int, *, job_run_id: str, started_at: DateTime
) -> Steps | None:
    """Record that a submission's job runs; return the step, or None if more has changed."""
    is_expected = (Steps.state == _SUBMITTED) & (Steps.submission == submission)
    is_its_job = Steps.job_run_id.does_not_exist() | (Steps.job_run_id == job_run_id)
    actions = [
        Steps.state.set(_RUNNING),
        Steps.job_run_id.set(job_run_id),
        Steps.started_at.set(started_at),
    ]
    row = Steps(ref, step_id)
    return row if update_if(row, actions, is_expected & is_its_job) else None


def stored_steps(ref: str) -> list[Steps]:
    """Return the steps stored under a run's key, including those of an earlier run."""
    return list(Steps.query(ref, consistent_read=True))


def all_steps() -> list[Steps]:
    """Return every step; reads the whole table."""
    return list(Steps.scan(consistent_read=True))
