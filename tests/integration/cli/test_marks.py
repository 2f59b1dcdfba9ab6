"""Runs and steps as a user marks them."""

import getpass
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, SparkTask
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.stack import LocalStack, local_stack
from tests.tools.definitions import register_dags
from tests.tools.invariants.tables import require_sound

Command = Callable[..., Any]

ONE = datetime(2026, 1, 5, 1)
WHY = ("--why", "the file was mended by hand")


@pytest.fixture
def emr() -> FakeEmr:
    """Return an EMR Serverless that pretends."""
    return FakeEmr()


@pytest.fixture
def stack(emr: FakeEmr, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalStack]:
    """Return a deployment with a run whose first task has failed."""
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    with local_stack(at=ONE.add(minutes=5), on=emr) as made:
        with DAG("sales", schedule="0 * * * *", start_date=ONE.subtract(hours=1)) as dag:
            load = SparkTask("load", entry_point="jobs/load.py")
            load >> SparkTask("clean", job="jobs.sales:clean")
        register_dags(dag)
        emr.fail_next("sales", "load")
        made.advance(minutes=5)
        yield made
        require_sound()


def name_of(stack: LocalStack) -> str:
    """Return the run as a user names it."""
    (run,) = stack.runs("sales")
    return f"sales/{run.run_id}"


def test_mark_of_a_task_lets_the_run_go_on(lamplighter: Command, stack: LocalStack) -> None:
    """One line says what was marked, and the next step runs."""
    result = lamplighter("runs", "mark", name_of(stack), "--task", "load", "--success", *WHY)
    (run,) = stack.runs("sales")
    said = f"run {run.run_id} of DAG sales is queued: task load was marked success\n"
    assert (result.code, result.out, result.err) == (0, said, "")
    stack.advance(minutes=5)
    (run,) = stack.runs("sales")
    assert run.state == "success"


def test_mark_of_a_run_ends_it(lamplighter: Command, stack: LocalStack) -> None:
    """JSON has the run as it is now, with the mark."""
    result = lamplighter("runs", "mark", name_of(stack), "--success", "--json", *WHY)
    (mark,) = json.loads(result.out)["marks"]
    assert (mark["by"], mark["why"], mark["task_id"]) == ("ada", WHY[1], None)
    stack.advance(minutes=1)
    (run,) = stack.runs("sales")
    assert run.state == "success"


def test_show_tells_who_marked_what_and_why(lamplighter: Command, stack: LocalStack) -> None:
    """People see the mark on the run, programs also on the step."""
    lamplighter("runs", "mark", name_of(stack), "--task", "load", "--success", *WHY)
    shown = lamplighter("runs", "show", name_of(stack)).out
    assert "task load failed -> success by ada: the file was mended by hand" in shown
    described = json.loads(lamplighter("runs", "show", name_of(stack), "--json").out)
    marked = {step["task_id"]: step["marked"] for step in described["steps"]}
    assert (marked["load"]["by"], marked["clean"]) == ("ada", None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (WHY, "choose a state: --success or --failed"),
        (("--success",), "give a reason: --why TEXT"),
        (("--failed", *WHY), "of DAG 'sales' is failed already"),
        (
            ("--success", "--task", "lead", *WHY),
            "has no task 'lead' in this run; it has clean, load",
        ),
    ],
)
def test_mark_that_makes_no_sense_is_refused_in_one_line(
    lamplighter: Command, stack: LocalStack, arguments: tuple[str, ...], said: str
) -> None:
    """The error names the thing and what to say instead."""
    result = lamplighter("runs", "mark", name_of(stack), *arguments)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert said in result.err


def test_mark_by_a_user_without_a_name_is_recorded_all_the_same(
    lamplighter: Command, stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers may run as a user that nobody has named."""

    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    result = lamplighter("runs", "mark", name_of(stack), "--success", "--json", *WHY)
    assert json.loads(result.out)["marks"][0]["by"] == "unknown"
    stack.advance(minutes=1)
