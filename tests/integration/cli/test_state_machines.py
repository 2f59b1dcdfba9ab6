"""Executions of state machines as a user looks at them."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, StepFunctionsTask
from lamplighter_local.dev.activity import ActivityFeed
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_operations.trigger import create_manual_run
from tests.tools.definitions import register_dags

Command = Callable[..., Any]

RUN = "shop/first"


@pytest.fixture
def stack() -> Iterator[LocalStack]:
    """Return a deployment in which an execution has ended."""
    with local_stack(at=datetime(2026, 1, 5), on=FakeEmr()) as made:
        with DAG("shop", schedule=None) as dag:
            StepFunctionsTask("export", state_machine="export", input={"day": "{{ run_id }}"})
        register_dags(dag)
        create_manual_run("shop", logical_date=None, run_id="first")
        made.advance(seconds=30)
        yield made


def test_logs_are_the_history_of_the_execution(lamplighter: Command) -> None:
    """Each of its events is a line, and there is one log."""
    result = lamplighter("runs", "logs", RUN)
    assert (result.code, result.err) == (0, "")
    title, *lines = result.out.splitlines()
    assert title == "==> export, try 1, history <=="
    assert [line.split()[1] for line in lines] == ["ExecutionStarted", "ExecutionSucceeded"]
    assert '"day\\": \\"first\\"' in lines[0] or '"day\\":\\"first\\"' in lines[0]


def test_page_of_the_execution_is_in_the_console(lamplighter: Command, stack: LocalStack) -> None:
    """Its address needs no call."""
    (run,) = stack.runs("shop")
    job_run_id = stack.steps(run)["export"].job_run_id
    result = lamplighter("runs", "open", RUN)
    assert result.out == (
        "https://us-east-1.console.aws.amazon.com/states/home?region=us-east-1"
        f"#/v2/executions/details/{job_run_id}\n"
    )


def test_cost_of_the_execution_is_not_counted(lamplighter: Command) -> None:
    """It is neither zero nor still to come."""
    shown = json.loads(lamplighter("runs", "show", RUN, "--json").out)
    assert (shown["cost"], shown["unbilled_jobs"]) == (None, 0)
    assert shown["steps"][0]["cost"] is None
    assert "not counted" in lamplighter("runs", "show", RUN).out


def test_dev_says_that_no_state_machine_was_executed(stack: LocalStack) -> None:
    """Whoever watches does not take it for the real thing."""
    feed = ActivityFeed()
    create_manual_run("shop", logical_date=None, run_id="second")
    stack.advance(seconds=30)
    found = {each.about: each.detail for each in feed.poll()}
    assert found["shop/second  export"] == "not executed: there are no state machines here"
