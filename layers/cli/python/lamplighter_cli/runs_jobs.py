"""The jobs of a run, by task and attempt, for commands that look into them."""

from collections.abc import Sequence
from typing import NamedTuple

from lamplighter.errors import RefusedError
from lamplighter_operations.views import Step


class RunJob(NamedTuple):
    """One attempt of a step."""

    task_id: str
    try_number: int
    job_run_id: str
    executor: str | None


def jobs_of(steps: Sequence[Step], task: str, try_number: int | None, *, run: str) -> list[RunJob]:
    """Return the jobs of a task or of all: of one attempt, by default the last of each."""
    if task and task not in {step.task_id for step in steps}:
        started = ", ".join(step.task_id for step in steps) or "none"
        raise RefusedError(f"{run} has not started a step {task!r} (started: {started})")
    attempts = [_attempts(step) for step in steps if task in {"", step.task_id}]
    if try_number is None:
        jobs = [each[-1] for each in attempts if each]
    else:
        jobs = [job for each in attempts for job in each if job.try_number == try_number]
    if not jobs:
        which = f" of try {try_number}" if try_number else ""
        raise RefusedError(
            f"{run} has no job{which}, so there is no log: see `lamplighter runs show`"
        )
    return jobs


def _attempts(step: Step) -> list[RunJob]:
    """Return the known jobs of a step, oldest first."""
    jobs = {
        job_run_id: RunJob(
            step.task_id, int(attempt["try_number"]), job_run_id, attempt.get("executor")
        )
        for attempt in step.tries
        if (job_run_id := attempt["job_run_id"])
    }
    if step.job_run_id:
        newest = RunJob(step.task_id, step.try_number, step.job_run_id, step.executor)
        jobs.setdefault(step.job_run_id, newest)
    return list(jobs.values())
