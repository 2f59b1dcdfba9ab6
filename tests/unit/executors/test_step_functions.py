"""Executions of state machines: how they are started, found, described, stopped and heard of."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from pendulum import datetime

from lamplighter import DAG, StepFunctionsTask, runtime
from lamplighter.errors import (
    PermanentError,
    RefusedError,
    ThrottledError,
    TransientError,
)
from lamplighter.executors import step_functions
from lamplighter.executors.base import JobRequest, JobState, Submission
from lamplighter.executors.step_functions import EVENT_TYPE, StepFunctions
from lamplighter.runs.job_request import read_report
from lamplighter.settings import Settings
from lamplighter_local.emr.scripts import Outcome
from lamplighter_local.movable_clock import MovableClock
from lamplighter_local.step_functions.fake import FakeStepFunctions

NOON = datetime(2026, 2, 1, 12)
PREFIX = "arn:aws:states:us-east-1:111111111111:stateMachine:"
TOKEN = "0123456789ab" * 4
EXECUTION = f"arn:aws:states:us-east-1:111111111111:execution:export:{TOKEN}"
CONTEXT = "s3://bucket/jobs/orders/r/export/1-0123456789ab/context.json"
ABOUT = {"context_uri": CONTEXT, "execution": TOKEN}
REQUEST = JobRequest(
    token=TOKEN,
    name="orders/r/export/1#0123456789ab",
    context_uri=CONTEXT,
    bundle_uri="s3://bucket/bundles/shop",
    state_machine="export",
    input={"day": "2026-01-31", "lamplighter": ABOUT},
)


@pytest.fixture(autouse=True)
def region(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients be made that nobody but the fake answers."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")


@pytest.fixture(name="time")
def movable_clock() -> Iterator[MovableClock]:
    """Let it be noon in a deployment that may start one state machine."""
    settings = Settings(state_machines=("export",), state_machine_prefix=PREFIX)
    movable = MovableClock(NOON)
    with runtime.using(clock=movable, settings=settings, new_clients=True):
        yield movable


@pytest.fixture
def fake(time: MovableClock) -> Iterator[FakeStepFunctions]:
    """Yield a fake Step Functions that checks requests against the service's own model."""
    assert time.now() == NOON
    made = FakeStepFunctions()
    with made.answering():
        yield made


def task(state_machine: str = "export", **options: Any) -> StepFunctionsTask:
    """Return a task for a state machine."""
    dag = DAG("orders", schedule=None)
    return StepFunctionsTask("export", dag=dag, state_machine=state_machine, **options)


def submission(of: StepFunctionsTask | None = None) -> Submission:
    """Return the submission of the request."""
    return Submission(REQUEST.name, TOKEN, NOON, of or task())


def ended(fake: FakeStepFunctions, time: MovableClock, outcome: Outcome) -> Any:
    """Return the job of an execution that has ended like this."""
    fake.next_outcome("orders", "export", outcome)
    StepFunctions().start(REQUEST)
    time.advance(timedelta(seconds=5))
    return StepFunctions().describe(EXECUTION)


def test_same_request_again_is_the_same_execution(
    fake: FakeStepFunctions, time: MovableClock
) -> None:
    """A submission starts one execution, whether it still runs or is over when it is sent again."""
    assert StepFunctions().start(REQUEST) == EXECUTION
    assert StepFunctions().start(REQUEST) == EXECUTION
    time.advance(timedelta(days=80))
    assert StepFunctions().start(REQUEST) == EXECUTION
    assert StepFunctions().start(replace(REQUEST, input={})) == EXECUTION
    assert [each.name for each in fake.executions] == [TOKEN]


def test_execution_is_found_by_its_submission(fake: FakeStepFunctions) -> None:
    """Its name is the token, so it is found although nobody has noted its ARN."""
    assert StepFunctions().find(submission()) is None
    StepFunctions().start(REQUEST)
    assert StepFunctions().find(submission()) == EXECUTION
    assert StepFunctions().find(submission(task(f"{PREFIX}export"))) == EXECUTION
    assert fake.calls["DescribeExecution"] == 3


def test_execution_that_runs_is_described(fake: FakeStepFunctions) -> None:
    """It says since when it runs and which submission it is for."""
    fake.next_outcome("orders", "export", Outcome.hangs())
    StepFunctions().start(REQUEST)
    job = StepFunctions().describe(EXECUTION)
    assert job is not None
    assert (job.state, job.context_uri, job.started_at) == (JobState.RUNNING, CONTEXT, NOON)
    assert (job.ended_at, job.report, job.usage) == (None, None, None)


@pytest.mark.parametrize(
    ("outcome", "state", "details"),
    [
        (Outcome(), JobState.SUCCESS, ""),
        (Outcome.failed("no such table"), JobState.FAILED, "Failed: no such table"),
        (Outcome("CANCELLED"), JobState.CANCELLED, "Failed"),
        (Outcome.skipped("nothing new"), JobState.SUCCESS, "SkipStep: nothing new"),
    ],
)
def test_end_of_an_execution_is_that_of_the_job(
    fake: FakeStepFunctions, time: MovableClock, outcome: Outcome, state: JobState, details: str
) -> None:
    """Error and cause are what there is to say about it; it never names a cost."""
    job = ended(fake, time, outcome)
    assert (job.state, job.details, job.usage) == (state, details, None)
    assert (job.started_at, job.ended_at) == (NOON, NOON.add(seconds=1))
    report = read_report(job)
    is_skipped = outcome.report is not None and outcome.report["state"] == "skipped"
    assert (report.is_skipped, report.is_trusted) == (is_skipped, True)
    assert report.reason == ("nothing new" if is_skipped else None)


@pytest.mark.parametrize(
    ("output", "outputs", "problem"),
    [
        ({"rows": 3}, {"rows": 3}, None),
        ([1, 2], {"output": [1, 2]}, None),
        ("done", {"output": "done"}, None),
        ({"rows": "x" * 40_000}, {}, "outputs"),
    ],
)
def test_output_is_the_result(
    fake: FakeStepFunctions,
    time: MovableClock,
    output: object,
    outputs: object,
    problem: str | None,
) -> None:
    """An object is it as a whole, another value is named `output`; one too long is refused."""
    fake.functions["export"] = lambda _: output
    report = read_report(ended(fake, time, Outcome()))
    assert report.outputs == outputs
    assert (report.problem is None) == (problem is None)
    assert (problem or "") in (report.problem or "")


def test_output_nested_too_deeply_is_no_result() -> None:
    """The step succeeds all the same, and says what is wrong."""
    said = {"executionArn": EXECUTION, "name": TOKEN, "status": "SUCCEEDED"}
    with patch.object(step_functions, "_call", return_value={**said, "output": "[" * 100_000}):
        job = StepFunctions().describe(EXECUTION)
    assert job is not None
    report = read_report(job)
    assert (job.state, report.outputs) == (JobState.SUCCESS, {})
    assert "outputs" in str(report.problem)


def test_text_that_utf_8_cannot_hold_is_sent_as_far_as_it_can(fake: FakeStepFunctions) -> None:
    """A lone surrogate, which JSON may contain, does not keep a step from starting."""
    StepFunctions().start(replace(REQUEST, input={"name": "\ud800é"}))
    (execution,) = fake.executions
    assert json.loads(execution.input) == {"name": "?é"}


def test_function_that_raises_fails_its_execution(
    fake: FakeStepFunctions, time: MovableClock
) -> None:
    """The error has the name of the exception, which may be the one that skips."""

    def fail(_: object) -> object:
        raise LookupError("no rate of today")

    fake.functions["export"] = fail
    job = ended(fake, time, Outcome())
    assert (job.state, job.details) == (JobState.FAILED, "LookupError: no rate of today")


def test_execution_that_nobody_knows_is_none(fake: FakeStepFunctions, time: MovableClock) -> None:
    """It may never have been started, or have ended long ago; cancelling it is no error."""
    assert StepFunctions().describe(EXECUTION) is None
    StepFunctions().cancel(EXECUTION)
    StepFunctions().start(REQUEST)
    time.advance(timedelta(days=91))
    assert StepFunctions().describe(EXECUTION) is None
    assert fake.live() == []


def test_execution_of_others_is_of_no_step(fake: FakeStepFunctions) -> None:
    """Neither one that names no context, nor one that our input was handed on to."""
    handed_on = json.dumps({"lamplighter": ABOUT})
    for number, given in enumerate(("{}", "[]", '"text"', '{"lamplighter": 1}', handed_on)):
        arn = fake.call(
            "StartExecution",
            {"stateMachineArn": f"{PREFIX}export", "name": str(number), "input": given},
        )["executionArn"]
        job = StepFunctions().describe(arn)
        assert job is not None
        assert job.context_uri == ""


def test_cancel_stops_the_execution_once(fake: FakeStepFunctions, time: MovableClock) -> None:
    """Who cancels is named as the cause; after its end nothing changes any more."""
    fake.next_outcome("orders", "export", Outcome.hangs())
    StepFunctions().start(REQUEST)
    StepFunctions().cancel(EXECUTION)
    time.advance(timedelta(hours=1))
    StepFunctions().cancel(EXECUTION)
    job = StepFunctions().describe(EXECUTION)
    assert job is not None
    assert (job.state, job.ended_at) == (JobState.CANCELLED, NOON)
    assert job.details == "Lamplighter has cancelled it"


@pytest.mark.parametrize(
    "named",
    [
        "import",
        "arn:aws:states:us-east-1:111111111111:stateMachine:import",
        "arn:aws:states:us-east-1:222222222222:stateMachine:export",
    ],
)
def test_state_machine_that_no_flag_names_is_refused(fake: FakeStepFunctions, named: str) -> None:
    """The definition is refused, and whatever gets beyond it; the error names the flag."""
    (problem,) = StepFunctions().check(task(named))
    assert "may not start" in problem
    assert "the flag state_machines" in problem
    with pytest.raises(RefusedError, match="state_machines"):
        StepFunctions().start(replace(REQUEST, state_machine=named))
    with pytest.raises(PermanentError, match=r"task 'export': .*state_machines"):
        StepFunctions().find(submission(task(named)))
    assert fake.calls == {}


@pytest.mark.usefixtures("time")
@pytest.mark.parametrize("named", ["export", f"{PREFIX}export"])
def test_state_machine_that_a_flag_names_is_accepted(named: str) -> None:
    """A task names it shortly or wholly."""
    assert StepFunctions().check(task(named)) == []


def test_input_too_long_is_refused(fake: FakeStepFunctions) -> None:
    """Nothing is sent; the text says what to do instead."""
    with pytest.raises(RefusedError, match=r"262,15\d bytes.*put it into S3"):
        StepFunctions().start(replace(REQUEST, input={"text": "x" * 262_144}))
    assert fake.calls == {}


@pytest.mark.usefixtures("time")
def test_express_state_machine_is_refused() -> None:
    """Its executions could not be found again, so that a step might have two."""
    answer = {"executionArn": EXECUTION.replace(":execution:", ":express:") + ":another"}
    with (
        patch.object(step_functions, "_call", return_value=answer),
        pytest.raises(RefusedError, match=r"'export' is EXPRESS.*STANDARD"),
    ):
        StepFunctions().start(REQUEST)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("ThrottlingException", ThrottledError),
        ("KmsThrottlingException", ThrottledError),
        ("ExecutionLimitExceeded", TransientError),
        ("ServiceUnavailable", TransientError),
        ("StateMachineDoesNotExist", RefusedError),
        ("StateMachineDeleting", RefusedError),
        ("InvalidExecutionInput", RefusedError),
        ("InvalidArn", RefusedError),
        ("AccessDeniedException", PermanentError),
    ],
)
def test_refusals_are_told_apart(fake: FakeStepFunctions, code: str, kind: type[Exception]) -> None:
    """Some come again by themselves, some cost a try, and some need an operator."""
    fake.refuse_next("StartExecution", code)
    with pytest.raises(kind) as refused:
        StepFunctions().start(REQUEST)
    assert type(refused.value) is kind


@pytest.mark.usefixtures("time")
@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="https://states"),
        ClientError(
            {"Error": {"Code": "Unheard"}, "ResponseMetadata": {"HTTPStatusCode": 503}},
            "StartExecution",
        ),
    ],
)
def test_service_out_of_reach_is_asked_again(error: Exception) -> None:
    """Nobody has to act."""
    with (
        patch("botocore.client.BaseClient._make_api_call", side_effect=error),
        pytest.raises(TransientError),
    ):
        StepFunctions().start(REQUEST)


@pytest.mark.usefixtures("time")
@pytest.mark.parametrize(
    ("kind", "machine", "is_ours"),
    [
        (EVENT_TYPE, "export", True),
        (EVENT_TYPE, "import", False),
        ("EMR Serverless Job Run State Change", "export", False),
    ],
)
def test_event_is_read_if_it_is_of_a_named_state_machine(
    kind: str, machine: str, is_ours: bool
) -> None:
    """An event only names an execution."""
    detail = {"executionArn": EXECUTION, "stateMachineArn": f"{PREFIX}{machine}"}
    found = StepFunctions().read_event({"detail-type": kind, "detail": detail})
    assert found == (EXECUTION if is_ours else None)


def test_history_is_read_as_lines(fake: FakeStepFunctions, time: MovableClock) -> None:
    """Each event is one line, with when, what and its details; an unknown execution has none."""
    assert StepFunctions().read_log(EXECUTION, "history") is None
    ended(fake, time, Outcome.failed("no"))
    lines = list(StepFunctions().read_log(EXECUTION, "history") or ())
    assert [line.split()[:2] for line in lines] == [
        ["2026-02-01T12:00:00+00:00", "ExecutionStarted"],
        ["2026-02-01T12:00:01+00:00", "ExecutionFailed"],
    ]
    assert lines[1].endswith(' {"error": "Failed", "cause": "no"}\n')


@pytest.mark.parametrize(
    ("partition", "host"),
    [
        ("aws", "eu-central-1.console.aws.amazon.com"),
        ("aws-cn", "eu-central-1.console.amazonaws.cn"),
        ("aws-us-gov", "eu-central-1.console.amazonaws-us-gov.com"),
    ],
)
def test_console_has_a_page_of_each_execution(partition: str, host: str) -> None:
    """Its address follows from the ARN."""
    arn = f"arn:{partition}:states:eu-central-1:111111111111:execution:export:{TOKEN}"
    place = f"states/home?region=eu-central-1#/v2/executions/details/{arn}"
    assert StepFunctions().ui_url(arn) == f"https://{host}/{place}"
