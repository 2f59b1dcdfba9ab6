"""The example DAGs and their jobs fit together, and import only what they may."""

import ast
import inspect
import runpy
import sys
from datetime import UTC, date, datetime
from importlib import import_module
from pathlib import Path

import pytest

from jobs.report import weeks_wanted
from jobs.shop.run_facts import data_root, days_named, interval_of
from lamplighter import SparkTask
from lamplighter.dags.dag import collect_definitions
from lamplighter_job import Context
from lamplighter_job.context import TriggeringEvent

EXAMPLES = Path(__file__).parents[3] / "examples"
# A job may run on a Python as old as this.
OLDEST_PYTHON = (3, 9)
ALLOWED = {
    "dags": {"lamplighter", "pendulum", "timetables"},
    "jobs": {"jobs", "lamplighter_job", "pyspark"},
}
FILES = [file for folder in ALLOWED for file in (EXAMPLES / folder).rglob("*.py")]
NOW = datetime(2026, 1, 5, 7, tzinfo=UTC)


def context(**facts: object) -> Context:
    """Return a context with little in it."""
    needed: dict[str, object] = {
        "dag_id": "dag",
        "run_id": "run",
        "run_type": "manual",
        "task_id": "task",
        "try_number": 1,
        "submission": 1,
        "run_after": NOW,
    }
    return Context(**needed | facts)  # type: ignore[arg-type] # facts of many types


def tasks() -> list[SparkTask]:
    """Return every task of the examples."""
    with collect_definitions() as definitions:
        runpy.run_path(str(EXAMPLES / "dags" / "web_shop.py"))
    found = [task for dag in definitions.dags for task in dag.tasks.values()]
    return [task for task in found if isinstance(task, SparkTask)]


@pytest.mark.parametrize("task", tasks(), ids=lambda task: f"{task.dag.dag_id}.{task.task_id}")
def test_task_names_a_program_that_is_there(task: SparkTask) -> None:
    """Every job is a function of a session and a context, every script a file of the bundle."""
    if task.job is None:
        assert (EXAMPLES / str(task.entry_point)).is_file()
        return
    module, name = task.job.split(":")
    function = getattr(import_module(module), name)
    assert list(inspect.signature(function).parameters) == ["spark", "context"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_file_imports_only_what_is_there_when_it_runs(file: Path) -> None:
    """DAGs need Lamplighter alone, jobs PySpark and the context, and neither a new Python."""
    tree = ast.parse(file.read_text(encoding="utf-8"), feature_version=OLDEST_PYTHON)
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [n.name for n in node.names]
        )
    }
    assert names - sys.stdlib_module_names <= ALLOWED[file.relative_to(EXAMPLES).parts[0]]


def test_days_named_several_times_come_once() -> None:
    """The days of all events and of the parameter are one sorted list."""
    events = {
        "orders": [
            TriggeringEvent("orders", "1", NOW, {"days": ["2026-01-03", "2026-01-02"]}),
            TriggeringEvent("orders", "1", NOW, {"days": ["2026-01-03"]}),
        ],
        "fx": [TriggeringEvent("fx", "2", NOW, {"days": ["2026-01-02"]})],
    }
    found = days_named(context(triggering_asset_events=events, params={"days": ["2026-01-01"]}))
    assert found == [date(2026, 1, day) for day in (1, 2, 3)]


def test_new_revenue_concerns_the_week_after_too() -> None:
    """A week is compared with the one before, so a changed day changes two reports."""
    wanted = weeks_wanted(context(params={"days": ["2026-01-04", "2026-01-03"]}))
    assert wanted == [date(2025, 12, 29), date(2026, 1, 5)]


def test_run_without_an_interval_is_refused() -> None:
    """A job that works on an interval says what a run without one has to be given."""
    with pytest.raises(ValueError, match="run run has none: start it with a date"):
        interval_of(context())


def test_deployment_without_a_data_root_is_told_so() -> None:
    """The error names the variable and what it may be; a last slash does not matter."""
    with pytest.raises(ValueError, match="no variable 'data_root'"):
        data_root(context())
    assert data_root(context(variables={"data_root": "s3://lake/shop/"})) == "s3://lake/shop"
