"""The dates of a range: which belong to it, for each kind of schedule. Pure."""

from datetime import timedelta
from typing import Any

import pytest
from dateutil.relativedelta import relativedelta
from hypothesis import given
from hypothesis import strategies as st
from pendulum import DateTime, datetime

from lamplighter import DAG, Asset
from lamplighter.backfill.plan import runs_between
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import place
from lamplighter.timetables.events import EventsTimetable
from lamplighter.timetables.trigger import (
    CronPartitionTimetable,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)
from lamplighter.zones import iso

NOW = datetime(2026, 1, 5)
ANCHOR = datetime(2026, 1, 2, 0, 30)


def dates(
    schedule: Any, start: DateTime, end: DateTime, *, anchor: DateTime | None = ANCHOR
) -> list[str]:
    """Return the dates of a schedule in a range, without the year."""
    timetable = DAG("dag", schedule=schedule, start_date=ANCHOR).timetable
    found = runs_between(timetable, start, end, now=NOW, anchor=anchor)
    return [iso(place(info))[5:16] for info in found]


FIRST, FOURTH = datetime(2026, 1, 1), datetime(2026, 1, 4)
HOURLY = CronTriggerTimetable("0 */12 * * *", timezone="UTC")


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("0 0 * * *", ["01-01T00:00", "01-02T00:00", "01-03T00:00"]),
        (CronTriggerTimetable("0 0 * * *", timezone="UTC"),
         ["01-01T00:00", "01-02T00:00", "01-03T00:00"]),
        (MultipleCronTriggerTimetable("0 6 1 * *", "0 7 3 * *", timezone="UTC"),
         ["01-01T06:00", "01-03T07:00"]),
        (CronPartitionTimetable("0 0 * * *", timezone="UTC"),
         ["01-01T00:00", "01-02T00:00", "01-03T00:00"]),
        (timedelta(days=1), ["01-01T00:30", "01-02T00:30", "01-03T00:30"]),
        (DeltaTriggerTimetable(timedelta(days=1)), ["01-01T00:30", "01-02T00:30", "01-03T00:30"]),
        (EventsTimetable([FIRST, FOURTH, NOW]), ["01-01T00:00"]),
        (AssetOrTimeSchedule(timetable=HOURLY, assets=[Asset("a")]),
         ["01-01T00:00", "01-01T12:00", "01-02T00:00", "01-02T12:00", "01-03T00:00",
          "01-03T12:00"]),
    ],
)  # fmt: skip
def test_range_includes_its_start_and_not_its_end(schedule: Any, expected: list[str]) -> None:
    """From the first to the fourth are three days, whatever kind of schedule has them."""
    assert dates(schedule, FIRST, FOURTH) == expected


def test_calendar_delta_is_counted_from_the_beginning_of_its_dag() -> None:
    """A month has no fixed length; its dates are walked to."""
    start, end = datetime(2025, 3, 1), datetime(2025, 7, 1)
    anchor = datetime(2025, 1, 31, 6)
    assert dates(relativedelta(months=1), start, end, anchor=anchor) == [
        "03-28T06:00",
        "04-28T06:00",
        "05-28T06:00",
        "06-28T06:00",
    ]


def test_interval_that_ends_at_this_moment_is_not_complete() -> None:
    """It is the schedule's to run: a backfill takes what ended before."""
    assert dates("0 0 * * *", datetime(2026, 1, 3), datetime(2026, 2, 1)) == ["01-03T00:00"]


def test_empty_range_has_no_dates() -> None:
    """From an instant to itself is nothing."""
    assert dates("0 0 * * *", FIRST, FIRST) == []


INSTANTS = st.integers(0, 60 * 24 * 3).map(lambda minutes: FIRST.add(minutes=minutes))


@given(
    schedule=st.sampled_from(["7 * * * *", "0 */6 * * *", timedelta(minutes=50), HOURLY, "@daily"]),
    edges=st.lists(INSTANTS, min_size=3, max_size=3).map(sorted),
)
def test_two_ranges_that_meet_have_the_dates_of_both_together(
    schedule: Any, edges: list[DateTime]
) -> None:
    """No date is in two ranges that follow each other, and none is in neither."""
    start, middle, end = edges
    parts = dates(schedule, start, middle) + dates(schedule, middle, end)
    assert parts == dates(schedule, start, end)
