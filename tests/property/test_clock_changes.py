"""Laws of cron schedules where clocks change: every zone, every change from 2007 to 2037.

Zones that agree around a change are asked once, since a schedule sees nothing of a zone but its
offsets. Listed at the end of the file are single cases that are easily got wrong.
"""

import sys
import zoneinfo
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st
from pendulum import DateTime

from lamplighter import clock, runtime
from lamplighter.timetables.base import DataInterval, TimeRestriction
from lamplighter.timetables.cron import CronSchedule, wall_ticks
from lamplighter.timetables.interval import CronDataIntervalTimetable
from lamplighter.zones import as_utc, parse_instant, parse_zone

FIRST, LAST = datetime(2007, 1, 1, tzinfo=UTC), datetime(2038, 1, 1, tzinfo=UTC)
SECOND, HOUR, DAY, WEEK = (timedelta(**{unit: 1}) for unit in ("seconds", "hours", "days", "weeks"))
NOT_A_ZONE = {"localtime", "posixrules"}
PARTS = 16


class Change(NamedTuple):
    """A change of clocks: the first instant at which the new offset counts."""

    zone: str
    at: datetime
    length: timedelta


def offset(zone: zoneinfo.ZoneInfo, t: datetime) -> timedelta:
    """Return how far the wall clock is ahead of UTC at `t`."""
    ahead = t.astimezone(zone).utcoffset()
    assert ahead is not None
    return ahead


def changes_of(zone: zoneinfo.ZoneInfo) -> Iterator[tuple[datetime, timedelta, timedelta]]:
    """Yield the instant, the offset before and the offset after for each change."""
    t, before = FIRST, offset(zone, FIRST)
    while t < LAST:
        after = offset(zone, t + WEEK)
        if after != before:
            low, high = t, t + WEEK
            while high - low > SECOND:
                middle = low + (high - low) // SECOND // 2 * SECOND
                low, high = (middle, high) if offset(zone, middle) == before else (low, middle)
            yield high, before, after
        t, before = t + WEEK, after


@cache
def changes() -> list[Change]:
    """Return every change, once for all zones that have no other offset within six days."""
    found: dict[object, Change] = {}
    for name in sorted(zoneinfo.available_timezones() - NOT_A_ZONE):
        listed = list(changes_of(zoneinfo.ZoneInfo(name)))
        for at, before, after in listed:
            neighbours = tuple(change for change in listed if abs(change[0] - at) < 6 * DAY)
            found.setdefault((at, neighbours), Change(name, at, after - before))
    return list(found.values())


def walk(cron: str, zone: str, *, start: DateTime, end: DateTime) -> Iterator[DataInterval]:
    """Yield the intervals from `start` to `end`, each asked for with the one before it."""
    timetable = CronDataIntervalTimetable(cron, zone)
    restriction = TimeRestriction(start, None, catchup=True)
    last: DataInterval | None = None
    while last is None or last.end < end:
        info = timetable.next_dagrun_info(
            last_automated_data_interval=last, restriction=restriction
        )
        assert info is not None
        assert info.data_interval is not None
        yield info.data_interval
        last = info.data_interval
        restriction = TimeRestriction(None, None, catchup=True)  # `last` is beyond it by now


def seams(cron: str, zone: str, *, at: datetime, around: timedelta) -> list[str]:
    """Return what is wrong between neighbouring intervals; an empty list means that they tile."""
    intervals = walk(cron, zone, start=as_utc(at - around), end=as_utc(at + around))
    return [
        f"{cron} in {zone}: {one.start}..{one.end} then {other.start}..{other.end}"
        for one, other in pairwise(intervals)
        if other.start != one.end or other.end <= other.start or one.end <= one.start
    ]


@contextmanager
def untraced() -> Iterator[None]:
    """Measure no coverage in the block: a million questions pass through the same few lines."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


def test_changes_of_all_zones_are_found() -> None:
    """The search sees the rules of every zone, the odd ones too."""
    with untraced():
        found = changes()
    assert len(found) > 2000
    lengths = {abs(change.length) for change in found}
    assert lengths >= {HOUR / 2, HOUR, 2 * HOUR, 3 * HOUR, 24 * HOUR}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("cron", ["0 0 * * *", "0 * * * *", "30 2 * * *", "*/30 * * * *"])
def test_intervals_around_every_change_tile(cron: str, part: int) -> None:
    """Each interval starts where the one before has ended, and has a length."""
    with untraced():
        wrong = [
            seam
            for change in changes()[part::PARTS]
            for seam in seams(cron, change.zone, at=change.at, around=3 * DAY)
        ]
    assert wrong == []


# Hypothesis repeats the same search each time, so that the gate does not change its mind.
calmly = settings(deadline=None, derandomize=True, database=None, max_examples=120)


def fields(least: int, limit: int) -> st.SearchStrategy[str]:
    """Return a strategy of fields: every value, steps, a range, or a list."""
    numbers = st.integers(least, limit)
    return (
        st.just("*")
        | st.integers(1, limit).map("*/{}".format)
        | st.tuples(numbers, numbers).map(lambda pair: "{}-{}".format(*sorted(pair)))
        | st.lists(numbers, min_size=1, max_size=3).map(lambda some: ",".join(map(str, some)))
    )


crons = st.builds(
    "{} {} {}".format,
    fields(0, 59),
    fields(0, 23),
    st.sampled_from(["* * *", "* * 1-5", "* * 0", "* * 5,6", "1 * *", "*/2 * *", "31 * 6"]),
)


@st.composite
def places(draw: st.DrawFn) -> tuple[str, datetime]:
    """Draw a zone and a naive UTC instant near one of its changes; odd changes are as likely."""
    lengths = sorted({change.length for change in changes()})
    length = draw(st.sampled_from(lengths))
    change = draw(st.sampled_from([one for one in changes() if one.length == length]))
    away = draw(st.just(timedelta()) | st.timedeltas(-DAY, DAY))
    return change.zone, change.at.replace(tzinfo=None) + away


def readings(wall: datetime, zone: zoneinfo.ZoneInfo) -> list[datetime]:
    """Return the instants at which clocks show `wall`; a skipped time is shown a gap later."""
    ahead = [wall.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1)]
    instants = sorted({wall - offset for offset in ahead if offset is not None})
    shown = [t for t in instants if wall == t + offset(zone, t.replace(tzinfo=UTC))]
    return shown or instants[-1:]


def ticks_between(cron: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """Return the ticks after `start` and before `end`, by reading one wall time after the other."""
    walls, clocks = wall_ticks(cron), zoneinfo.ZoneInfo(zone)
    both = croniter.expand(cron)[0][1] == ["*"]
    wall, found = walls.after(start - 2 * DAY), set[datetime]()
    while wall < end + 2 * DAY:
        found.update(readings(wall, clocks)[0 if both else -1 :])
        wall = walls.after(wall)
    return sorted(t for t in found if start < t < end)


@calmly
@given(crons, places())
def test_ticks_around_change_are_the_readings(cron: str, place: tuple[str, datetime]) -> None:
    """Ticks are what clocks show, the second time where they show it twice, walked either way."""
    zone, t = place
    start, end = t - DAY / 6, t + DAY / 6
    schedule = CronSchedule(cron, parse_zone(zone))
    forwards, backwards = [schedule.after(start)], [schedule.before(end)]
    while forwards[-1] < end:
        forwards.append(schedule.after(forwards[-1]))
    while backwards[-1] > start:
        backwards.append(schedule.before(backwards[-1]))
    expected = ticks_between(cron, zone, start, end)
    assert forwards[:-1] == expected
    assert backwards[-2::-1] == expected


@calmly
@given(crons, places())
def test_ticks_around_change_lead_back(cron: str, place: tuple[str, datetime]) -> None:
    """Ticks enclose every instant, and one tick back and one forward again cancel out."""
    zone, t = place
    schedule = CronSchedule(cron, parse_zone(zone))
    later, earlier = schedule.after(t), schedule.before(t)
    assert earlier < t < later
    assert schedule.after(schedule.before(later)) == later
    assert schedule.before(schedule.after(earlier)) == earlier


@calmly
@given(crons, places())
def test_alignment_around_change_is_stable(cron: str, place: tuple[str, datetime]) -> None:
    """An instant aligns to itself or to its neighbours, and aligning again keeps it."""
    zone, t = place
    schedule = CronSchedule(cron, parse_zone(zone))
    later, earlier = schedule.at_or_after(t), schedule.at_or_before(t)
    assert (earlier, later) in {(t, t), (schedule.before(t), schedule.after(t))}
    assert schedule.at_or_after(later) == schedule.at_or_before(later) == later
    assert schedule.at_or_after(earlier) == schedule.at_or_before(earlier) == earlier


@calmly
@given(crons, places())
def test_intervals_around_change_tile_anyhow(cron: str, place: tuple[str, datetime]) -> None:
    """Any schedule tiles the time line, not only the usual ones."""
    zone, t = place
    assert seams(cron, zone, at=t.replace(tzinfo=UTC), around=DAY / 6) == []


def newest_complete(cron: str, zone: str, *, now: datetime) -> DataInterval:
    """Return the interval of the next run without catchup and without any earlier run."""
    with runtime.using(clock=clock.FixedClock(now)):
        info = CronDataIntervalTimetable(cron, zone).next_dagrun_info(
            last_automated_data_interval=None, restriction=TimeRestriction(None, None, False)
        )
    assert info is not None
    assert info.data_interval is not None
    return info.data_interval


@calmly
@given(crons, places())
def test_skipping_around_change_takes_newest(cron: str, place: tuple[str, datetime]) -> None:
    """Without catchup, the interval has ended by now, and the next one has not."""
    zone, now = place
    newest = newest_complete(cron, zone, now=now)
    following = CronDataIntervalTimetable(cron, zone).next_dagrun_info(
        last_automated_data_interval=newest, restriction=TimeRestriction(None, None, True)
    )
    assert following is not None
    assert newest.start < newest.end <= as_utc(now) < following.run_after


# Single cases.


@pytest.mark.parametrize(
    ("cron", "zone", "at"),
    [
        # Half an hour was lost in the middle of an hour.
        ("0 * * * *", "America/Caracas", "2016-05-01T07:00"),
        ("0 * * * *", "Asia/Pyongyang", "2018-05-04T15:00"),
        # Half an hour comes and goes every year.
        ("59 * * * *", "Australia/Lord_Howe", "2023-09-30T15:30"),
        ("59 * * * *", "Australia/Lord_Howe", "2024-04-06T15:00"),
        ("*/20 * * * *", "America/Caracas", "2016-05-01T07:00"),
        # Three hours were lost at once.
        ("0 */2 * * *", "Antarctica/Casey", "2019-10-03T19:00"),
        # Ticks in and behind the gap change their order.
        ("10,35 2 * * *", "Australia/Lord_Howe", "2023-09-30T15:30"),
        # Every hour of one day, and that day begins twice.
        ("0 * * * 0", "America/Havana", "2026-11-01T05:00"),
        ("0 * * * 0", "Atlantic/Azores", "2026-10-25T01:00"),
        ("0 * * * 5", "Asia/Amman", "2021-10-28T22:00"),
        ("0 * 1 * *", "America/Havana", "2026-11-01T05:00"),
    ],
)
def test_intervals_around_odd_change_tile(cron: str, zone: str, at: str) -> None:
    """Schedules and zones that rarely meet tile the time line as well."""
    assert seams(cron, zone, at=parse_instant(at), around=8 * DAY) == []


@pytest.mark.parametrize(
    ("cron", "zone", "t"),
    [
        ("25 * * * 0-4", "America/Campo_Grande", "2015-02-22T02:46"),
        ("22 * * * 1-5", "Asia/Amman", "2018-10-25T21:40"),
    ],
)
def test_tick_on_some_days_keeps_day(cron: str, zone: str, t: str) -> None:
    """A schedule of some weekdays does not tick on another when midnight is repeated."""
    tick = CronSchedule(cron, parse_zone(zone)).after(datetime.fromisoformat(t))
    weekdays = [int(day) for day in cron.split()[4].split("-")]
    local = as_utc(tick).in_timezone(zone)
    assert local.isoweekday() % 7 in range(weekdays[0], weekdays[1] + 1)


@pytest.mark.parametrize("now", ["2023-03-26T01:30", "2023-03-26T01:55", "2023-03-26T03:00"])
def test_skipping_after_many_lost_ticks_takes_complete(now: str) -> None:
    """When a busy hour did not exist, the newest interval is still one that has ended."""
    newest = newest_complete("*/10 2 * * *", "Europe/Zurich", now=parse_instant(now))
    assert newest.end <= parse_instant(now)
