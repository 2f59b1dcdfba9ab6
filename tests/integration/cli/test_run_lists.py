"""Runs as a user lists and triggers them."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lamplighter import DAG
from lamplighter.store.runs import set_state_columns
from lamplighter_local.stack import LocalStack
from lamplighter_operations.trigger import create_manual_run
from tests.tools.definitions import register_dags

Command = Callable[..., Any]


@pytest.fixture
def dags(stack: LocalStack) -> LocalStack:
    """Return a deployment with two DAGs that run only when asked."""
    register_dags(DAG("sales"), DAG("idle"))
    return stack


@pytest.fixture
def runs(dags: LocalStack) -> dict[str, str]:
    """Return the ids of three runs, by state."""
    found = {}
    for days, state in enumerate(("success", "failed", "queued")):
        date = dags.clock.now().start_of("day").subtract(days=days)
        run = create_manual_run("sales", logical_date=date)
        dags.clock.advance(timedelta(minutes=1))
        if state != "queued":
            run.state = state
            set_state_columns(run, dags.clock.now())
            run.save()
        found[state] = run.run_id
    return found


def ids(lamplighter: Command, *arguments: object) -> list[str]:
    """Return the ids of the runs that a command lists."""
    result = lamplighter(*arguments, "--json")
    assert (result.code, result.err) == (0, "")
    return [run["run_id"] for run in json.loads(result.out)]


def test_runs_of_a_dag_come_newest_first(lamplighter: Command, runs: dict[str, str]) -> None:
    """By their dates, as many as wanted."""
    assert ids(lamplighter, "runs", "list", "sales") == list(runs.values())
    assert ids(lamplighter, "runs", "list", "sales", "-n", "1") == [runs["success"]]


def test_runs_of_all_dags_come_by_their_last_change(
    lamplighter: Command, runs: dict[str, str]
) -> None:
    """Whatever their dates; a person sees times in UTC."""
    assert set(ids(lamplighter, "runs", "list")) == set(runs.values())
    assert ids(lamplighter, "runs", "list")[-1] == runs["success"]
    lines = lamplighter("runs", "list").out.splitlines()
    (line,) = [line for line in lines if f"sales/{runs['failed']}" in line]
    assert "failed" in line
    assert "2026-01-05 12:02:05 UTC" in line


@pytest.mark.parametrize("where", [["sales"], []])
def test_runs_can_be_chosen_by_state(
    lamplighter: Command, runs: dict[str, str], where: list[str]
) -> None:
    """One state, or several."""
    assert ids(lamplighter, "runs", "list", *where, "--state", "failed") == [runs["failed"]]
    both = ids(lamplighter, "runs", "list", *where, "--state", "failed", "--state", "success")
    assert set(both) == {runs["failed"], runs["success"]}


def test_list_of_nothing_says_where_it_looked(lamplighter: Command, dags: LocalStack) -> None:
    """An empty table would not."""
    assert lamplighter("runs", "list", "idle").out == "no runs of DAG idle\n"
    out = lamplighter("runs", "list", "--state", "failed").out
    assert out == "no such runs in the last 2 days (see --days)\n"


def test_run_without_a_date_is_of_now(lamplighter: Command, dags: LocalStack) -> None:
    """It runs, with the parameters that it was given."""
    result = lamplighter("runs", "trigger", "idle", "--conf", '{"full": true}')
    (run,) = dags.runs("idle")
    assert run.run_id == "manual__2026-01-05T12:00:05+00:00"
    assert run.conf == {"full": True}
    assert result.out.startswith(f"run {run.run_id} of DAG idle is queued: see `lamplighter ")


@pytest.mark.parametrize(
    ("options", "run_id", "date"),
    [
        (["--logical-date", "2026-01-04T00:00:00+01:00"], "manual__2026-01-03T23:", True),
        (["--logical-date", "none"], "manual__2026-01-05T12:00:05+00:00_", False),
        (["--run-id", "mine"], "mine", False),
    ],
)
def test_run_has_the_date_or_id_that_was_asked_for(
    lamplighter: Command, dags: LocalStack, options: list[str], run_id: str, date: bool
) -> None:
    """A date, none, or an id of one's own, which has none."""
    assert lamplighter("runs", "trigger", "idle", *options).code == 0
    (run,) = dags.runs("idle")
    assert run.run_id.startswith(run_id)
    assert (run.logical_date is not None) == date


def test_run_has_the_interval_that_was_asked_for(lamplighter: Command, dags: LocalStack) -> None:
    """It counts, and not what the timetable would infer."""
    interval = "2026-01-04T00:00:00Z/2026-01-04T06:00:00Z"
    result = lamplighter("runs", "trigger", "idle", "--data-interval", interval, "--json")
    assert json.loads(result.out)["data_interval_end"] == "2026-01-04T06:00:00+00:00"
