"""The executor of state machines on an emulator that others have written."""

from collections.abc import Iterator
from dataclasses import replace

import boto3
import pytest
from moto import mock_aws
from pendulum import datetime

from lamplighter import DAG, StepFunctionsTask, runtime
from lamplighter.errors import RefusedError
from lamplighter.executors.base import JobRequest, JobState, Submission
from lamplighter.executors.step_functions import StepFunctions
from lamplighter.settings import Settings

CONTEXT = "s3://bucket/jobs/orders/r/export/1-0123456789ab/context.json"
TOKEN = "0123456789ab" * 4
ABOUT = {"context_uri": CONTEXT, "execution": TOKEN}
REQUEST = JobRequest(
    token=TOKEN,
    name="orders/r/export/1#0123456789ab",
    context_uri=CONTEXT,
    bundle_uri="s3://bucket/bundles/shop",
    state_machine="export",
    input={"lamplighter": ABOUT},
)


@pytest.fixture(autouse=True)
def executor(monkeypatch: pytest.MonkeyPatch) -> Iterator[StepFunctions]:
    """Yield the executor beside the only state machine of an emulated account."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        arn = boto3.client("stepfunctions").create_state_machine(
            name="export",
            definition='{"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}}',
            roleArn="arn:aws:iam::123456789012:role/export",
        )["stateMachineArn"]
        given = Settings(
            state_machines=("export", "gone"), state_machine_prefix=arn.removesuffix("export")
        )
        with runtime.using(settings=given, new_clients=True):
            yield StepFunctions()


def test_execution_is_started_once_and_found(executor: StepFunctions) -> None:
    """A name that is known is refused there, which is no error here: it is the same execution."""
    dag = DAG("orders", schedule=None)
    task = StepFunctionsTask("export", dag=dag, state_machine="export")
    submission = Submission("", REQUEST.token, datetime(2026, 1, 1), task)
    assert executor.find(submission) is None
    execution = executor.start(REQUEST)
    assert executor.start(REQUEST) == execution
    assert executor.find(submission) == execution
    assert execution.endswith(f":execution:export:{REQUEST.token}")


def test_execution_is_described_and_stopped(executor: StepFunctions) -> None:
    """It runs until it is stopped; stopping it again, or one that never was, is no error."""
    execution = executor.start(REQUEST)
    job = executor.describe(execution)
    assert job is not None
    assert (job.state, job.context_uri, job.report) == (JobState.RUNNING, CONTEXT, None)
    executor.cancel(execution)
    executor.cancel(execution)
    job = executor.describe(execution)
    assert job is not None
    assert (job.state, job.report) == (JobState.CANCELLED, {})
    assert job.ended_at is not None
    executor.cancel(f"{execution}-another")
    assert executor.describe(f"{execution}-another") is None


def test_state_machine_that_is_gone_is_refused(executor: StepFunctions) -> None:
    """It costs the step a try, and says which one it was."""
    with pytest.raises(RefusedError, match="gone"):
        executor.start(replace(REQUEST, state_machine="gone"))
