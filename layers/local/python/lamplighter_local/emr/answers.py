"""Jobs in the words of EMR Serverless: what `GetJobRun` and `ListJobRuns` tell about them."""

import copy
from typing import Any

from lamplighter.executors.base import JobState
from lamplighter_local.emr.job import DEFAULT_TIMEOUT_MINUTES, FakeJob

# What every job has, and is billed for by the second, but for no less than a minute.
_VCPUS, _MEMORY_GB, _STORAGE_GB = 2, 8, 20
_LEAST_SECONDS = 60.0
_AS_SENT = ("configurationOverrides", "executionIamPolicy", "tags")


def summary(job: FakeJob) -> dict[str, Any]:
    """Return what a list of jobs tells."""
    return {**_common(job), "id": job.job_run_id, "type": "SPARK"}


def description(job: FakeJob, *, is_billed: bool = True) -> dict[str, Any]:
    """Return all that can be known about a job, with its bill if that has come."""
    sent = copy.deepcopy(dict(job.request))
    found = {
        **_common(job),
        **{name: sent[name] for name in _AS_SENT if name in sent},
        "jobRunId": job.job_run_id,
        "jobDriver": sent["jobDriver"],
        "executionTimeoutMinutes": sent.get("executionTimeoutMinutes", DEFAULT_TIMEOUT_MINUTES),
        "retryPolicy": sent.get("retryPolicy", {"maxAttempts": 1}),
        "startedAt": job.running_at,
        "endedAt": job.ended_at,
        "queuedDurationMilliseconds": _queued_milliseconds(job),
    }
    if job.ended_at is not None:
        seconds = _run_seconds(job)
        found["totalExecutionDurationSeconds"] = int(seconds)
        found["totalResourceUtilization"] = _hours(seconds)
        has_run = job.running_at is not None
        if is_billed:
            found["billedResourceUtilization"] = _hours(
                max(seconds, _LEAST_SECONDS) if has_run else 0
            )
    return {name: value for name, value in found.items() if value is not None}


def _common(job: FakeJob) -> dict[str, Any]:
    found = {
        "applicationId": job.application_id,
        "name": job.name or None,
        "mode": job.request.get("mode", "BATCH"),
        "arn": job.arn,
        "createdBy": job.created_by,
        "createdAt": job.created_at,
        "updatedAt": job.timeline[-1].at,
        "executionRole": job.request["executionRoleArn"],
        "state": str(job.state),
        "stateDetails": job.details,
        "releaseLabel": job.release_label,
        "attempt": 1,
        "attemptCreatedAt": job.created_at,
        "attemptUpdatedAt": job.timeline[-1].at,
    }
    return {name: value for name, value in found.items() if value is not None}


def _queued_milliseconds(job: FakeJob) -> int | None:
    """Return how long a job was in the queue, once it has left it."""
    for change, following in zip(job.timeline, job.timeline[1:], strict=False):
        if change.state is JobState.QUEUED:
            return round((following.at - change.at).total_seconds() * 1000)
    return None


def _run_seconds(job: FakeJob) -> float:
    if job.running_at is None or job.ended_at is None:
        return 0.0
    return (job.ended_at - job.running_at).total_seconds()


def _hours(seconds: float) -> dict[str, float]:
    hours = seconds / 3600
    return {
        "vCPUHour": _VCPUS * hours,
        "memoryGBHour": _MEMORY_GB * hours,
        "storageGBHour": _STORAGE_GB * hours,
    }
