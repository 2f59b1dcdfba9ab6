"""Without catchup: after any outage exactly one run, the newest complete one, by any timetable."""

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from dateutil.relativedelta import relativedelta
from hypothesis import given, settings
from hypothesis import strategies as st
from pendulum import DateTime
from pendulum import datetime as instant

from lamplighter import Asset, runtime
from lamplighter.clock import FixedClock
from lamplighter.scheduler.cursor import Due, newest_due, runs_due
from lamplighter.scheduler.schedules import TimetableRuns
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import DagRunInfo, Timetable
from lamplighter.timetables.events import EventsTimetable
from lamplighter.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from lamplighter.timetables.simple import OnceTimetable
from lamplighter.timetables.trigger import (
    CronPartitionTimetable,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)
from lamplighter.zones import as_utc

START = instant(2026, 1, 1)
ZONES = ["UTC", "America/New_York", "Europe/Zurich", "Australia/Lord_Howe", "Asia/Kathmandu"]
CRONS = [
    "0 * * * *",
    "*/20 * * * *",
    "30 2 * * *",
    "15 1 * * MON-FRI",
    "0 0 1 * *",
    "59 23 * * SUN",
]
LENGTHS: list[timedelta | relativedelta] = [
    timedelta(minutes=11),
    timedelta(hours=5, seconds=7),
    timedelta(days=1),
    relativedelta(days=1),
    relativedelta(months=1),
]

crons = st.builds(lambda cron, zone: (cron, zone), st.sampled_from(CRONS), st.sampled_from(ZONES))
deltas = st.sampled_from(LENGTHS)
cron_triggers = st.builds(
    lambda cron, back: CronTriggerTimetable(cron[0], timezone=cron[1], interval=back),
    crons,
    st.sampled_from([timedelta(), timedelta(hours=1), timedelta(days=1)]),
)
timetables: st.SearchStrategy[Timetable] = st.one_of(
    crons.map(lambda cron: CronDataIntervalTimetable(*cron)),
    deltas.map(DeltaDataIntervalTimetable),
    cron_triggers,
    deltas.map(DeltaTriggerTimetable),
    st.builds(lambda delta: DeltaTriggerTimetable(delta, interval=timedelta(hours=1)), deltas),
    st.builds(
        lambda crons, zone: MultipleCronTriggerTimetable(*crons, timezone=zone),
        st.lists(st.sampled_from(CRONS), min_size=1, max_size=3),
        st.sampled_from(ZONES),
    ),
    crons.map(lambda cron: CronPartitionTimetable(cron[0], timezone=cron[1], run_offset=-1)),
    st.lists(st.integers(0, 400 * 24), min_size=1, max_size=40).map(
        lambda hours: EventsTimetable([START.add(hours=hour) for hour in hours])
    ),
    cron_triggers.map(
        lambda inner: AssetOrTimeSchedule(timetable=inner, assets=[Asset("orders")]),
    ),
    st.just(OnceTimetable()),
)
# Weeks of the year in which clocks change somewhere, and lengths from a moment to two months.
instants = st.builds(
    lambda days, seconds: START.add(days=days, seconds=seconds),
    st.sampled_from([5, 66, 87, 94, 276, 297, 304]),
    st.integers(-90_000, 90_000),
)
outages = st.lists(
    st.one_of(st.integers(1, 7_200), st.integers(1, 3 * 86_400), st.integers(1, 60 * 86_400)),
    min_size=1,
    max_size=4,
)


class PassingClock:
    """A clock on which a microsecond goes by whenever someone looks, as on every real one."""

    def __init__(self, at: DateTime) -> None:
        self._at = at

    def now(self) -> datetime.datetime:
        """Return the time, and let some pass."""
        self._at = self._at.add(microseconds=1)
        return self._at

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self._at = self._at.add(seconds=seconds)


@contextmanager
def at(now: DateTime, *, is_passing: bool) -> Iterator[None]:
    """Let it be `now`, exactly or from now on."""
    with runtime.using(clock=PassingClock(now) if is_passing else FixedClock(now)):
        yield


def first_run(rule: TimetableRuns, now: DateTime, *, is_passing: bool) -> DagRunInfo | None:
    """Return what a new DAG without catchup is told, as it is read back from its row."""
    with at(now, is_passing=is_passing):
        return rule.after(None, catchup=False)


def due_at(rule: TimetableRuns, stored: DagRunInfo, now: DateTime, *, is_passing: bool) -> Due:
    """Return what a claim at `now` would do."""
    with at(now, is_passing=is_passing):
        return runs_due(rule, stored, catchup=False, now=now, limit=5)


def place(info: DagRunInfo) -> DateTime:
    """Return what tells runs of one schedule apart."""
    return info.logical_date or info.run_after


@settings(deadline=None, max_examples=300)
@given(timetables, instants, outages, st.booleans())
def test_outage_without_catchup_gives_one_newest_run(
    timetable: Timetable, born: DateTime, lengths: list[int], is_passing: bool
) -> None:
    """After each of several outages there is one run: due, complete, new, and none after it is."""
    rule = TimetableRuns(timetable, START, None)
    stored = first_run(rule, born, is_passing=is_passing)
    now, last = born, None

    for seconds in lengths:
        now = as_utc(now + timedelta(seconds=seconds))
        if stored is None:
            break
        due = due_at(rule, stored, now, is_passing=is_passing)
        if stored.run_after > now:
            assert due == Due((), stored)
            continue
        (run,) = due.runs
        assert run.run_after <= now
        assert due.then is None or due.then.run_after > now
        assert last is None or place(run) > place(last)
        # Asked again at the same moment, there is nothing more.
        assert due.then is None or not due_at(rule, due.then, now, is_passing=is_passing).runs
        last, stored = run, due.then


@settings(deadline=None, max_examples=200)
@given(timetables, instants, st.integers(1, 60 * 86_400))
def test_outage_answer_is_the_same_on_a_real_clock(
    timetable: Timetable, born: DateTime, seconds: int
) -> None:
    """What a claim decides depends on its own instant, not on how fast its clock runs on."""
    rule = TimetableRuns(timetable, START, None)
    stored = first_run(rule, born, is_passing=False)
    now = as_utc(born + timedelta(seconds=seconds))
    if stored is None or stored.run_after > now:
        return

    still = due_at(rule, stored, now, is_passing=False)

    assert due_at(rule, stored, now, is_passing=True) == still


@settings(deadline=None, max_examples=200)
@given(timetables, instants, st.integers(1, 20 * 86_400))
def test_stored_run_stands_until_its_follower_is_due(
    timetable: Timetable, born: DateTime, seconds: int
) -> None:
    """While the run after it is not due, the stored run is created as it stands."""
    rule = TimetableRuns(timetable, START, None)
    stored = first_run(rule, born, is_passing=False)
    if stored is None:
        return
    following = rule.after(stored, catchup=True)
    now = as_utc(stored.run_after + timedelta(seconds=seconds))
    if following is not None:
        now = min(now, as_utc(following.run_after - timedelta(microseconds=1)))

    assert due_at(rule, stored, now, is_passing=True).runs == (stored,)


@pytest.mark.parametrize("is_passing", [False, True])
@pytest.mark.parametrize(
    "timetable",
    [
        DeltaTriggerTimetable(timedelta(minutes=1)),
        DeltaDataIntervalTimetable(timedelta(minutes=1)),
        CronTriggerTimetable("* * * * *", timezone="UTC"),
        CronDataIntervalTimetable("* * * * *", "UTC"),
        CronPartitionTimetable("* * * * *", timezone="UTC"),
        MultipleCronTriggerTimetable("* * * * *", "*/7 * * * *", timezone="UTC"),
        EventsTimetable([START.add(minutes=minute) for minute in range(10_000)]),
    ],
    ids=lambda timetable: type(timetable).__name__,
)
def test_thousands_of_missed_minutes_give_one_run(timetable: Timetable, is_passing: bool) -> None:
    """A schedule of minutes gets one run after three days, however many it has missed."""
    rule = TimetableRuns(timetable, START, None)
    born = START.add(hours=1)
    stored = first_run(rule, born, is_passing=is_passing)
    assert stored is not None
    now = born.add(days=3, seconds=30)

    due = due_at(rule, stored, now, is_passing=is_passing)

    assert len(due.runs) == 1
    assert due.then is not None
    assert now < due.then.run_after <= now.add(minutes=1)


def test_newest_run_of_a_schedule_that_ended_is_its_last() -> None:
    """A schedule whose end lies within the outage still gets its last run."""
    latest = START.add(days=2)
    rule = TimetableRuns(CronDataIntervalTimetable("0 * * * *", "UTC"), START, latest)
    stored = DagRunInfo.interval(START, START.add(hours=1))
    now = START.add(days=9)

    with runtime.using(clock=FixedClock(now)):
        newest = newest_due(rule, stored, now=now)

    assert newest == DagRunInfo.interval(latest, latest.add(hours=1))
