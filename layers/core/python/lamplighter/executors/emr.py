"""Jobs on EMR Serverless.

Owns: every call of its API, its errors, events, limits and prices, and the location of its logs.
Arguments are passed as a list; author input never becomes part of a command line.
"""

import gzip
import logging
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from operator import mul
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pendulum import DateTime

from lamplighter import aws, settings
from lamplighter.dags.task import Task
from lamplighter.errors import (
    DefinitionError,
    PermanentError,
    RefusedError,
    ThrottledError,
    TransientError,
)
from lamplighter.executors.base import (
    Executor,
    Job,
    JobRequest,
    JobState,
    StartRate,
    Submission,
    Usage,
    data_of,
)
from lamplighter.executors.driver_log import MAX_BYTES, first_exception
from lamplighter.executors.emr_policy import job_policy
from lamplighter.executors.emr_workers import Sizes, list_prices
from lamplighter.identifiers import bundle_key
from lamplighter.zones import as_utc

log = logging.getLogger(__name__)

# The folder of the bundle on driver and executors.
BUNDLE_FOLDER = "lamplighter_bundle"
_IMPORT_PATH = ":".join(f"{BUNDLE_FOLDER}{part}" for part in ("", "/jobs", "/lib"))
# The `detail-type` of job events on EventBridge.
EVENT_TYPE = "EMR Serverless Job Run State Change"
UTILIZATION_TYPE = "EMR Serverless Job Resource Utilization Update"
# What all jobs together may use, by the settings that say how much.
_RESOURCES = {"vcpus": "vCPU", "memory_gb": "GB of memory", "disk_gb": "GB of disk"}
# Parts of the message of a job whose executors were never launched, in lower case. A job that has
# run is believed to be one only by the service's own texts: its program may speak of capacity too.
_STARVED = (
    "no executor being launched",
    "applicationmaxcapacityexceeded",
    "exceeded maximumcapacity",
    "service limit on the maximum vcpu",
)
# Of one that has not run: also texts that are not documented.
_NO_CAPACITY = (*_STARVED, "capacity", "quota", "queue timeout", "queuetimeout", "throttl")
# The text of a start that comes while the application starts or stops is not documented either.
_WRONG_STATE = re.compile(
    r"(?=.*\bapplications?\b)(?!.*\bTERMINATED\b)"
    r".*\b(state|status|statuses|CREATING|STARTING|STOPPING|STOPPED)\b",
    re.IGNORECASE | re.DOTALL,
)
# Long logs may take a while.
_LOG_READ_SECONDS = 30.0
_ABSENT = frozenset({"NoSuchKey", "404"})
# A conflict: the application is starting or stopping, or the token is in use.
_TRANSIENT = frozenset(
    {
        "ConflictException",
        "InternalServerException",
        "ServiceQuotaExceededException",
        "ServiceUnavailableException",
    }
)
_THROTTLED = frozenset({"ThrottlingException", "TooManyRequestsException"})


class EmrServerless(Executor):
    """The EMR Serverless application in the settings."""

    name = "emr-serverless"
    # What EMR Serverless accepts.
    min_timeout = timedelta(minutes=5)
    max_timeout = timedelta(minutes=10_080)

    def check(self, task: Task) -> list[str]:
        """Return what it could never run of a task's options, each with the fix, in one line."""
        sizes = Sizes.of(task.sizes, settings.current())
        found = [*super().check(task), *(list(sizes.problems()) or self._beyond(sizes))]
        if data_of(task) is not None:  # else there is always room
            try:
                job_policy(_largest_request(task))
            except DefinitionError as error:
                found.append(str(error))
        return found

    def _beyond(self, sizes: Sizes) -> list[str]:
        needed, there = sizes.footprint(), self.capacity()
        return [
            f"it needs {needed[resource]:g} {unit} for its driver and one executor, and the"
            f" deployment has {there[resource]:g}: make it smaller, or raise spark_{resource}"
            for resource, unit in _RESOURCES.items()
            if needed[resource] > there.get(resource, math.inf)
        ]

    def start_rate(self) -> StartRate | None:
        """Return how often the deployment may start jobs, of the quota of the account."""
        given = settings.current()
        if not given.job_starts_per_second:
            return None
        return StartRate(given.job_starts_per_second, given.job_start_burst)

    def start(self, request: JobRequest) -> str:
        """Start a job and return its id; for a known token, return the id of the existing job."""
        try:
            policy = job_policy(request)
        except DefinitionError as error:
            raise RefusedError(str(error)) from error
        try:
            answer = _call(
                "start_job_run",
                executionRoleArn=_role(request.bundle),
                executionIamPolicy={"policy": policy},
                clientToken=request.token,
                name=request.name,
                jobDriver={"sparkSubmit": _spark_submit(request)},
                tags=dict(request.tags),
                **_overrides(request),
                **_timeout(request),
            )
        except RefusedError as error:
            if _WRONG_STATE.match(str(error)):
                raise TransientError(f"the application cannot start jobs now: {error}") from error
            raise
        return str(answer["jobRunId"])

    def find(self, submission: Submission) -> str | None:
        """Return the id of the job that a submission has started, if there is one."""
        jobs = _jobs_since(submission.since)
        return next((job["id"] for job in jobs if job.get("name") == submission.name), None)

    def describe(self, job_run_id: str) -> Job | None:
        """Return the current state of a job, or None if it does not exist."""
        try:
            return _job(_call("get_job_run", jobRunId=job_run_id)["jobRun"])
        except _NotFound:
            return None

    def cancel(self, job_run_id: str) -> None:
        """Request that a job be cancelled; it continues until its state is final."""
        # It may be over, or so long ago that it is forgotten.
        with suppress(_NotFound, RefusedError):
            _call("cancel_job_run", jobRunId=job_run_id)

    def capacity(self) -> Mapping[str, float]:
        """Return what all jobs together may use, by resource; empty if there is no limit."""
        limits = {name: getattr(settings.current(), f"spark_{name}") for name in _RESOURCES}
        return {name: limit for name, limit in limits.items() if limit}

    def footprint(self, sizes: Mapping[str, str]) -> Mapping[str, float]:
        """Return what the driver and one executor need, by resource."""
        return Sizes.of(sizes, settings.current()).footprint()

    def read_event(self, event: Mapping[str, Any]) -> str | None:
        """Return the job that an event is about, if it is of this application."""
        if event.get("detail-type") not in {EVENT_TYPE, UTILIZATION_TYPE}:
            return None
        detail = event["detail"]
        # Only the last one means that the job is billed.
        if event["detail-type"] == UTILIZATION_TYPE and not detail["resourceUtilizationFinal"]:
            return None
        is_ours = detail["applicationId"] == settings.current().emr_application_id
        return str(detail["jobRunId"]) if is_ours else None

    def log_uri(self, job_run_id: str, stream: str) -> str:
        """Return the URI of the driver's `stdout` or `stderr`."""
        deployment = settings.current()
        root = deployment.require("job_logs_uri").rstrip("/")
        application = deployment.require("emr_application_id")
        return f"{root}/applications/{application}/jobs/{job_run_id}/SPARK_DRIVER/{stream}.gz"

    def read_log(self, job_run_id: str, stream: str) -> Iterator[str] | None:
        """Return the lines of a log lazily, or None if it does not exist."""
        body = self._open_log(job_run_id, stream)
        if body is None:
            return None
        # Invalid bytes are replaced.
        return iter(gzip.open(body, "rt", encoding="utf-8", errors="replace"))

    def first_error(self, job_run_id: str) -> str | None:
        """Return the first exception in the driver's `stderr`, or None if it is not there (yet)."""
        if not settings.current().job_logs_uri:
            return None
        try:
            body = self._open_log(job_run_id, "stderr")
            return None if body is None else first_exception(body.read(MAX_BYTES))
        except (BotoCoreError, ClientError):
            # The job has failed whatever its log says.
            log.warning("driver log cannot be read", exc_info=True, extra={"job": job_run_id})
            return None

    def ui_url(self, job_run_id: str) -> str | None:
        """Return an address of the live Spark UI or of the history server, valid for one hour."""
        try:
            return str(_call("get_dashboard_for_job_run", jobRunId=job_run_id)["url"])
        except _NotFound:
            return None

    def _open_log(self, job_run_id: str, stream: str) -> Any:
        bucket, key = aws.bucket_and_key(self.log_uri(job_run_id, stream))
        s3 = aws.client("s3", read_seconds=_LOG_READ_SECONDS)
        try:
            return s3.get_object(Bucket=bucket, Key=key)["Body"]
        except ClientError as error:
            if error.response["Error"]["Code"] in _ABSENT:
                return None
            raise


def _role(bundle: str) -> str:
    given = settings.current()
    return given.bundle_roles.get(bundle) or given.require("emr_job_role_arn")


def _largest_request(task: Task) -> JobRequest:
    """Return a request with the longest names that jobs of a task can have."""
    folder = f"jobs/{task.dag.dag_id}/*/{10**9}-{'0' * 12}"
    bundle_uri = f"s3://{settings.current().bucket}/{bundle_key('', '0' * 64)}"
    return JobRequest("", "", "", bundle_uri, folder=folder, data=data_of(task))


def _spark_submit(request: JobRequest) -> dict[str, Any]:
    deployment = settings.current()
    runtime = f"s3://{deployment.require('bucket')}/{deployment.runtime}"
    conf = {
        **Sizes.of(request.sizes, deployment).as_conf(request.spark_conf),
        "spark.archives": ",".join([f"{request.bundle_uri}#{BUNDLE_FOLDER}", *request.archives]),
        "spark.submit.pyFiles": ",".join([f"{runtime}/lamplighter_job.zip", *request.py_files]),
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
        # As a mapping, so that values are never parsed as a command line.
        defaults = {"classification": "spark-defaults", "properties": dict(request.spark_conf)}
        overrides["applicationConfiguration"] = [defaults]
    if monitoring := _monitoring():
        overrides["monitoringConfiguration"] = monitoring
    return {"configurationOverrides": overrides} if overrides else {}


def _monitoring() -> dict[str, Any]:
    deployment = settings.current()
    monitoring: dict[str, Any] = {}
    if uri := deployment.job_logs_uri:
        monitoring["s3MonitoringConfiguration"] = {"logUri": uri}
    if group := deployment.job_log_group:
        # Of the driver, unless told otherwise.
        logging_to = {"enabled": True, "logGroupName": group}
        monitoring["cloudWatchLoggingConfiguration"] = logging_to
    return monitoring


def _timeout(request: JobRequest) -> dict[str, int]:
    if request.timeout is None:
        return {}
    longest = max(request.timeout, EmrServerless.min_timeout)
    return {"executionTimeoutMinutes": math.ceil(longest.total_seconds() / 60)}


def _jobs_since(since: DateTime) -> Iterator[dict[str, Any]]:
    page: dict[str, Any] = {"createdAtAfter": since}
    while True:
        answer = _call("list_job_runs", **page)
        yield from answer["jobRuns"]
        if not answer.get("nextToken"):
            return
        page["nextToken"] = answer["nextToken"]


def _job(said: dict[str, Any]) -> Job:
    submit = said.get("jobDriver", {}).get("sparkSubmit", {})
    arguments = submit.get("entryPointArguments") or [""]
    details = said.get("stateDetails") or ""
    state = JobState(said["state"])
    has_run = state is JobState.RUNNING or state.is_over
    started_at = said.get("startedAt") if has_run else None
    ended_at = said.get("endedAt") or said.get("updatedAt")
    lacked_capacity = state is JobState.FAILED and _is_for_capacity(
        details, has_run=started_at is not None
    )
    billed = said.get("billedResourceUtilization")
    if lacked_capacity and started_at is None:
        billed = billed or {}  # it never had a worker
    return Job(
        said["jobRunId"],
        state,
        arguments[0],
        details=details,
        started_at=as_utc(started_at) if started_at is not None else None,
        ended_at=as_utc(ended_at) if state.is_over and ended_at is not None else None,
        lacked_capacity=lacked_capacity,
        usage=_usage(billed) if state.is_over and billed is not None else None,
    )


def _is_for_capacity(details: str, *, has_run: bool) -> bool:
    said = details.lower()
    return any(text in said for text in (_STARVED if has_run else _NO_CAPACITY))


def _usage(billed: Mapping[str, float]) -> Usage:
    names = ("vCPUHour", "memoryGBHour", "storageGBHour")
    vcpu, memory, storage = hours = [billed.get(name, 0.0) for name in names]
    return Usage(vcpu, memory, storage, cost=sum(map(mul, hours, _prices())))


def _prices() -> tuple[float, ...]:
    """Return the prices of a vCPU, and of a GB of memory and of storage: chosen or listed."""
    given = settings.current()
    chosen = (given.price_vcpu_hour, given.price_memory_gb_hour, given.price_storage_gb_hour)
    region = aws.client("emr-serverless").meta.region_name
    listed = list_prices(region, given.spark_architecture)
    return tuple(own or other for own, other in zip(chosen, listed, strict=True))


class _NotFound(PermanentError):
    """The application or the job does not exist."""


def _call(operation: str, **request: Any) -> dict[str, Any]:
    application = settings.current().require("emr_application_id")
    call = getattr(aws.client("emr-serverless"), operation)
    try:
        answer: dict[str, Any] = call(applicationId=application, **request)
    except ClientError as error:
        raise _translate(error) from error
    except BotoCoreError as error:
        raise TransientError(f"EMR Serverless cannot be reached: {error}") from error
    return answer


def _translate(error: ClientError) -> Exception:
    code = error.response["Error"]["Code"]
    if code == "ResourceNotFoundException":
        return _NotFound(f"EMR Serverless: {error}")
    if code == "ValidationException":
        return RefusedError(f"EMR Serverless refuses the job: {error}")
    if code in _THROTTLED:
        return ThrottledError(f"EMR Serverless is asked too often: {error}")
    if code in _TRANSIENT:
        return TransientError(f"EMR Serverless is busy: {error}")
    return PermanentError(f"EMR Serverless: {error}")
