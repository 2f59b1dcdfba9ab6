"""Which data interval a run has that a person starts: with built-in and with custom timetables."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lamplighter_local.stack import LocalStack

Command = Callable[..., Any]
WriteBundle = Callable[[dict[str, str]], Path]

# The two days before the date, in the time zone that the timetable is told.
TIMETABLES = """
import os
import pendulum
from lamplighter.timetables.base import DataInterval, Timetable

class TwoDays(Timetable):
    def __init__(self, timezone="UTC"):
        self.timezone = timezone
    def serialize(self):
        return {"timezone": self.timezone}
    @classmethod
    def deserialize(cls, data):
        return cls(data["timezone"])
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        return None
    def infer_manual_data_interval(self, *, run_after):
        end = run_after.in_timezone(self.timezone).start_of("day")
        return DataInterval(end.subtract(days=2), end)

class Raising(TwoDays):
    def infer_manual_data_interval(self, *, run_after):
        raise ValueError("no\\nsuch day")

class Silent(TwoDays):
    def infer_manual_data_interval(self, *, run_after):
        pass

class Wrong(TwoDays):
    def infer_manual_data_interval(self, *, run_after):
        return (run_after, run_after)

class Backwards(TwoDays):
    def infer_manual_data_interval(self, *, run_after):
        return DataInterval(run_after, run_after.subtract(days=1))

class Naive(TwoDays):
    def infer_manual_data_interval(self, *, run_after):
        return DataInterval(run_after.naive(), run_after.naive())

class Dying(TwoDays):
    def infer_manual_data_interval(self, *, run_after):
        os._exit(1)

class Missing(Timetable):
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        return None
"""
DAGS = """
import pendulum
from lamplighter import DAG, Asset
from lamplighter.timetables.assets import AssetOrTimeSchedule
from timetables import two_days
from timetables.two_days import TwoDays

START = pendulum.datetime(2026, 1, 1)
DAG("own", schedule=TwoDays("Europe/Zurich"), start_date=START)
both = AssetOrTimeSchedule(timetable=TwoDays(), assets=[Asset("orders")])
DAG("both", schedule=both, start_date=START)
for name in ("Raising", "Silent", "Wrong", "Backwards", "Naive", "Dying", "Missing"):
    DAG(name.lower(), schedule=getattr(two_days, name)(), start_date=START)
"""


@pytest.fixture
def pushed(stack: LocalStack, write_bundle: WriteBundle) -> LocalStack:
    """Return a deployment with DAGs that have custom timetables."""
    stack.push(write_bundle({"timetables/two_days.py": TIMETABLES, "dags/own.py": DAGS}))
    return stack


def ends(run: dict[str, Any]) -> tuple[str, str]:
    """Return the data interval of a run, as a program reads it."""
    return run["data_interval_start"], run["data_interval_end"]


@pytest.mark.parametrize(
    ("dag_id", "options", "expected"),
    [
        ("own", [], ("2026-01-02T23:00:00+00:00", "2026-01-04T23:00:00+00:00")),
        (
            "own",
            ["--logical-date", "2026-01-04"],
            ("2026-01-01T23:00:00+00:00", "2026-01-03T23:00:00+00:00"),
        ),
        (
            "own",
            ["--data-interval", "2026-01-04/2026-01-05T06:00Z"],
            ("2026-01-03T23:00:00+00:00", "2026-01-05T06:00:00+00:00"),
        ),
        ("both", [], ("2026-01-03T00:00:00+00:00", "2026-01-05T00:00:00+00:00")),
    ],
)
def test_trigger_of_a_custom_timetable_has_the_interval_that_it_infers(
    lamplighter: Command,
    pushed: LocalStack,
    dag_id: str,
    options: list[str],
    expected: tuple[str, str],
) -> None:
    """The sandbox is asked for the date, also inside a schedule on assets or time."""
    result = lamplighter("runs", "trigger", dag_id, *options, "--json")
    assert (result.code, result.err) == (0, "")
    assert ends(json.loads(result.out)) == expected
    (run,) = pushed.runs(dag_id)
    assert (run.run_type, run.data_interval_end.isoformat()) == ("manual", expected[1])


@pytest.mark.parametrize(
    ("dag_id", "words"),
    [
        ("raising", "ValueError: no such day"),
        ("silent", "Silent.infer_manual_data_interval returned data_interval=None, not a Data"),
        ("wrong", "not a DataInterval"),
        ("backwards", "returned an interval that ends before it starts"),
        ("naive", "without a time zone: add one, such as tz='UTC'"),
        ("dying", "the process that asked the timetable"),
        ("missing", "Missing must define infer_manual_data_interval"),
    ],
)
def test_timetable_that_raises_or_lies_is_one_line(
    lamplighter: Command, pushed: LocalStack, dag_id: str, words: str
) -> None:
    """The line names the DAG, what its timetable did and the way out; no run is created."""
    result = lamplighter("runs", "trigger", dag_id)
    (line,) = result.err.splitlines()
    assert line.startswith(f"error: the timetable of DAG {dag_id!r} failed: ")
    assert words in line
    assert line.endswith("; fix it, or trigger the run with a data interval")
    assert result.code == 1
    assert pushed.runs(dag_id) == []


def test_trigger_tells_dates_in_the_zone_of_the_dag(
    lamplighter: Command, pushed: LocalStack
) -> None:
    """A date without an offset is the DAG's, and the answer shows how it was understood."""
    result = lamplighter("runs", "trigger", "own", "--logical-date", "2026-01-04")
    first, *rest = result.out.splitlines()
    assert first.startswith("run manual__2026-01-03T23:00:00+00:00 of DAG own is queued: see ")
    assert [" ".join(line.split()) for line in rest] == [
        "logical date 2026-01-03 23:00 UTC (2026-01-04 00:00 Europe/Zurich)",
        (
            "data interval 2026-01-01 23:00 UTC (2026-01-02 00:00 Europe/Zurich) to"
            " 2026-01-03 23:00 UTC (2026-01-04 00:00 Europe/Zurich)"
        ),
    ]
