"""Counting owed runs: all of them, or as many as there is time for."""

from collections.abc import Callable
from itertools import count

import pytest
from pendulum import datetime

from lamplighter import DAG
from lamplighter.dags.upcoming import MAX_OWED_COUNTED
from lamplighter.registry.owed import OwedRuns, count_owed
from lamplighter.timetables.trigger import CronTriggerTimetable
from tests.tools.definitions import row_of

START = datetime(2026, 1, 5)


def patience(asked: int) -> Callable[[], bool]:
    """Return a limit that is reached when it has been asked so often."""
    numbers = count(1)
    return lambda: next(numbers) <= asked


@pytest.mark.parametrize(
    ("hours", "asked", "expected"),
    [
        (0, 9, OwedRuns(0, is_all=True)),
        (5, 9, OwedRuns(5, is_all=True)),
        (5, 5, OwedRuns(5, is_all=True)),
        (5, 4, OwedRuns(5, is_all=False)),
        (500, 7, OwedRuns(8, is_all=False)),
        (500, 0, OwedRuns(1, is_all=False)),
        (MAX_OWED_COUNTED + 9, 99_999, OwedRuns(MAX_OWED_COUNTED, is_all=False)),
    ],
)
def test_counting_ends_when_the_time_is_up(hours: int, asked: int, expected: OwedRuns) -> None:
    """What was counted until then is told as a part; at least the next run is known."""
    schedule = CronTriggerTimetable("0 * * * *", timezone="UTC")
    row = row_of(DAG("dag", schedule=schedule, start_date=START.add(hours=1)))
    now = START.add(hours=hours)
    assert count_owed(row, now=now, has_time=patience(asked)) == expected
