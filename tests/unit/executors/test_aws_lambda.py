"""What a row says of a job on Lambda, when it is given up, what it costs, and Lambda's errors."""

from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError
from pendulum import datetime

from lamplighter import DAG, PythonTask, aws, clock, runtime
from lamplighter.clock import FixedClock
from lamplighter.errors import PermanentError, ThrottledError, TransientError
from lamplighter.executors.aws_lambda import LambdaFunction
from lamplighter.executors.base import Job, JobRequest, Usage
from lamplighter.settings import Settings
from lamplighter.store import jobs
from lamplighter.store.models import Jobs

NOON = datetime(2026, 1, 5, 12)
NAME = "orders/first/load/1#0123456789ab"
REQUEST = JobRequest("token", NAME, "s3://lake/context.json", "s3://lake/bundle.zip")
ARN = "arn:aws:lambda:eu-central-1:111111111111:function:prod-{}:$LATEST"


@pytest.fixture(autouse=True)
def deployment() -> Iterator[None]:
    """Let the function have a name, and let it be noon."""
    with runtime.using(settings=Settings(task_function="prod-task"), clock=FixedClock(NOON)):
        yield


def row(state: str, **columns: Any) -> Jobs:
    """Return the row of a job that was requested a minute ago."""
    given = {"requested_at": NOON.subtract(minutes=1), **columns}
    return Jobs(NAME, state=state, context_uri="s3://lake/context.json", **given)


def described(before: Jobs, after: Jobs | None = None) -> tuple[Job, list[tuple[str, str]]]:
    """Return a job as the executor sees it, and the ends by which it was given up."""
    rows, ends = iter([before, after or before]), []
    with (
        patch.object(jobs, "read_job", lambda _: next(rows)),
        patch.object(jobs, "give_up_job", lambda job, *end: ends.append((job.state, *end[:1]))),
    ):
        job = LambdaFunction().describe(NAME)
    assert job is not None
    return job, ends


@pytest.mark.parametrize(
    ("before", "end"),
    [
        (row("SUBMITTED", requested_at=NOON.subtract(minutes=64)), None),
        (row("SUBMITTED", requested_at=NOON.subtract(minutes=66)), "FAILED"),
        (row("RUNNING", deadline=NOON.add(seconds=1)), None),
        (row("RUNNING", deadline=NOON), "FAILED"),
        (row("CANCELLING", deadline=NOON), "CANCELLED"),
        (row("CANCELLING", deadline=NOON.add(seconds=1)), None),
        (row("SUCCESS", deadline=NOON.subtract(hours=1)), None),
        (row("CANCELLED", requested_at=NOON.subtract(days=1)), None),
    ],
)
def test_job_is_given_up_when_nobody_can_run_it(before: Jobs, end: str | None) -> None:
    """One that Lambda has forgotten, and one whose invocation is certainly dead; no other."""
    _, ends = described(before)
    assert ends == ([] if end is None else [(before.state, end)])


def test_given_up_job_is_read_again() -> None:
    """Whoever was quicker has decided: the row counts, and not what was wanted."""
    overdue = row("RUNNING", deadline=NOON)
    job, _ = described(overdue, row("SUCCESS", started_at=NOON, ended_at=NOON))
    assert job.state == "SUCCESS"


@pytest.mark.parametrize(
    ("columns", "lacked_capacity"), [({}, True), ({"started_at": NOON}, False)]
)
def test_job_that_never_began_lacked_capacity(
    columns: dict[str, Any], lacked_capacity: bool
) -> None:
    """It was throttled until it was forgotten, which costs no try and no money."""
    job, _ = described(row("FAILED", ended_at=NOON, **columns))
    assert (job.lacked_capacity, job.usage) == (lacked_capacity, Usage())


@pytest.mark.parametrize(
    ("architecture", "price"), [("arm64", 0.0000133334), ("x86_64", 0.0000166667)]
)
def test_cost_is_that_of_time_and_memory(architecture: str, price: float) -> None:
    """An hour of 2 GB at the list price, and one request."""
    times = {"started_at": NOON, "ended_at": NOON.add(hours=1)}
    job, _ = described(row("SUCCESS", memory_mb=2_048, architecture=architecture, **times))
    assert job.usage is not None
    assert job.usage.memory_gb_hours == pytest.approx(2)
    assert job.usage.vcpu_hours == pytest.approx(2_048 / 1_769)
    assert job.usage.cost == pytest.approx(7_200 * price + 0.0000002)


def test_job_that_runs_has_no_cost_yet() -> None:
    """It is known when it is over."""
    job, _ = described(row("RUNNING", deadline=NOON.add(hours=1), started_at=NOON))
    assert (job.usage, job.started_at) == (None, NOON)


def test_task_may_take_as_long_as_an_invocation_leaves_it() -> None:
    """Half a minute is for the end; a task that wants more is refused when it is registered."""
    with runtime.using(settings=Settings(task_timeout_seconds=300)), DAG("a"):
        fits = PythonTask("fits", job="a:b", execution_timeout=timedelta(seconds=270))
        late = PythonTask("late", job="a:b", execution_timeout=timedelta(seconds=271))
        assert LambdaFunction().check(fits) == []
        (problem,) = LambdaFunction().check(late)
    assert problem == (
        "execution_timeout: 0:04:31 is longer than lambda lets a job run: use at most 0:04:30, or"
        " split the task"
    )


@pytest.mark.parametrize(
    ("event", "job"),
    [
        ({"requestContext": {"functionArn": ARN.format("task")}}, NAME),
        ({"requestContext": {"functionArn": ARN.format("other")}}, None),
        ({"detail-type": "EMR Serverless Job Run State Change"}, None),
        ({}, None),
    ],
)
def test_end_of_an_invocation_names_its_job(event: dict[str, Any], job: str | None) -> None:
    """Only those of our function are ours; what became of the job is in its row."""
    payload = {"requestPayload": {"job": NAME}}
    assert LambdaFunction().read_event({**event, **payload}) == job


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("TooManyRequestsException", ThrottledError),
        ("ServiceException", TransientError),
        ("AccessDeniedException", PermanentError),
        (ConnectTimeoutError(endpoint_url="https://lambda"), TransientError),
    ],
)
def test_errors_of_lambda_say_who_acts(error: Any, kind: type[Exception]) -> None:
    """A throttle and a busy service are tried again; a missing right is an operator's."""

    def invoke(**_: object) -> None:
        if isinstance(error, str):
            raise ClientError({"Error": {"Code": error, "Message": "no"}}, "Invoke")
        raise error

    client = SimpleNamespace(invoke=invoke)
    with (
        patch.object(aws, "client", lambda _: client),
        patch.object(jobs, "request_job"),
        pytest.raises(kind) as raised,
    ):
        LambdaFunction().start(REQUEST)
    assert type(raised.value) is kind
    assert clock.now() == NOON
