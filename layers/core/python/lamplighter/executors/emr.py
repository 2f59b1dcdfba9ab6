"""Jobs on EMR Serverless.

Owns: every call of its API, and the translation of its errors. Arguments go as a list, and what an
author wrote never becomes part of a command line.
"""

import math
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pendulum import DateTime

from lamplighter import aws, settings
from lamplighter.errors import PermanentError, RefusedError, TransientError
from lamplighter.executors.job import Job, JobRequest, JobState, Usage
from lamplighter.zones import as_utc

# The folder as which driver and executors see the bundle.
BUNDLE_FOLDER = "lamplighter_bundle"
_IMPORT_PATH = ":".join(f"{BUNDLE_FOLDER}{part}" for part in ("", "/jobs", "/lib"))
# The least that EMR Serverless takes.
_SHORTEST_TIMEOUT_MINUTES = 5
_REFUSED = frozenset({"ValidationException"})
# A conflict is an application that is starting or stopping, or a token that is being used.
_TRANSIENT = frozenset(
    {
        "ConflictException",
        "InternalServerException",
        "ServiceQuotaExceededException",
        "ServiceUnavailableException",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)


class EmrServerless:
    """The application that the settings name."""

    def start(self, request: JobRequest) -> str:
        """Start a job and return its id; with a token that is known, return the job of then."""
        deployment = settings.current()
        answer = _call(
            "start_job_run",
            applicationId=deployment.require("emr_application_id"),
            executionRoleArn=deployment.require("emr_job_role_arn"),
            clientToken=request.token,
            name=request.name,
            jobDriver={"sparkSubmit": _spark_submit(request)},
            tags=dict(request.tags),
            **_overrides(request),
            **_timeout(request),
        )
        return str(answer["jobRunId"])

    def find(self, name: str, *, since: DateTime) -> str | None:
        """Return the id of the job that has a name and was started since then, if there is one."""
        found = (job["id"] for job in _jobs_since(since) if job.get("name") == name)
        return next(found, None)

    def describe(self, job_run_id: str) -> Job | None:
        """Return a job as it is now, or None if there is no such job."""
        application = settings.current().require("emr_application_id")
        try:
            answer = _call("get_job_run", applicationId=application, jobRunId=job_run_id)
        except _NotFound:
            return None
        return _job(answer["jobRun"])

    def cancel(self, job_run_id: str) -> None:
        """Ask for a job to be ended; it is over when its state says so."""
        application = settings.current().require("emr_application_id")
        try:
            _call("cancel_job_run", applicationId=application, jobRunId=job_run_id)
        except (_NotFound, RefusedError):
            return  # it is over, or so long ago that it is forgotten


def _spark_submit(request: JobRequest) -> dict[str, Any]:
    deployment = settings.current()
    runtime = f"s3://{deployment.require('bucket')}/{deployment.runtime}"
    conf = {
        **request.sizes,
        "spark.archives": ",".join([f"{request.bundle_uri}#{BUNDLE_FOLDER}", *request.archives]),
        "spark.submit.pyFiles": ",".join([f"{runtime}/lamplighter_spark.zip", *request.py_files]),
        "spark.executorEnv.PYTHONPATH": _IMPORT_PATH,
    }
    return {
        "entryPoint": f"{runtime}/run_step.py",
        "entryPointArguments": [request.context_uri],
        "sparkSubmitParameters": " ".join(f"--conf {key}={value}" for key, value in conf.items()),
    }


def _overrides(request: JobRequest) -> dict[str, Any]:
    overrides: dict[str, Any] = {}
    if request.spark_conf:
        # As a mapping: its values may hold anything, and are never read as a command line.
        defaults = {"classification": "spark-defaults", "properties": dict(request.spark_conf)}
        overrides["applicationConfiguration"] = [defaults]
    if logs := settings.current().job_logs_uri:
        place = {"s3MonitoringConfiguration": {"logUri": logs}}
        overrides["monitoringConfiguration"] = place
    return {"configurationOverrides": overrides} if overrides else {}


def _timeout(request: JobRequest) -> dict[str, int]:
    if request.timeout is None:
        return {}
    minutes = math.ceil(request.timeout.total_seconds() / 60)
    return {"executionTimeoutMinutes": max(minutes, _SHORTEST_TIMEOUT_MINUTES)}


def _jobs_since(since: DateTime) -> Iterator[dict[str, Any]]:
    application = settings.current().require("emr_application_id")
    page: dict[str, Any] = {"applicationId": application, "createdAtAfter": since}
    while True:
        answer = _call("list_job_runs", **page)
        yield from answer["jobRuns"]
        if not answer.get("nextToken"):
            return
        page["nextToken"] = answer["nextToken"]


def _job(said: dict[str, Any]) -> Job:
    submit = said.get("jobDriver", {}).get("sparkSubmit", {})
    arguments = submit.get("entryPointArguments") or [""]
    billed = said.get("billedResourceUtilization") or {}
    state = JobState(said["state"])
    has_run = state is JobState.RUNNING or state.is_over
    started_at = said.get("startedAt") if has_run else None
    ended_at = said.get("endedAt") or said.get("updatedAt")
    return Job(
        said["jobRunId"],
        state,
        arguments[0],
        details=said.get("stateDetails") or "",
        started_at=as_utc(started_at) if started_at is not None else None,
        ended_at=as_utc(ended_at) if state.is_over and ended_at is not None else None,
        usage=Usage(
            billed.get("vCPUHour", 0.0),
            billed.get("memoryGBHour", 0.0),
            billed.get("storageGBHour", 0.0),
        ),
    )


class _NotFound(PermanentError):
    """The application, or the job, is not known."""


def _call(operation: str, **request: Any) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = getattr(aws.client("emr-serverless"), operation)(**request)
    except ClientError as error:
        raise _translate(error) from error
    except BotoCoreError as error:
        raise TransientError(f"EMR Serverless cannot be reached: {error}") from error
    return answer


def _translate(error: ClientError) -> Exception:
    code = error.response["Error"]["Code"]
    if code == "ResourceNotFoundException":
        return _NotFound(f"EMR Serverless: {error}")
    if code in _REFUSED:
        return RefusedError(f"EMR Serverless refuses the job: {error}")
    if code in _TRANSIENT:
        return TransientError(f"EMR Serverless is busy: {error}")
    return PermanentError(f"EMR Serverless: {error}")
