"""Executions of state machines under a fault at every single call: none is doubled or left behind.

The scenarios of runs are told again, with state machines in the place of jobs on Spark.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

import pytest

from lamplighter import DAG, SparkTask, StepFunctionsTask
from lamplighter.executors.step_functions import SKIP
from lamplighter.serialization import decode_dag, encode_dag
from lamplighter_local.emr.fake_emr import FakeEmr, Outcome
from lamplighter_local.stack import local_stack
from lamplighter_local.step_functions.executions import FakeExecution
from lamplighter_local.step_functions.fake import FakeStepFunctions
from lamplighter_operations.runs import cancel_run
from tests.faults import test_runs as runs
from tests.faults.reports import Report
from tests.faults.test_runs import (
    HANGS,
    MIDNIGHT,
    ONE,
    Scenario,
    Story,
    all_points,
    die_at,
    mishear,
    once,
    pass_time,
    plan_jobs,
    some_points,
    start_and,
    strike,
)
from tests.tools.faults import Kind

_STATES = {"SUCCEEDED": "SUCCESS", "ABORTED": "CANCELLED"}


@dataclass
class MachineStory(Story):
    """A deployment whose steps are executions."""

    @property
    def jobs(self) -> list[str]:
        """All executions there have been, in the words of jobs: `two/a#1 SUCCESS`."""
        machines: Any = self.emr
        assert isinstance(machines, FakeStepFunctions)
        return sorted(f"{j.dag}/{j.task}#{j.submission} {_state(j)}" for j in machines.executions)


def _state(execution: FakeExecution) -> str:
    end = execution.end
    return "SUCCESS" if end.error == SKIP else _STATES.get(end.status, end.status)


@pytest.fixture(name="story", scope="module")
def make_story() -> Iterator[Story]:
    """Yield a deployment for all scenarios: to make one takes as long as some of them."""
    with local_stack(at=MIDNIGHT, on=FakeEmr()) as stack:
        stack.settings = replace(stack.settings, due_shards=1, run_shards=1)
        assert stack.execution is not None
        machines = stack.execution.fakes[StepFunctionsTask.kind]
        # It has all that the scenarios use.
        yield MachineStory(stack, cast("FakeEmr", machines))


def with_machines(dag: DAG) -> DAG:
    """Return a DAG that has a state machine in the place of each job."""
    document = encode_dag(dag)
    of_jobs = SparkTask.OPTIONS.keys() - StepFunctionsTask.OPTIONS.keys()
    machine = {"kind": StepFunctionsTask.kind, "state_machine": "crawl", "input": {}}
    tasks = [
        {**{key: value for key, value in task.items() if key not in of_jobs}, **machine}
        if task.get("kind") != StepFunctionsTask.kind
        else task
        for task in document["tasks"]
    ]
    return decode_dag({**document, "tasks": tasks})


# Those that do not need what only EMR Serverless has.
_SAME = (
    "one step, and a consumer",
    "two steps",
    "a retry",
    "a retry that is the last",
    "a skip",
    "two steps that end at once",
    "a cancel while the job runs",
    "an execution timeout",
    "a timeout of the whole run",
    "a clear of a step that runs",
)
_OWN = {
    "a cancel before the execution was started": Scenario(
        dags=(ONE,),
        arrange=start_and(die_at("StartExecution", "crash-before")),
        ask=once(cancel_run),
        act=pass_time(minutes=6),
        runs=["dag cancelled t=failed/1"],
        events={},
        jobs=[],
    ),
    "a cancel of an execution that no row knows": Scenario(
        dags=(ONE,),
        arrange=start_and(plan_jobs("t", HANGS), die_at("StartExecution", "crash-after")),
        ask=once(cancel_run),
        act=pass_time(minutes=4),
        runs=["dag cancelled t=failed/1"],
        events={},
        jobs=["dag/t#1 CANCELLED"],
    ),
}
SCENARIOS = {name: runs.SCENARIOS[name] for name in _SAME} | _OWN


def reading() -> DAG:
    """Return two executions, of which the second is given what the first has left."""
    with DAG("dag", schedule=None) as made:
        given = {"rows": "{{ outputs.a.rows }}"}
        StepFunctionsTask("a", state_machine="crawl") >> StepFunctionsTask(
            "b", state_machine="crawl", input=given
        )
    return made


def misread(story: Story) -> Iterator[str]:
    """Yield what the executions of `b` were given that is not what `a` left."""
    machines: Any = story.emr
    for each in machines.executions:
        given = json.loads(each.input)
        if each.task == "b" and given["rows"] != "3":
            yield f"step b was given {given}"


# Someone dies when the execution was not started, or it was and its answer is lost; late, that is
# found out by one who is overtaken.
_DEATHS: tuple[Kind, ...] = ("crash-before", "crash-after")
_LATE = {
    f"{name}, {kind}": replace(
        runs.OVERTAKINGS[name],
        arrange=start_and(
            plan_jobs("t", outcome), die_at("StartExecution", kind), runs.wait_for_long
        ),
    )
    for kind in _DEATHS
    for name, outcome in (
        ("late submit by submit", Outcome(takes=900)),
        ("late submit by cancel", HANGS),
        ("late submit by clear", Outcome(takes=900)),
    )
}
OVERTAKINGS = {name: each for name, each in runs.OVERTAKINGS.items() if "late " not in name}
_READER = "submit of a reader by a clear of what it reads"
OVERTAKINGS[_READER] = replace(OVERTAKINGS[_READER], dags=(reading(),), check=misread)
OVERTAKINGS |= _LATE


@cache
def told(name: str) -> Any:
    """Return a scenario of state machines."""
    scenario: Any = SCENARIOS.get(name) or OVERTAKINGS[name]
    return replace(scenario, dags=tuple(map(with_machines, scenario.dags)))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_fault_at_some_calls_doubles_no_execution(name: str, story: Story, report: Report) -> None:
    """Whichever call fails, the run becomes what it would have been, with as many executions."""
    report(f"{name}, state machines", *strike(told(name), story, some_points))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_events_of_executions_delivered_badly_change_nothing(
    name: str, story: Story, report: Report
) -> None:
    """Events that are late, doubled, shuffled or missing lead to the same end."""
    report(f"{name}, state machines misheard", *mishear(told(name), story, range(3)))


@pytest.mark.slow
@pytest.mark.parametrize("name", OVERTAKINGS)
def test_overtaken_function_doubles_no_execution(name: str, story: Story, report: Report) -> None:
    """Whatever someone else does in the middle, no step has two and none is left behind."""
    report(f"{name}, state machines overtaken", *runs.overtake(told(name), story, runs.SOME))


@pytest.mark.full
@pytest.mark.parametrize("name", OVERTAKINGS)
def test_function_overtaken_at_every_call_doubles_no_execution(
    name: str, story: Story, report: Report
) -> None:
    """As above, before every single call."""
    report(f"{name}, state machines overtaken", *runs.overtake(told(name), story, limit=1_000))


@pytest.mark.full
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_fault_at_every_call_doubles_no_execution(
    name: str, story: Story, report: Report
) -> None:
    """As above, at every call."""
    report(f"{name}, state machines", *strike(told(name), story, all_points))
