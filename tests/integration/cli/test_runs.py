"""Runs as a user looks at them, cancels them and tries them again."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, SparkTask
from lamplighter.store.models import Runs
from lamplighter_local.emr.behaviour import INSTANT
from lamplighter_local.emr.fake_emr import FakeEmr, Outcome
from lamplighter_local.stack import LocalStack, local_stack
from tests.tools.definitions import register_dags
from tests.tools.invariants.steps import job_violations
from tests.tools.invariants.tables import require_sound

Command = Callable[..., Any]

ONE = datetime(2026, 1, 5, 1)


@pytest.fixture
def emr() -> FakeEmr:
    """Return an EMR Serverless that pretends."""
    return FakeEmr()


@pytest.fixture
def stack(emr: FakeEmr) -> Iterator[LocalStack]:
    """Return a deployment with a DAG of two tasks, one run of which is due."""
    with local_stack(at=ONE.add(minutes=5), on=emr) as made:
        with DAG("sales", schedule="0 * * * *", start_date=ONE.subtract(hours=1)) as dag:
            load = SparkTask("load", entry_point="jobs/load.py")
            load >> SparkTask("clean", job="jobs.sales:clean")
        register_dags(dag)
        yield made
        require_sound()
        assert job_violations(emr) == []


def name_of(stack: LocalStack) -> str:
    """Return the run as a user names it."""
    (run,) = stack.runs("sales")
    return f"sales/{run.run_id}"


def only_run(stack: LocalStack) -> Runs:
    """Return the only run."""
    (run,) = stack.runs("sales")
    return run


def states(stack: LocalStack) -> dict[str, str]:
    """Return the states of the run's steps."""
    return {task: step.state for task, step in stack.steps(only_run(stack)).items()}


def test_show_lists_steps_with_errors_and_costs(
    lamplighter: Command, stack: LocalStack, emr: FakeEmr
) -> None:
    """A person sees which step failed, how often, why, and what it cost."""
    emr.next_outcome("sales", "load", Outcome.failed("KeyError: 'price'"))
    stack.advance(minutes=5)
    result = lamplighter("runs", "show", name_of(stack))
    assert (result.code, result.err) == (0, "")
    (line,) = [line for line in result.out.splitlines() if "load" in line]
    assert "failed" in line
    assert "1 of 1" in line
    assert "KeyError: 'price'" in line
    assert "$0.00" in line
    assert "upstream_failed" in result.out


def test_unknown_costs_are_shown_as_unknown(
    lamplighter: Command, stack: LocalStack, emr: FakeEmr
) -> None:
    """Until bills come, tables say how many are missing, and programs get null."""
    emr.put_back(FakeEmr(behaviour=replace(INSTANT, billing_delay_seconds=600)).copy_state())
    stack.advance(minutes=5)
    unknown = "unknown (2 jobs not billed yet)"
    shown = json.loads(lamplighter("runs", "show", name_of(stack), "--json").out)
    assert (shown["cost"], shown["unbilled_jobs"]) == (None, 2)
    assert shown["steps"][0]["unbilled_jobs"] == [emr.jobs[0].job_run_id]
    commands = (("runs", "show", name_of(stack)), ("runs", "list"), ("dags", "show", "sales"))
    for command in commands:
        assert unknown in lamplighter(*command).out
    days = json.loads(lamplighter("dags", "show", "sales", "--json").out)["costs_by_day"]
    assert days == [{"day": "2026-01-05", "runs": 1, "cost": None, "unbilled_jobs": 2}]
    stack.advance(minutes=10)
    for command in commands:
        assert "$0.0051" in lamplighter(*command).out


def test_show_gives_programs_every_attempt(
    lamplighter: Command, stack: LocalStack, emr: FakeEmr
) -> None:
    """JSON has the steps in the order in which they began, and all attempts of each."""
    stack.advance(minutes=5)
    shown = json.loads(lamplighter("runs", "show", name_of(stack), "--json").out)
    assert [(step["task_id"], step["state"]) for step in shown["steps"]] == [
        ("load", "success"),
        ("clean", "success"),
    ]
    (attempt,) = shown["steps"][0]["tries"]
    assert attempt["job_run_id"] == emr.jobs[0].job_run_id
    assert shown["cost"] == pytest.approx(sum(step["cost"] for step in shown["steps"]))


def test_show_has_the_outputs_on_request(
    lamplighter: Command, stack: LocalStack, emr: FakeEmr
) -> None:
    """What steps left for later ones is shown if one asks, with secrets masked."""
    left = {"rows": 3, "api_token": "abc-123", "word": "\x1b[31m"}
    emr.next_outcome("sales", "load", Outcome.leaving(left))
    stack.advance(minutes=5)
    shown = json.loads(lamplighter("runs", "show", name_of(stack), "--outputs", "--json").out)
    assert shown["outputs"] == {"load": {"rows": 3, "api_token": "***", "word": "\x1b[31m"}}
    table = lamplighter("runs", "show", name_of(stack), "--outputs").out
    assert [line.split() for line in table.splitlines()[-4:-2]] == [
        ["task", "output", "value"],
        ["load", "rows", "3"],
    ]
    assert "abc-123" not in table
    assert "\x1b" not in table
    assert "outputs" not in json.loads(lamplighter("runs", "show", name_of(stack), "--json").out)


def test_cancel_ends_the_run_and_its_job(
    lamplighter: Command, stack: LocalStack, emr: FakeEmr
) -> None:
    """The job is cancelled, and the run is cancelled when the job is over."""
    emr.takes("sales", "load", minutes=30)
    stack.advance(minutes=1)
    result = lamplighter("runs", "cancel", name_of(stack))
    run_id = only_run(stack).run_id
    said = f"run {run_id} of DAG sales is running: its jobs are being cancelled\n"
    assert (result.code, result.out) == (0, said)
    stack.advance(minutes=1)
    assert (only_run(stack).state, states(stack)) == ("cancelled", {"load": "failed"})
    assert emr.live() == []


def test_cancel_of_a_finished_run_is_refused(lamplighter: Command, stack: LocalStack) -> None:
    """There is nothing to cancel, and the error says what the run is."""
    stack.advance(minutes=5)
    result = lamplighter("runs", "cancel", name_of(stack))
    said = f"error: run {only_run(stack).run_id} of DAG 'sales' is success\n"
    assert (result.code, result.err) == (1, said)


def test_retry_runs_failed_steps_again(
    lamplighter: Command, stack: LocalStack, emr: FakeEmr
) -> None:
    """The step that failed gets a new job, and what waited for it runs after it."""
    emr.fail_next("sales", "load")
    stack.advance(minutes=5)
    assert states(stack) == {"load": "failed", "clean": "upstream_failed"}
    assert lamplighter("runs", "retry", name_of(stack)).code == 0
    stack.advance(minutes=5)
    assert (only_run(stack).state, len(emr.jobs)) == ("success", 3)


def test_retry_without_a_failure_is_refused(lamplighter: Command, stack: LocalStack) -> None:
    """A run that succeeded is cleared, not retried."""
    stack.advance(minutes=5)
    result = lamplighter("runs", "retry", name_of(stack))
    assert (result.code, "has no failed step" in result.err) == (1, True)


def test_clear_of_one_task_takes_those_after_it_along(
    lamplighter: Command, stack: LocalStack, emr: FakeEmr
) -> None:
    """Only the last task is run once more."""
    stack.advance(minutes=5)
    result = lamplighter("runs", "clear", name_of(stack), "--task", "clean", "--json")
    assert json.loads(result.out)["state"] == "queued"
    stack.advance(minutes=5)
    assert only_run(stack).state == "success"
    assert [job.task for job in emr.jobs] == ["load", "clean", "clean"]


def test_clear_of_an_unknown_task_names_those_there_are(
    lamplighter: Command, stack: LocalStack
) -> None:
    """A misspelt task is an error that shows the right ones."""
    stack.advance(minutes=5)
    result = lamplighter("runs", "clear", name_of(stack), "--task", "cleaning")
    assert (result.code, "it has clean, load" in result.err) == (1, True)
