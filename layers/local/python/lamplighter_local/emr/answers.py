"""Jobs in the words of EMR Serverless: what `GetJobRun` and `ListJobRuns` tell about them."""

import copy
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from lamplighter import clock
from lamplighter.executors.base import JobState
from lamplighter.zones import as_utc, iso
from lamplighter_local.emr import billing
from lamplighter_local.emr.behaviour import EmrBehaviour
from lamplighter_local.emr.job import DEFAULT_TIMEOUT_MINUTES, REGION, FakeJob

_DASHBOARD_FOR = timedelta(hours=1)
_AS_SENT = ("configurationOverrides", "executionIamPolicy", "tags")


def summary(job: FakeJob) -> dict[str, Any]:
    """Return what a list of jobs tells."""
    return {**_common(job), "id": job.job_run_id, "type": "SPARK"}


def description(job: FakeJob, behaviour: EmrBehaviour) -> dict[str, Any]:
    """Return all that can be known about a job by now."""
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
        found["totalExecutionDurationSeconds"] = int(_run_seconds(job))
    if (at := billing.known_at(job, behaviour)) is not None and at <= clock.now():
        used = billing.utilization(job, behaviour)
        found["totalResourceUtilization"] = used.total
        found["billedResourceUtilization"] = used.billed
    return {name: value for name, value in found.items() if value is not None}


def dashboard_url(job: FakeJob) -> str:
    """Return where the Spark UI of a job is for an hour."""
    until = iso(as_utc(clock.now() + _DASHBOARD_FOR))
    query = urlencode({"authToken": f"{job.job_run_id}-{until}", "expires": until})
    return f"https://{job.job_run_id}.emrappui-prod.{REGION}.amazonaws.com/?{query}"


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
