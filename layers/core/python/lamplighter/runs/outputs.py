"""What a step left for later steps: the outputs in the report of its current submission.

Owns: which steps have outputs. Nothing is stored: the row says where the report is.
"""

from collections.abc import Mapping
from typing import Any

from lamplighter import settings
from lamplighter.executors import named
from lamplighter.executors.base import Job, JobState
from lamplighter.runs.job_request import JobName, read_report
from lamplighter.runs.states import SUCCESS
from lamplighter.store.models import Runs, Steps


def outputs_of(run: Runs, step: Steps) -> Mapping[str, Any]:
    """Return what a step left; nothing unless its job has succeeded, or if its report is gone."""
    # What a job left before its step was marked, nobody has vouched for.
    if step.state != SUCCESS or step.marked is not None or step.job_run_id is None:
        return {}
    job = _job_of(run, step, step.job_run_id)
    report = None if job is None else read_report(job)
    return report.outputs if report is not None and report.is_of(step) else {}


def _job_of(run: Runs, step: Steps, job_run_id: str) -> Job | None:
    """Return what is known of a job, which has a folder unless its executor keeps its report."""
    executor = named(step.executor)
    if executor.keeps_reports:
        return executor.describe(job_run_id)
    context_uri = JobName.of(run, step).context_uri(settings.current().require("bucket"))
    return Job(job_run_id, JobState.SUCCESS, context_uri)
