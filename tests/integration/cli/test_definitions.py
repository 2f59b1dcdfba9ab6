"""Task groups and params as a user of the command line sees them, and gives them values."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, Param, SparkTask, TaskGroup
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.stack import LocalStack, local_stack
from tests.tools.definitions import register_dags
from tests.tools.invariants.tables import require_sound

Command = Callable[..., Any]
WriteBundle = Callable[[dict[str, str]], Path]

BUNDLE = """
from lamplighter import DAG, Param, SparkTask, TaskGroup

with DAG("shop", params={"days": Param("many", type="integer")}):
    with TaskGroup("load"):
        SparkTask("a", entry_point="jobs/a.py")
    SparkTask("end", entry_point="jobs/a.py")
"""


@pytest.fixture
def stack() -> Iterator[LocalStack]:
    """Return a deployment whose jobs only pretend."""
    with local_stack(at=datetime(2026, 1, 5, 12), on=FakeEmr()) as made:
        yield made
        require_sound()


@pytest.fixture
def shop(stack: LocalStack) -> LocalStack:
    """Return a deployment with a DAG that has groups and params."""
    params = {
        "days": Param(5, "to load", type="integer", minimum=1),
        "day": Param(type=["null", "string"]),
        "api_key": "hidden",
        "plain": [1],
    }
    with DAG("shop", start_date=datetime(2026, 1, 5), params=params) as dag:
        SparkTask("start", job="jobs.a:run")
        with TaskGroup("load"):
            SparkTask("a", job="jobs.a:run")
            with TaskGroup("plain", prefix_group_id=False):
                SparkTask("b", job="jobs.a:run")
    register_dags(dag, DAG("bare"))
    return stack


def as_json(lamplighter: Command, *arguments: str) -> Any:
    """Return what a command says to programs."""
    result = lamplighter(*arguments, "--json")
    assert (result.code, result.err) == (0, "")
    return json.loads(result.out)


def test_show_has_tasks_by_group_and_params(lamplighter: Command, shop: LocalStack) -> None:
    """A line for each group and each param; what looks like a secret is masked."""
    shown = lamplighter("dags", "show", "shop").out
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    start = next(number for number, line in enumerate(lines) if line.startswith("tasks"))
    assert lines[start : start + 7] == [
        "tasks start",
        "load: load.a",
        "load > load.plain: b",
        'params api_key (default "***")',
        "day (null or string, no default)",
        "days (integer, default 5): to load",
        "plain (default [1])",
    ]


def test_show_as_json_has_tasks_by_group_and_params(lamplighter: Command, shop: LocalStack) -> None:
    """A group has the tasks of the groups in it; a param without a default has no such key."""
    shown = as_json(lamplighter, "dags", "show", "shop")
    assert shown["tasks"] == ["b", "load.a", "start"]
    assert shown["task_groups"] == {"load": ["b", "load.a"], "load.plain": ["b"]}
    assert shown["params"] == [
        {"name": "api_key", "type": None, "description": None, "default": "***"},
        {"name": "day", "type": ["null", "string"], "description": None},
        {"name": "days", "type": "integer", "description": "to load", "default": 5},
        {"name": "plain", "type": None, "description": None, "default": [1]},
    ]
    bare = as_json(lamplighter, "dags", "show", "bare")
    assert (bare["task_groups"], bare["params"]) == ({}, [])


def test_run_is_triggered_with_values_that_params_allow(
    lamplighter: Command, shop: LocalStack
) -> None:
    """Others are an error of one line that names DAG and param."""
    refused = lamplighter("runs", "trigger", "shop", "--conf", '{"days": 0, "day": null}')
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == "error: DAG 'shop': params: 'days': 0 is less than the minimum of 1\n"
    missing = lamplighter("runs", "trigger", "shop")
    assert "'day' has no default: give it a value in conf" in missing.err
    assert shop.runs("shop") == []
    assert lamplighter("runs", "trigger", "shop", "--conf", '{"day": null}').code == 0
    assert [dict(run.conf or {}) for run in shop.runs("shop")] == [{"day": None}]


def test_steps_are_shown_with_their_groups(lamplighter: Command, shop: LocalStack) -> None:
    """In `runs show` and `runs watch`; of a DAG without groups there is no such column."""
    lamplighter("runs", "trigger", "shop", "--conf", '{"day": null}')
    shop.advance(minutes=5)
    (run,) = shop.runs("shop")
    name = f"shop/{run.run_id}"
    lines = lamplighter("runs", "show", name).out.splitlines()
    header = next(line for line in lines if line.startswith("task "))
    assert header.split()[:3] == ["task", "group", "state"]
    (line,) = [line for line in lines if line.startswith("b ")]
    assert line.split()[:5] == ["b", "load", ">", "load.plain", "success"]
    steps = as_json(lamplighter, "runs", "show", name)["steps"]
    assert {step["task_id"]: step["groups"] for step in steps} == {
        "b": ["load", "load.plain"],
        "load.a": ["load"],
        "start": [],
    }
    assert lamplighter("runs", "watch", name).code == 0
    lamplighter("runs", "trigger", "bare", "--run-id", "one")
    assert "group" not in lamplighter("runs", "show", "bare/one").out


def test_task_of_a_group_is_named_with_a_dot(lamplighter: Command, shop: LocalStack) -> None:
    """Where a command takes a task, the whole id is its name."""
    lamplighter("runs", "trigger", "shop", "--conf", '{"day": null}')
    shop.advance(minutes=5)
    (run,) = shop.runs("shop")
    name = f"shop/{run.run_id}"
    assert lamplighter("runs", "clear", name, "--task", "load.a").code == 0
    shop.advance(minutes=5)
    mark = ("--task", "load.a", "--failed", "--why", "wrong")
    assert "task load.a was marked failed" in lamplighter("runs", "mark", name, *mark).out
    assert "started: b, start, load.a" in lamplighter("runs", "open", name, "--task", "load").err


def test_check_has_groups_and_refuses_a_default(alone: Command, write_bundle: WriteBundle) -> None:
    """A default that its schema refuses is an error of the file, at the line of the DAG."""
    root = write_bundle({"dags/shop.py": BUNDLE, "jobs/a.py": ""})
    result = alone("check", root)
    problem = "DAG 'shop': params: 'days': its default: 'many' is not of type 'integer'"
    assert (result.code, problem in result.out) == (1, True)
    (root / "dags/shop.py").write_text(BUNDLE.replace('"many"', "1"), encoding="utf-8")
    (dag,) = json.loads(alone("check", root, "--json").out)["dags"]
    assert (dag["tasks"], dag["task_groups"]) == (["end", "load.a"], {"load": ["load.a"]})
