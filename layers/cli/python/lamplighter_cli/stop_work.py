"""Stops a deployment before it is deleted: its timers, its queues, its jobs, its applications.

Owns: the order. EMR Serverless does not stop an application while jobs run, and a function that is
still triggered would start the next job. Each step can be repeated.
"""

from collections.abc import Callable, Iterable
from typing import Any

from botocore.exceptions import ClientError

from lamplighter import aws, clock
from lamplighter.errors import RefusedError

Say = Callable[[str], None]

_STOPPED = frozenset({"CREATED", "STOPPED", "TERMINATED"})
_LIVE = ["SUBMITTED", "PENDING", "SCHEDULED", "RUNNING", "QUEUED", "CANCELLING"]
_CANCELLING = "CANCELLING"
_GONE = "ResourceNotFoundException"
# A mapping that is being changed by something else, such as the `destroy` before this one.
_BUSY = frozenset({"ResourceInUseException", "ResourceConflictException"})
# A job that has just ended or started, or too many requests at once: the next round looks again.
_NEXT_ROUND = frozenset(
    {"ValidationException", "ConflictException", "InternalServerException", _GONE}
    | {"ThrottlingException", "TooManyRequestsException"}
)
_LIMIT_SECONDS = 600
_POLL_SECONDS = 5
# EMR Serverless allows one call a second for each account and Region.
_CANCEL_SECONDS = 1


class _Patience:
    """Waits, up to a limit that several waits share."""

    def __init__(self) -> None:
        self._left = _LIMIT_SECONDS

    def sleep(self, seconds: int) -> None:
        clock.sleep(seconds)
        self._left -= seconds

    @property
    def is_over(self) -> bool:
        return self._left <= 0


def stop_scheduling(rules: Iterable[str], mappings: Iterable[str]) -> None:
    """Disable rules of EventBridge and event source mappings, so that no job is started."""
    for rule in rules:
        # CloudFormation puts the bus before the name, unless it is the default one.
        *bus, name = rule.split("|")
        arguments = {"Name": name, **({"EventBusName": bus[0]} if bus else {})}
        _unless_gone(aws.client("events").disable_rule, **arguments)
    patience = _Patience()
    for mapping in mappings:
        _disable_mapping(mapping, patience)


def _disable_mapping(mapping: str, patience: _Patience) -> None:
    while True:
        try:
            _unless_gone(
                aws.client("lambda").update_event_source_mapping, UUID=mapping, Enabled=False
            )
        except ClientError as error:
            if _code(error) not in _BUSY:
                raise
        else:
            return
        if patience.is_over:
            raise RefusedError(
                f"event source mapping {mapping} is being changed: run the command again later"
            )
        patience.sleep(_POLL_SECONDS)


def stop_application(application: str, say: Say) -> None:
    """Cancel the live jobs of an application of EMR Serverless and stop it; wait for that."""
    client, patience, said = aws.client("emr-serverless"), _Patience(), ""
    while (state := _state_of(client, application)) not in _STOPPED:
        jobs = _live_jobs(client, application)
        line = f"application {application} is {state.lower()}, live jobs: {len(jobs)}"
        if line != said:
            say(line)
            said = line
        if patience.is_over:
            raise RefusedError(
                f"application {application} has not stopped in {_LIMIT_SECONDS // 60} minutes"
                f" ({state.lower()}, live jobs: {len(jobs)}): nothing was deleted; run the command"
                " again, or cancel its jobs in EMR Studio"
            )
        for job, its_state in jobs.items():
            if its_state != _CANCELLING:
                _in_some_round(client.cancel_job_run, applicationId=application, jobRunId=job)
                patience.sleep(_CANCEL_SECONDS)
        if not jobs and state == "STARTED":
            _in_some_round(client.stop_application, applicationId=application)
        patience.sleep(_POLL_SECONDS)


def _state_of(client: Any, application: str) -> str:
    try:
        found: str = client.get_application(applicationId=application)["application"]["state"]
    except ClientError as error:
        if _code(error) == _GONE:
            return "TERMINATED"
        raise
    return found


def _live_jobs(client: Any, application: str) -> dict[str, str]:
    """Return the states of jobs that have not ended, by id; none of an application that is gone."""
    pages = client.get_paginator("list_job_runs").paginate(applicationId=application, states=_LIVE)
    try:
        return {job["id"]: job["state"] for page in pages for job in page["jobRuns"]}
    except ClientError as error:
        if _code(error) == _GONE:
            return {}
        raise


def _unless_gone(call: Callable[..., Any], **arguments: Any) -> None:
    try:
        call(**arguments)
    except ClientError as error:
        if _code(error) != _GONE:
            raise


def _in_some_round(call: Callable[..., Any], **arguments: Any) -> None:
    try:
        call(**arguments)
    except ClientError as error:
        if _code(error) not in _NEXT_ROUND:
            raise


def _code(error: ClientError) -> str:
    return str(error.response["Error"]["Code"])
