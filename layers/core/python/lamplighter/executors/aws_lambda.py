"""Jobs of Python tasks, run by the function `task` on Lambda.

Owns: the requests and errors of Lambda, when a job is given up, its price and where its log is.
Lambda delivers an invocation at least once, and tells nobody what became of it: a row does, which
one invocation claims. So a request may be repeated at any time.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pendulum import DateTime

from lamplighter import aws, clock, settings
from lamplighter.errors import PermanentError, ThrottledError, TransientError
from lamplighter.executors.base import Executor, Job, JobRequest, JobState, Submission, Usage
from lamplighter.executors.claimed_job import SECONDS_TO_END
from lamplighter.store import jobs
from lamplighter.store.models import Jobs

# How long Lambda keeps an invocation for which it has no room.
MAX_EVENT_AGE = timedelta(hours=1)
# How often Lambda repeats an invocation that has failed: it may have died before it claimed its
# job, and otherwise finds it claimed.
MAX_RETRIES = 2
# Clocks differ, and the row is written before the invocation is requested.
_MARGIN = timedelta(minutes=5)
# Dollars for a second of a GB, by architecture, and for a request: the list prices of us-east-1 in
# November 2026.
_PRICES = {"arm64": 0.0000133334, "x86_64": 0.0000166667}
_PRICE_OF_REQUEST = 0.20 / 1_000_000
# Lambda gives a whole vCPU to a function of this size.
_MB_PER_VCPU = 1_769
_NO_ROOM = (
    "Lambda had no room for it within an hour: raise task_concurrency, or the concurrency of the"
    " account"
)
_NO_WORD = "its invocation has ended without a word: see the log of the function task"
_THROTTLED = frozenset({"TooManyRequestsException", "ThrottlingException"})
_TRANSIENT = frozenset(
    {
        "EC2ThrottledException",
        "EC2UnexpectedException",
        "ENILimitReachedException",
        "ResourceConflictException",
        "ResourceNotReadyException",
        "ServiceException",
        "SubnetIPAddressLimitReachedException",
    }
)


class LambdaFunction(Executor):
    """The function `task` of the deployment."""

    name = "lambda"
    forgets_tokens = False

    def __init__(self) -> None:
        limit = settings.current().task_timeout_seconds
        self.max_timeout = timedelta(seconds=limit - SECONDS_TO_END)

    def start(self, request: JobRequest) -> str:
        """Note a job and have it run; whoever repeats this starts nothing twice."""
        jobs.request_job(
            request.name,
            context_uri=request.context_uri,
            bundle_uri=request.bundle_uri,
            timeout=request.timeout,
        )
        _invoke(request.name)
        return request.name

    def find(self, submission: Submission) -> str | None:
        """Return the id of the job that a submission has started, if there is one."""
        return None if jobs.read_job(submission.name) is None else submission.name

    def describe(self, job_run_id: str) -> Job | None:
        """Return the current state of a job, or None if it does not exist.

        One that is overdue is given up first, so that no late invocation can begin it.
        """
        row = jobs.read_job(job_run_id)
        if row is not None and (end := _overdue(row, clock.now())) is not None:
            jobs.give_up_job(row, *end)
            row = jobs.read_job(job_run_id)
        return None if row is None else _job(row)

    def cancel(self, job_run_id: str) -> None:
        """End a job that has not begun; let one that runs be ended within seconds."""
        jobs.cancel_job(job_run_id)

    def read_event(self, event: Mapping[str, Any]) -> str | None:
        """Return the job of an invocation that is over, if it is one of our function."""
        if "requestContext" not in event:
            return None
        function = str(event["requestContext"]["functionArn"]).split(":")[6]
        is_ours = function == settings.current().task_function
        return str(event["requestPayload"]["job"]) if is_ours else None

    def log_uri(self, job_run_id: str, stream: str) -> str:
        """Return where a log is: in CloudWatch, among those of all jobs."""
        return f"cloudwatch:{_log_group()} {_log_filter(job_run_id, stream)}"

    def read_log(self, job_run_id: str, stream: str) -> Iterator[str] | None:
        """Return the lines of a log lazily, or None if the job does not exist."""
        row = jobs.read_job(job_run_id)
        return None if row is None else _log_lines(row, stream)


def _invoke(job_id: str) -> None:
    function = settings.current().require("task_function")
    payload = json.dumps({"job": job_id}).encode()
    try:
        aws.client("lambda").invoke(FunctionName=function, InvocationType="Event", Payload=payload)
    except ClientError as error:
        raise _translate(error) from error
    except BotoCoreError as error:
        raise TransientError(f"Lambda cannot be reached: {error}") from error


def _translate(error: ClientError) -> Exception:
    code = error.response["Error"]["Code"]
    if code in _THROTTLED:
        return ThrottledError(f"Lambda is asked too often: {error}")
    if code in _TRANSIENT:
        return TransientError(f"Lambda is busy: {error}")
    return PermanentError(f"Lambda: {error}")


# What a row says.


def _overdue(row: Jobs, now: DateTime) -> tuple[str, str] | None:
    """Return the end of a job that nobody can run any more, and why; None for all others."""
    if row.state == jobs.SUBMITTED and row.requested_at + MAX_EVENT_AGE + _MARGIN < now:
        return jobs.FAILED, _NO_ROOM
    if row.deadline is None or now < row.deadline:
        return None
    ends = {jobs.RUNNING: jobs.FAILED, jobs.CANCELLING: jobs.CANCELLED}
    return (ends[row.state], _NO_WORD) if row.state in ends else None


def _job(row: Jobs) -> Job:
    state = JobState(row.state)
    return Job(
        row.job_id,
        state,
        row.context_uri,
        details=row.details or "",
        started_at=row.started_at,
        ended_at=row.ended_at,
        # It was throttled until Lambda forgot it.
        lacked_capacity=state is JobState.FAILED and row.started_at is None,
        usage=_usage(row) if state.is_over else None,
    )


def _usage(row: Jobs) -> Usage:
    if row.memory_mb is None or row.started_at is None or row.ended_at is None:
        return Usage()
    seconds, memory_gb = (row.ended_at - row.started_at).total_seconds(), row.memory_mb / 1024
    price = _PRICES.get(row.architecture or "", _PRICES["x86_64"])
    return Usage(
        vcpu_hours=seconds / 3600 * row.memory_mb / _MB_PER_VCPU,
        memory_gb_hours=seconds / 3600 * memory_gb,
        cost=seconds * memory_gb * price + _PRICE_OF_REQUEST,
    )


# Logs.


def _log_group() -> str:
    return f"/aws/lambda/{settings.current().require('task_function')}"


def _log_filter(job_id: str, stream: str) -> str:
    # Its name may have any characters, but ends with its fingerprint.
    fingerprint = job_id.rpartition("#")[2]
    return f'{{ ($.job = "*#{fingerprint}") && ($.stream = "{stream}") }}'


def _log_lines(row: Jobs, stream: str) -> Iterator[str]:
    pages = aws.client("logs").get_paginator("filter_log_events")
    since = row.requested_at - _MARGIN
    found = pages.paginate(
        logGroupName=_log_group(),
        filterPattern=_log_filter(row.job_id, stream),
        startTime=int(since.timestamp() * 1000),
    )
    for page in found:
        for event in page["events"]:
            line = _line(event["message"])
            if line.get("job") == row.job_id and line.get("stream") == stream:
                yield f"{line.get('message')}\n"


def _line(text: str) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except ValueError:  # what Lambda itself has to say
        return {}
    return line if isinstance(line, dict) else {}
