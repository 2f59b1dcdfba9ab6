"""A day of the shop in seconds: the real scheduler, an emulated AWS, steps that do nothing."""

from pathlib import Path

import pytest

from lamplighter.timetables.base import Timetable
from lamplighter.timetables.testing import check_timetable
from lamplighter_local.pytest_plugin import Deploy
from timetables.uneven_intervals import UnevenIntervalsTimetable
from timetables.workday import AfterWorkdayTimetable

BUNDLE = Path(__file__).parents[1]
MONDAY = "2026-03-02T00:00:00Z"


@pytest.mark.parametrize(
    "timetable", [UnevenIntervalsTimetable("Europe/Zurich"), AfterWorkdayTimetable()]
)
def test_timetable_keeps_the_rules_of_the_scheduler(timetable: Timetable) -> None:
    """What a timetable promises is checked in one line."""
    assert check_timetable(timetable)


def test_revenue_waits_for_orders_and_rates(lamplighter: Deploy) -> None:
    """The rates of the morning are the first; until then orders wait for them."""
    lamp = lamplighter(BUNDLE, at=MONDAY, catch_up=False, variables={"data_root": "lake"})
    lamp.advance(hours=4)
    assert len(lamp.runs("orders_hourly")) == 4
    assert lamp.runs("revenue_daily") == []

    lamp.advance(hours=2)
    run = lamp.runs("revenue_daily")[0]
    assert {event.asset for event in run.events} == {"orders", "fx"}
    assert run.state == "success"
