"""The examples of watchers and their jobs fit together."""

import inspect
import runpy
from importlib import import_module
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.arrivals import count
from jobs.parcels import show
from lamplighter import SparkTask
from lamplighter.dags.dag import collect_definitions
from lamplighter_job.context import TriggeringEvent
from tests.unit.examples.test_web_shop import NOW, context

EXAMPLES = Path(__file__).parents[3] / "examples"


def tasks() -> list[SparkTask]:
    """Return every task of the examples."""
    with collect_definitions() as definitions:
        for file in EXAMPLES.glob("watchers*/dags/*.py"):
            runpy.run_path(str(file))
    found = [task for dag in definitions.dags for task in dag.tasks.values()]
    return [task for task in found if isinstance(task, SparkTask)]


def test_tasks_of_example_name_functions_that_are_there() -> None:
    """Every job is a function of a session and a context."""
    found = tasks()
    assert len(found) == 7
    for task in found:
        module, name = str(task.job).split(":")
        function = getattr(import_module(module), name)
        assert list(inspect.signature(function).parameters) == ["spark", "context"]


def test_job_shows_what_watchers_told(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """The payload of each event is a row; an event that nobody's watcher told has none."""
    told = TriggeringEvent("shop_orders", "1", NOW, {"payload": {"amount": 120}})
    emitted = TriggeringEvent("shop_orders", "2", NOW)
    count(spark, context(triggering_asset_events={"shop_orders": [told, emitted]}))
    shown = capsys.readouterr().out
    assert '|shop_orders|{"amount": 120}|' in shown
    assert "|shop_orders|    2|" in shown


def test_job_shows_parcels(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Each parcel is a row."""
    told = TriggeringEvent("north_parcels", "1", NOW, {"payload": {"number": 7}})
    show(spark, context(triggering_asset_events={"north_parcels": [told]}))
    assert '|north_parcels|{"number": 7}|' in capsys.readouterr().out
