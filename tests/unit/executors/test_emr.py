"""What EMR Serverless says of jobs and starts, and what that means."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import ClientError
from pendulum import datetime

from lamplighter import aws, runtime
from lamplighter.errors import RefusedError, TransientError
from lamplighter.executors.base import Job, JobRequest
from lamplighter.executors.emr import EmrServerless
from lamplighter.settings import Settings

DEPLOYMENT = Settings(
    bucket="lake", emr_application_id="00app", emr_job_role_arn="arn:aws:iam::1:role/jobs"
)
REQUEST = JobRequest("token", "name", "s3://lake/context.json", "s3://lake/bundle.zip")
GENERAL = "Job failed, please check complete logs in configured logging destination. ExitCode: 1."


def described(details: str, *, has_run: bool, state: str = "FAILED") -> Job:
    """Return a job as the executor sees it that ended with these details."""
    said: dict[str, Any] = {"jobRunId": "j-1", "state": state, "stateDetails": details}
    if has_run:
        said["startedAt"] = datetime(2026, 2, 1)
    meta = SimpleNamespace(region_name="us-east-1")
    client = SimpleNamespace(get_job_run=lambda **_: {"jobRun": said}, meta=meta)
    with runtime.using(settings=DEPLOYMENT), patch.object(aws, "client", lambda _: client):
        job = EmrServerless().describe("j-1")
    assert job is not None
    return job


@pytest.mark.parametrize("has_run", [False, True])
@pytest.mark.parametrize(
    "details",
    [
        (
            "Job failed as account has reached the service limit on the maximum vCPU it can use"
            " concurrently."
        ),
        "Job failed as application has exceeded maximumCapacity settings.",
        (
            "Job failed due to Worker could not be allocated as the application has exceeded"
            " maximumCapacity."
        ),
        (
            f"{GENERAL} Last few exceptions: ApplicationMaxCapacityExceededException: settings:"
            " [memory: 48 GB, disk: 200 GB]"
        ),
        f"{GENERAL} Abandoning job due to no executor being launched within 1200000ms",
    ],
)
def test_job_whose_workers_were_refused_lacked_capacity(details: str, has_run: bool) -> None:
    """The service's own texts mean a lack of capacity, also of a driver that has run."""
    assert described(details, has_run=has_run).lacked_capacity


@pytest.mark.parametrize(
    "details",
    ["Queue timeout reached", "vCPU quota exceeded", "capacity is short", "Throttled by EC2"],
)
def test_vague_text_means_capacity_only_before_the_job_ran(details: str) -> None:
    """A program's own error may speak of capacity; a job that never ran has no program's error."""
    assert described(details, has_run=False).lacked_capacity
    assert not described(f"{GENERAL} {details}", has_run=True).lacked_capacity


@pytest.mark.parametrize(
    ("details", "state"),
    [
        ("Could not assume execution role jobs because it does not exist", "FAILED"),
        ("ExitCode: 137 (Worker has been killed as memory usage exceeded)", "FAILED"),
        ("Job failed as application has exceeded maximumCapacity settings.", "CANCELLED"),
    ],
)
def test_other_end_is_no_lack_of_capacity(details: str, state: str) -> None:
    """A missing role, a lack of memory or a cancellation is not waited for."""
    assert not described(details, has_run=False, state=state).lacked_capacity


def start_refused_with(text: str) -> None:
    """Start a job that EMR Serverless refuses with this text."""
    error = {"Error": {"Code": "ValidationException", "Message": text}}

    def refuse(**_: Any) -> None:
        raise ClientError(error, "StartJobRun")

    client = SimpleNamespace(start_job_run=refuse)
    with runtime.using(settings=DEPLOYMENT), patch.object(aws, "client", lambda _: client):
        EmrServerless().start(REQUEST)


@pytest.mark.parametrize(
    "text",
    [
        "Application 00app is in STOPPING state",
        "Applications must be in one of the following statuses: [STARTING, STARTED]",
        "Application cannot run jobs: STOPPED",
    ],
)
def test_start_while_the_application_changes_state_is_transient(text: str) -> None:
    """An application that stops or starts takes the job a little later."""
    with pytest.raises(TransientError, match="the application cannot start jobs now"):
        start_refused_with(text)


@pytest.mark.parametrize(
    "text",
    [
        "1 validation error detected: Value at 'applicationId' failed to satisfy constraint",
        "Application 00app is in TERMINATED state",
        "Invalid spark.driver.memory: state it in GB",
        "executionTimeoutMinutes must be at most 10080",
    ],
)
def test_start_that_is_wrong_in_itself_is_refused(text: str) -> None:
    """Anything else would be refused again, and costs a try."""
    with pytest.raises(RefusedError, match="refuses the job"):
        start_refused_with(text)
