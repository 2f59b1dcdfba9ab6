"""A timetable that reads the clock gets the simulated time: every simulation is the same."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, timedelta
from datetime import datetime as standard
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pendulum
import pytest
from pendulum import DateTime

from lamplighter import DAG
from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from lamplighter_cli.app import main
from tests.tools.checked_deployment import LocalDeployment

# No clock shows this by itself.
START = "2031-05-05T05:05:00Z"
BUNDLE = """
import datetime
import time
from datetime import UTC, date, timedelta
from datetime import datetime as standard

import pendulum
from lamplighter import DAG, SparkTask
from lamplighter.timetables.base import DagRunInfo, Timetable

class Pulse(Timetable):
    '''Runs every hour, from the present on.'''
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        now = pendulum.now("UTC")
        others = [
            standard.now(UTC), datetime.datetime.now(UTC), standard.fromtimestamp(time.time(), UTC),
            standard.utcnow().replace(tzinfo=UTC), pendulum.DateTime.now("UTC"),
        ]
        days = [date.today(), datetime.date.today(), standard.today().date()]
        days.append(pendulum.today().date())
        if {now} != set(others) or len(set(days)) > 1:
            raise RuntimeError(f"{now}, but {others} and {days}")
        last = last_automated_data_interval
        start = last.end if last else now
        return DagRunInfo.interval(start, start + timedelta(hours=1))

with DAG("pulse", schedule=Pulse(), catchup=False):
    SparkTask("beat", entry_point="jobs/beat.py")
"""
JOBS = {"jobs/beat.py": ""}
DATES = [f"2031-05-05T{hour:02}:05:00+00:00" for hour in range(5, 8)]


class Pulse(Timetable):
    """Runs every hour, from the present on."""

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,  # noqa: ARG002 - it is not looked at
    ) -> DagRunInfo | None:
        last = last_automated_data_interval
        start = last.end if last else pendulum.instance(standard.now(UTC))
        return DagRunInfo.interval(start, start + timedelta(hours=1))


@pytest.fixture
def bundle(write_bundle: Callable[[dict[str, str]], Path]) -> Path:
    """Return a bundle with a timetable that reads the clock in all usual ways."""
    return write_bundle({"dags/pulse.py": BUNDLE, **JOBS})


def dates(lamp: LocalDeployment) -> list[str]:
    """Return the logical dates of the runs."""
    found: list[DateTime | None] = [run.logical_date for run in lamp.runs("pulse")]
    return [date.isoformat() for date in found if date is not None]


def test_timetable_of_a_bundle_gets_the_simulated_time(bundle: Path) -> None:
    """All clocks of the sandbox's process show the deployment's time, and the same."""
    with LocalDeployment(bundle, at=START) as lamp:
        lamp.advance(hours=3, minutes=1)
        assert dates(lamp) == DATES


def test_timetable_of_an_object_gets_the_simulated_time() -> None:
    """Also where the timetable is a class of the test, in the test's own process."""
    with LocalDeployment([DAG("pulse", schedule=Pulse(), catchup=False)], at=START) as lamp:
        lamp.advance(hours=3, minutes=1)
        assert dates(lamp) == DATES


def told_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Return what a command tells as JSON."""
    argv = ["lamplighter", *arguments, "--at", START, "--json"]
    with patch.object(sys, "argv", argv), pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    return json.loads(capsys.readouterr().out)


def test_simulation_with_such_a_timetable_is_always_the_same(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whenever the command is given, it tells of the same runs."""
    told = told_by(capsys, "simulate", str(bundle), "--days", "1")
    assert [dag["runs"] for dag in told["dags"]] == [24]
    assert [hour["runs"] for hour in told["hours"]] == [1] * 24


def test_next_runs_of_such_a_timetable_are_those_after_the_date(
    write_bundle: Callable[[dict[str, str]], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """`next --at` asks the timetable at that moment, not now."""
    # Files are imported now, when not all clocks show the same.
    bundle = write_bundle({"dags/pulse.py": BUNDLE.replace("raise RuntimeError", "str"), **JOBS})
    told = told_by(capsys, "next", "pulse", "--dags", str(bundle), "--count", "3")
    assert [run["logical_date"] for run in told] == DATES
