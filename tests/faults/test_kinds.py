"""One run with steps of all kinds under a fault at every single call: none is doubled or forgotten.

The scenarios of runs have one kind each. Here each step follows one of another kind and reads what
that has left, or all three are ready at once, so that a fault of one service comes between calls of
the others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from lamplighter import DAG, PythonTask, SparkTask, StepFunctionsTask
from lamplighter_local.aws_lambda.fake_lambda import FakePythonJob
from lamplighter_local.emr.events import EventFaults
from lamplighter_local.emr.fake_emr import FakeEmr, FakeJob, Outcome
from lamplighter_local.execution import Fake
from lamplighter_local.stack import local_stack
from lamplighter_local.step_functions.executions import FakeExecution
from lamplighter_operations.runs import cancel_run, clear_run, retry_run
from tests.faults import test_runs as runs
from tests.faults.reports import Report
from tests.faults.test_runs import (
    HANGS,
    JOB,
    MIDNIGHT,
    A,
    Act,
    Overtaking,
    Scenario,
    Story,
    all_of,
    all_points,
    mishear,
    once,
    pass_time,
    plan_jobs,
    settle,
    some_points,
    start_and,
    strike,
    submit,
)

_KINDS = {"e": StepFunctionsTask.kind, "p": PythonTask.kind, "s": SparkTask.kind}
_STATES = {"SUCCEEDED": "SUCCESS", "ABORTED": "CANCELLED"}


@dataclass
class AllFakes:
    """The services of all kinds, as if they were one; a task has the first letter of its kind."""

    fakes: Mapping[str, Fake]

    def _of(self, task: str) -> Fake:
        return self.fakes[_KINDS[task[0]]]

    def next_outcome(self, dag: str, task: str, outcome: Outcome) -> None:
        """Let the next job of a task end like this."""
        self._of(task).next_outcome(dag, task, outcome)

    def emit(self) -> int:
        """Send the events that have come by now."""
        return sum(fake.emit() for fake in self.fakes.values())

    def live(self) -> list[Any]:
        """Return the jobs of all kinds that are not over."""
        return [job for fake in self.fakes.values() for job in fake.live()]

    def doubles(self) -> list[str]:
        """Return a sentence for every job that began while another one of its step was live."""
        return [text for fake in self.fakes.values() for text in fake.doubles()]

    @property
    def jobs(self) -> list[FakeJob | FakePythonJob | FakeExecution]:
        """All jobs there have been."""
        every: list[Any] = list(self.fakes.values())
        return [
            job
            for fake in every
            for job in (fake.executions if hasattr(fake, "executions") else fake.jobs)
        ]

    @property
    def events(self) -> EventFaults:
        """How badly all of them tell of their jobs."""
        fakes = cast("list[FakeEmr]", list(self.fakes.values()))
        return fakes[0].events

    @events.setter
    def events(self, faults: EventFaults) -> None:
        for fake in cast("list[FakeEmr]", list(self.fakes.values())):
            fake.events = faults


def _state(job: FakeJob | FakePythonJob | FakeExecution) -> str:
    if isinstance(job, FakeExecution):
        return _STATES.get(job.end.status, job.end.status)
    return str(job.state)


class KindsStory(Story):
    """A deployment with jobs of all kinds."""

    @property
    def jobs(self) -> list[str]:
        """All jobs there have been: `dag/s#1 SUCCESS`."""
        every = cast("AllFakes", self.emr).jobs
        return sorted(f"{j.dag}/{j.task}#{j.submission} {_state(j)}" for j in every)


@pytest.fixture(name="story", scope="module")
def make_story() -> Iterator[Story]:
    """Yield a deployment for all scenarios: to make one takes as long as some of them."""
    with local_stack(at=MIDNIGHT, on=FakeEmr()) as stack:
        stack.settings = replace(stack.settings, due_shards=1, run_shards=1)
        assert stack.execution is not None
        yield KindsStory(stack, cast("FakeEmr", AllFakes(stack.execution.fakes)))


def in_a_row(**options: Any) -> DAG:
    """Return three steps, each of which reads what the one before has left."""
    with DAG("dag", schedule=None, default_args=options) as made:
        spark = SparkTask("s", job=JOB)
        python = PythonTask("p", job=JOB, arguments=["{{ outputs.s.rows }}"], outlets=[A])
        machine = StepFunctionsTask(
            "e", state_machine="export", input={"rows": "{{ outputs.p.rows }}"}
        )
        spark >> python >> machine
    return made


def at_once(**options: Any) -> DAG:
    """Return three steps that are ready at once."""
    with DAG("dag", schedule=None, default_args=options) as made:
        SparkTask("s", job=JOB)
        PythonTask("p", job=JOB, outlets=[A])
        StepFunctionsTask("e", state_machine="export")
    return made


def plan_all(*outcomes: Outcome) -> Act:
    """Return an act that lets the next jobs of all three end like this."""
    return all_of(*(plan_jobs(task, *outcomes) for task in _KINDS))


LEAVING = Outcome.leaving({"rows": 3})
LONG = Outcome(takes=600)
DONE = [f"dag/{task}#1 SUCCESS" for task in _KINDS]
AGAIN = [f"dag/{task}#{end}" for task in _KINDS for end in ("1 FAILED", "2 SUCCESS")]
SCENARIOS = {
    "each reads the one before": Scenario(
        dags=(in_a_row(),),
        arrange=start_and(plan_all(LEAVING)),
        act=pass_time(seconds=10),
        runs=["dag success e=success/1 p=success/1 s=success/1"],
        events={"a": 1},
        jobs=DONE,
    ),
    "three at once": Scenario(
        dags=(at_once(),),
        arrange=start_and(),
        act=pass_time(seconds=10),
        runs=["dag success e=success/1 p=success/1 s=success/1"],
        events={"a": 1},
        jobs=DONE,
    ),
    "all three fail at once, and are tried again": Scenario(
        dags=(at_once(),),
        arrange=start_and(plan_all(Outcome.failed("no")), pass_time(seconds=5)),
        ask=once(retry_run),
        act=pass_time(seconds=10),
        runs=["dag success e=success/2 p=success/2 s=success/2"],
        events={"a": 1},
        jobs=AGAIN,
    ),
    "a cancel of all three": Scenario(
        dags=(at_once(),),
        arrange=start_and(plan_all(HANGS), pass_time(seconds=5)),
        ask=once(cancel_run),
        act=pass_time(seconds=10),
        runs=["dag cancelled e=failed/1 p=failed/1 s=failed/1"],
        events={},
        jobs=[f"dag/{task}#1 CANCELLED" for task in _KINDS],
    ),
}
OVERTAKINGS = {
    "submit by submit": Overtaking(
        dags=(at_once(),),
        arrange=start_and(),
        first=submit,
        meanwhile=all_of(runs.send_submit, submit),
        runs=frozenset({"dag success e=success p=success s=success"}),
    ),
    "submit by cancel": Overtaking(
        dags=(at_once(),),
        arrange=start_and(plan_all(HANGS)),
        first=submit,
        meanwhile=all_of(once(cancel_run), settle),
        runs=frozenset({"dag cancelled", "dag cancelled e=failed p=failed s=failed"}),
    ),
    "submit by clear": Overtaking(
        dags=(at_once(),),
        arrange=start_and(plan_all(LONG)),
        first=submit,
        meanwhile=all_of(once(clear_run), settle, submit),
        runs=frozenset({"dag success e=success p=success s=success"}),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_fault_at_some_calls_doubles_no_job_of_any_kind(
    name: str, story: Story, report: Report
) -> None:
    """Whichever call fails, the run becomes what it would have been, with as many jobs."""
    report(f"{name}, all kinds", *strike(SCENARIOS[name], story, some_points))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_ends_of_all_kinds_told_badly_change_nothing(
    name: str, story: Story, report: Report
) -> None:
    """Whatever each service tells late, twice or never, the end is the same."""
    report(f"{name}, all kinds misheard", *mishear(SCENARIOS[name], story, range(3)))


@pytest.mark.slow
@pytest.mark.parametrize("name", OVERTAKINGS)
def test_overtaken_function_doubles_no_job_of_any_kind(
    name: str, story: Story, report: Report
) -> None:
    """Whatever someone else does in the middle, no step has two jobs and none is left behind."""
    report(f"{name}, all kinds overtaken", *runs.overtake(OVERTAKINGS[name], story, runs.SOME))


@pytest.mark.full
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_fault_at_every_call_doubles_no_job_of_any_kind(
    name: str, story: Story, report: Report
) -> None:
    """As above, with every fault at every call."""
    report(f"{name}, all kinds", *strike(SCENARIOS[name], story, all_points))


@pytest.mark.full
@pytest.mark.parametrize("name", OVERTAKINGS)
def test_function_overtaken_at_every_call_doubles_no_job_of_any_kind(
    name: str, story: Story, report: Report
) -> None:
    """As above, before every single call."""
    report(f"{name}, all kinds overtaken", *runs.overtake(OVERTAKINGS[name], story, limit=1_000))
