"""Python tasks under a fault at every single call: no step ever has two live executions.

The stories are those of `test_runs`, told of Python tasks; what differs on Lambda is said here.
And the calls of the function `task` itself fail, one by one, while it runs a job.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import DAG, PythonTask, aws
from lamplighter.executors import python_job
from lamplighter.executors.aws_lambda import LambdaFunction
from lamplighter.executors.claimed_job import Ended
from lamplighter.executors.python_job import Host, run_job
from lamplighter.serialization import decode_dag, encode_dag
from lamplighter.store.jobs import cancel_job, request_job
from lamplighter.store.rows import connection
from lamplighter_local.aws_lambda.fake_lambda import FakeLambda
from lamplighter_local.emr.fake_emr import FakeEmr, Outcome
from lamplighter_local.stack import local_stack
from lamplighter_operations.runs import cancel_run
from tests.faults import test_runs as runs
from tests.faults.reports import Report, each
from tests.faults.test_runs import MIDNIGHT, Overtaking, Scenario, Story
from tests.tools.faults import Crash, Faults, crash_points
from tests.tools.snapshot import begin_anew

NAME = "orders/first/load/1#0123456789ab"


def in_python(dag: DAG) -> DAG:
    """Return a DAG with Python tasks in place of those for Spark."""
    document = encode_dag(dag)
    kept = {"task_id", "groups", "downstream", *PythonTask.OPTIONS}
    tasks = [
        {**{name: value for name, value in task.items() if name in kept}, "kind": "python"}
        for task in document["tasks"]
    ]
    return decode_dag({**document, "tasks": tasks})


def told_of_python(scenario: Scenario, **changes: Any) -> Scenario:
    """Return a scenario with Python tasks."""
    return replace(scenario, dags=tuple(map(in_python, scenario.dags)), **changes)


# What can only happen on EMR Serverless.
_OF_EMR = {"a job without capacity", "a start that EMR refuses"}
SCENARIOS = {
    name: told_of_python(scenario)
    for name, scenario in runs.SCENARIOS.items()
    if name not in _OF_EMR and "started" not in name and "no row knows" not in name
}
# The process is ended by the function itself, which then says so.
_timeout = SCENARIOS["an execution timeout"]
SCENARIOS["an execution timeout"] = replace(_timeout, jobs=["dag/t#1 FAILED"])
_HANGS = runs.plan_jobs("t", Outcome.hangs())
SCENARIOS["a cancel before the job was started"] = told_of_python(
    runs.SCENARIOS["a cancel before the job was started"],
    arrange=runs.start_and(_HANGS, runs.die_at("Invoke", "crash-before")),
)
SCENARIOS["a cancel of a job that no row knows"] = told_of_python(
    runs.SCENARIOS["a cancel of a job that no row knows"],
    arrange=runs.start_and(_HANGS, runs.die_at("Invoke", "crash-after")),
)


def throttle(story: Story, *, is_throttled: bool) -> None:
    """Let Lambda have no room, or room again."""
    assert isinstance(story.emr, FakeLambda)
    story.emr.is_throttled = is_throttled


SCENARIOS["an hour without room"] = Scenario(
    dags=(in_python(runs.ONE),),
    arrange=runs.start_and(
        lambda story: throttle(story, is_throttled=True),
        runs.pass_time(minutes=70),
        lambda story: throttle(story, is_throttled=False),
    ),
    act=runs.pass_time(minutes=40),
    runs=["dag success t=success/1"],
    events={"a": 1},
    jobs=["dag/t#1 FAILED", "dag/t#2 SUCCESS"],
)

OVERTAKINGS = {
    name: replace(
        overtaking,
        dags=tuple(map(in_python, overtaking.dags)),
    )
    for name, overtaking in runs.OVERTAKINGS.items()
    if not name.startswith("late ")
}
# Long enough to be alive in all that follows, and not too long for Lambda.
_LONG = runs.plan_jobs("t", Outcome(takes=600))
OVERTAKINGS["submit by clear"] = replace(
    OVERTAKINGS["submit by clear"], arrange=runs.start_and(_LONG)
)
OVERTAKINGS["late submit by cancel"] = Overtaking(
    dags=(in_python(runs.ONE),),
    arrange=runs.start_and(_HANGS, runs.die_at("Invoke", "crash-before"), runs.wait_for_long),
    first=runs.submit,
    meanwhile=runs.all_of(runs.once(cancel_run), runs.settle),
    runs=frozenset({"dag cancelled t=failed"}),
)


@pytest.fixture(name="story", scope="module")
def make_story() -> Iterator[Story]:
    """Yield a deployment for all scenarios: to make one takes as long as some of them."""
    with ExitStack() as until_the_end:
        stack = until_the_end.enter_context(local_stack(at=MIDNIGHT, on=FakeEmr()))
        made = replace(stack.settings, due_shards=1, run_shards=1)
        stack.settings = made
        assert stack.execution is not None
        fake = stack.execution.fakes["python"]
        assert isinstance(fake, FakeLambda)
        yield Story(stack, fake)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_fault_at_some_calls_doubles_no_job(name: str, story: Story, report: Report) -> None:
    """Whichever call fails, the run becomes what it would have been, with as many jobs."""
    report(f"python, {name}", *runs.strike(SCENARIOS[name], story, runs.some_points))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_ends_told_badly_change_nothing(name: str, story: Story, report: Report) -> None:
    """What a destination gets late, twice or never leads to the same end."""
    report(f"python, {name}, misheard", *runs.mishear(SCENARIOS[name], story, range(3)))


@pytest.mark.slow
@pytest.mark.parametrize("name", OVERTAKINGS)
def test_overtaken_function_doubles_no_job(name: str, story: Story, report: Report) -> None:
    """Whatever someone else does in the middle, no step has two jobs and none is left behind."""
    report(f"python, {name}, overtaken", *runs.overtake(OVERTAKINGS[name], story, runs.SOME))


@pytest.mark.full
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_fault_at_every_call_doubles_no_job(name: str, story: Story, report: Report) -> None:
    """As above, with every fault at every call."""
    report(f"python, {name}", *runs.strike(SCENARIOS[name], story, runs.all_points))


@pytest.mark.full
@pytest.mark.parametrize("name", SCENARIOS)
def test_ends_told_badly_in_many_ways_change_nothing(
    name: str, story: Story, report: Report
) -> None:
    """As above, with many more seeds."""
    report(f"python, {name}, misheard", *runs.mishear(SCENARIOS[name], story, range(12)))


@pytest.mark.full
@pytest.mark.parametrize("name", OVERTAKINGS)
def test_function_overtaken_at_every_call_doubles_no_job(
    name: str, story: Story, report: Report
) -> None:
    """As above, before every single call."""
    report(f"python, {name}, overtaken", *runs.overtake(OVERTAKINGS[name], story, limit=1_000))


# The function `task`.


class Process:
    """Stands for the process of a job: it counts, and what comes meanwhile comes."""

    started = 0

    def __init__(self, *_: object) -> None:
        Process.started += 1

    def run(self, *_: object, is_cancelled: Callable[[], bool], **__: object) -> Ended:
        """Return how it ends: well, unless somebody has asked for another end."""
        if is_cancelled():
            return Ended(details="cancelled")
        return Ended({"version": 1, "state": "success", "reason": None, "outlets": {}})


def _request(bucket: str) -> None:
    uri = f"s3://{bucket}/jobs/orders/first/load/1-0123456789ab/context.json"
    bucket_, key = aws.bucket_and_key(uri)
    context = b'{"dag_id": "orders", "task_id": "load", "report_secret": "secret"}'
    aws.client("s3").put_object(Bucket=bucket_, Key=key, Body=context)
    request_job(NAME, context_uri=uri, bundle_uri=f"s3://{bucket}/b/c.zip", timeout=None)


def _run(faults: Faults) -> None:
    """Run the job once under faults, as an invocation that may die."""
    clients = connection().client, aws.client("s3")
    with faults.on(*clients), suppress(Crash, *runs.OF_SERVICES):
        run_job(NAME, Host(900, 1_024, print))


def _tell(story: Story, faults: Faults, *, is_cancelled: bool) -> list[str]:
    """Let the function die or fail at a call, come again, and be asked about when all is over."""
    begin_anew(story.stack, at=MIDNIGHT)
    Process.started = 0
    _request(story.stack.settings.bucket)
    _run(faults)
    if is_cancelled:
        cancel_job(NAME)
    _run(Faults())
    early = LambdaFunction().describe(NAME)
    story.stack.clock.advance(timedelta(hours=2))
    job = LambdaFunction().describe(NAME)
    _run(Faults())
    late = LambdaFunction().describe(NAME)
    assert early is not None
    assert job is not None
    wrong = [] if Process.started <= 1 else [f"it was run {Process.started} times"]
    if not job.state.is_over:
        wrong.append(f"it is {job.state} for ever")
    if late != job or (early.state.is_over and early.state is not job.state):
        wrong.append(f"it was {early.state}, then {job.state}, and then {late}")
    if not Process.started and job.started_at is None and job.state == "SUCCESS":
        wrong.append("it has never run, and has succeeded")
    return [f"{faults.injected}: {text}" for text in wrong]


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_fault_at_every_call_of_the_function_runs_a_job_once(
    story: Story, report: Report, is_cancelled: bool
) -> None:
    """Whichever of its calls fails, and however often it comes again, a job is run once at most.

    It always has an end, which never changes, and no late invocation runs it after that.
    """
    wrong: list[str] = []
    with (
        patch.object(python_job, "JobProcess", Process),
        patch.object(python_job, "_unpacked", lambda _, folder: folder),
    ):
        counted = Faults()
        assert _tell(story, counted, is_cancelled=is_cancelled) == []
        points = list(crash_points(counted.calls))
        for kind, number in each(points):
            faults = Faults()
            faults.at(number, kind)
            wrong += _tell(story, faults, is_cancelled=is_cancelled)
    report(f"the function task, cancelled: {is_cancelled}", len(points), wrong)
