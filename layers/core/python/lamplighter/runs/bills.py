"""What jobs cost: added to their steps and backfills, each bill once. Assigns only.

Owns: which bills are missing. On EMR Serverless a bill comes seconds to minutes after the end of
its job, so a step remembers its unbilled jobs. A bill is added in the transaction that forgets the
job, so that repeating it adds nothing.
"""

from dataclasses import asdict
from typing import Any

from lamplighter.executors import named
from lamplighter.executors.base import Job, Usage
from lamplighter.runs.view import RunView
from lamplighter.store.backfills import add_late_cost
from lamplighter.store.models import Steps


def add_bill(view: RunView, step: Steps, job: Job) -> None:
    """Add what a job cost that has just ended, or remember that it is unknown."""
    if job.usage is not None:
        _add_usage(step, job.usage)
    elif job.job_run_id and named(step.executor).bills_jobs:
        unbilled = {
            "job_run_id": job.job_run_id,
            "executor": step.executor,
            "backfill_id": view.run.slot_backfill_id,
        }
        step.unbilled_jobs = [*(step.unbilled_jobs or ()), unbilled]


def add_late_bill(view: RunView, task_id: str, job: Job) -> None:
    """Add what an earlier job cost, if that was unknown until now."""
    step = view.steps.get(task_id)
    unbilled = () if step is None else (step.unbilled_jobs or ())
    paid = next((each for each in unbilled if each["job_run_id"] == job.job_run_id), None)
    if step is None or paid is None or job.usage is None:
        return
    step.unbilled_jobs = [each for each in unbilled if each is not paid] or None
    _add_usage(step, job.usage)
    backfill_id = paid["backfill_id"]
    # If the run still holds the backfill's slot, its end adds the cost.
    if backfill_id is None or backfill_id == view.run.slot_backfill_id:
        return
    if (backfill := view.read_past_backfill(backfill_id)) is not None:
        is_complete = all(each["backfill_id"] != backfill_id for each in unbilled_jobs(view))
        add_late_cost(backfill, job.usage.cost, is_run_complete=is_complete)


def unbilled_jobs(view: RunView) -> list[dict[str, Any]]:
    """Return the jobs of a run that are over and not billed."""
    return [each for step in view.steps.values() for each in step.unbilled_jobs or ()]


def _add_usage(step: Steps, usage: Usage) -> None:
    for name, amount in asdict(usage).items():
        setattr(step, name, round((getattr(step, name) or 0) + amount, 9))
