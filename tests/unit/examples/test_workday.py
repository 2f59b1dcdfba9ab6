"""The examples that run after each workday, with holidays and at a chosen time."""

import datetime

import pendulum
import pytest
from pendulum import DateTime

from lamplighter import clock, runtime
from lamplighter.timetables.base import DataInterval, TimeRestriction
from lamplighter.timetables.testing import check_timetable
from timetables.workday import (
    AfterWorkdayTimetable,
    SometimeAfterWorkdayTimetable,
)

EASTER = [datetime.date(2026, 4, 3), datetime.date(2026, 4, 6)]


def day(text: str) -> DateTime:
    """Return midnight, or another instant, in UTC."""
    return pendulum.parse(text, tz="UTC")  # type: ignore[return-value]


def start_after(
    timetable: AfterWorkdayTimetable,
    last: str | None,
    *,
    catchup: bool = True,
    now: str = "2026-01-01",
) -> DateTime | None:
    """Return the start of the interval that follows the one of day `last`."""
    interval = DataInterval(day(last), day(last).add(days=1)) if last else None
    with runtime.using(clock=clock.FixedClock(day(now))):
        info = timetable.next_dagrun_info(
            last_automated_data_interval=interval,
            restriction=TimeRestriction(day("2026-01-01T08:00"), day("2026-12-31"), catchup),
        )
    return info.logical_date if info else None


@pytest.mark.parametrize(
    "timetable",
    [
        AfterWorkdayTimetable(),
        AfterWorkdayTimetable(EASTER),
        SometimeAfterWorkdayTimetable(datetime.time(8)),
        SometimeAfterWorkdayTimetable(datetime.time(8, 30), EASTER),
    ],
)
def test_workday_timetables_keep_the_contract(timetable: AfterWorkdayTimetable) -> None:
    """Both pass the contract test; weekends and holidays are declared holes."""
    check_timetable(timetable, earliest=day("2026-03-20"))


def test_friday_is_ready_on_saturday_midnight() -> None:
    """The run for Friday may be created when Friday is over, not on Monday."""
    runs = check_timetable(AfterWorkdayTimetable(), earliest=day("2026-03-27"), steps=2)
    assert [run.run_after for run in runs] == [day("2026-03-28"), day("2026-03-31")]


@pytest.mark.parametrize(
    ("last", "start"),
    [
        ("2026-03-26", "2026-03-27"),
        ("2026-03-27", "2026-03-30"),
        ("2026-04-02", "2026-04-07"),
        (None, "2026-01-02"),
    ],
)
def test_run_after_weekend_and_holidays_is_next_workday(last: str | None, start: str) -> None:
    """Weekends and holidays have no run; a start date within a day means the next day."""
    assert start_after(AfterWorkdayTimetable(EASTER), last) == day(start)


def test_no_day_before_today_without_catchup() -> None:
    """Without catchup no day before the present one is taken, for the first run or any other."""
    timetable = AfterWorkdayTimetable()
    for last in (None, "2026-03-02"):
        found = start_after(timetable, last, catchup=False, now="2026-03-28T15:00")
        assert found == day("2026-03-30")


def test_manual_run_on_monday_covers_friday() -> None:
    """A run started by hand covers the last workday that is over."""
    interval = AfterWorkdayTimetable().infer_manual_data_interval(run_after=day("2026-03-30T09:00"))
    assert interval == DataInterval(day("2026-03-27"), day("2026-03-28"))


def test_chosen_time_moves_only_the_run() -> None:
    """The data stays the whole day; only the moment of the run moves, and the summary says it."""
    timetable = SometimeAfterWorkdayTimetable(datetime.time(8))
    (run,) = check_timetable(timetable, earliest=day("2026-03-27"), steps=1)
    assert run.data_interval == DataInterval(day("2026-03-27"), day("2026-03-28"))
    assert run.run_after == day("2026-03-28T08:00")
    assert timetable.summary == "after each workday, at 08:00:00"
