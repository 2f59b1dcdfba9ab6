"""The example that runs at 06:00 and 16:30: its intervals, bounds, catchup and zones."""

from itertools import pairwise

import pendulum
import pytest
from pendulum import DateTime

from lamplighter import clock, runtime
from lamplighter.timetables.base import DataInterval, TimeRestriction
from lamplighter.timetables.testing import check_timetable
from timetables.uneven_intervals import UnevenIntervalsTimetable


def at(text: str) -> DateTime:
    """Return an instant from short text in UTC."""
    return pendulum.parse(text, tz="UTC")  # type: ignore[return-value]


def ask(
    timetable: UnevenIntervalsTimetable,
    *,
    last: tuple[str, str] | None = None,
    earliest: str | None = None,
    latest: str | None = None,
    catchup: bool = True,
    now: str = "2026-06-10T12:00",
) -> tuple[DateTime, DateTime] | None:
    """Return start and end of the next run."""
    with runtime.using(clock=clock.FixedClock(at(now))):
        info = timetable.next_dagrun_info(
            last_automated_data_interval=DataInterval(*map(at, last)) if last else None,
            restriction=TimeRestriction(
                at(earliest) if earliest else None, at(latest) if latest else None, catchup
            ),
        )
    if info is None:
        return None
    assert info.data_interval is not None
    assert info.run_after == info.data_interval.end
    return info.data_interval.start, info.data_interval.end


@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Zurich", "America/New_York", "Australia/Lord_Howe"]
)
def test_uneven_intervals_keep_the_contract(zone: str) -> None:
    """The timetable passes the contract test in any zone."""
    check_timetable(UnevenIntervalsTimetable(zone))


def test_intervals_alternate_between_two_lengths() -> None:
    """In UTC the intervals are 10.5 and 13.5 hours, in turn, without holes."""
    runs = check_timetable(UnevenIntervalsTimetable(), earliest=at("2026-06-01T07:00"))
    intervals = [run.data_interval for run in runs if run.data_interval]
    lengths = [(end - start).total_seconds() / 3600 for start, end in intervals]
    assert lengths[:4] == [10.5, 13.5, 10.5, 13.5]
    assert all(one.end == other.start for one, other in pairwise(intervals))


@pytest.mark.parametrize(
    ("earliest", "hours"), [("2026-03-28T05:00", [10.5, 12.5]), ("2026-10-24T04:00", [10.5, 14.5])]
)
def test_night_of_clock_change_is_an_hour_off(earliest: str, hours: list[float]) -> None:
    """On the days the clocks change only the night's interval is an hour shorter or longer."""
    runs = check_timetable(
        UnevenIntervalsTimetable("Europe/Zurich"), earliest=at(earliest), steps=2
    )
    intervals = [run.data_interval for run in runs if run.data_interval]
    assert [(end - start).total_seconds() / 3600 for start, end in intervals] == hours


@pytest.mark.parametrize(
    ("earliest", "start"),
    [
        ("2026-06-01T06:00", "2026-06-01T06:00"),
        ("2026-06-01T06:01", "2026-06-02T06:00"),
        ("2026-06-01T12:00", "2026-06-02T06:00"),
        ("2026-06-01T20:00", "2026-06-02T06:00"),
    ],
)
def test_first_interval_is_a_whole_morning_one(earliest: str, start: str) -> None:
    """The first run covers the first 06:00 to 16:30 that starts at or after the start date."""
    expected = at(start), at(start[:10] + "T16:30")
    assert ask(UnevenIntervalsTimetable(), earliest=earliest) == expected


def test_missed_intervals_are_skipped_without_catchup() -> None:
    """Without catchup the first run and every later one is the newest complete interval."""
    newest = at("2026-06-09T16:30"), at("2026-06-10T06:00")
    timetable = UnevenIntervalsTimetable()
    assert ask(timetable, earliest="2026-06-01", catchup=False) == newest
    last = ("2026-06-02T06:00", "2026-06-02T16:30")
    assert ask(timetable, last=last, earliest="2026-06-01", catchup=False) == newest


def test_missed_intervals_come_in_order_with_catchup() -> None:
    """With catchup the run after an old one is the one that follows it."""
    last = ("2026-06-02T06:00", "2026-06-02T16:30")
    expected = at("2026-06-02T16:30"), at("2026-06-03T06:00")
    assert ask(UnevenIntervalsTimetable(), last=last, earliest="2026-06-01") == expected


def test_start_after_the_end_date_gives_no_run() -> None:
    """The end date bounds the start of the interval, inclusively."""
    last = ("2026-06-02T06:00", "2026-06-02T16:30")
    timetable = UnevenIntervalsTimetable()
    assert ask(timetable, last=last, latest="2026-06-02T16:29") is None
    assert ask(timetable, last=last, latest="2026-06-02T16:30") is not None


@pytest.mark.parametrize(
    ("run_after", "start", "end"),
    [
        ("2026-06-10T12:00", "2026-06-09T16:30", "2026-06-10T06:00"),
        ("2026-06-10T23:59", "2026-06-10T06:00", "2026-06-10T16:30"),
        ("2026-06-10T03:00", "2026-06-09T06:00", "2026-06-09T16:30"),
        ("2026-06-10T06:00", "2026-06-09T16:30", "2026-06-10T06:00"),
    ],
)
def test_manual_run_gets_newest_complete_interval(run_after: str, start: str, end: str) -> None:
    """A run started by hand covers the last interval that is over."""
    interval = UnevenIntervalsTimetable().infer_manual_data_interval(run_after=at(run_after))
    assert interval == DataInterval(at(start), at(end))
