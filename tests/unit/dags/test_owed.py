"""The runs that follow the last one, and how many are owed."""

from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pendulum
import pytest
from pendulum import DateTime

from lamplighter import DAG, Asset, clock
from lamplighter.dags import upcoming
from lamplighter.dags.upcoming import FollowingRuns, following_runs, owed_runs
from lamplighter.errors import DefinitionError
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from lamplighter.timetables.trigger import CronTriggerTimetable
from lamplighter.zones import UTC

MONDAY = pendulum.datetime(2026, 1, 5)
HOUR = timedelta(hours=1)


class Hourly(Timetable):
    """An author's timetable of hours that takes the way that `clamp` says without catchup."""

    def __init__(self, clamp: Callable[[DateTime], DateTime] = lambda start: start) -> None:
        self.clamp = clamp

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        last = last_automated_data_interval
        start = last.end if last else restriction.earliest
        assert start is not None
        if not restriction.catchup:
            start = self.clamp(start)
        if restriction.latest is not None and start > restriction.latest:
            return None
        return DagRunInfo.interval(start, start + HOUR)


def newest_complete(start: DateTime) -> DateTime:
    """Skip to the last hour that is over."""
    return max(start, clock.now().start_of("hour") - HOUR)


def present(start: DateTime) -> DateTime:
    """Skip to the hour that has just begun, and over the one that is due."""
    return max(start, clock.now().start_of("hour"))


def dag(schedule: Any, **options: Any) -> DAG:
    """Return a DAG that starts on Monday."""
    return DAG("d", **{"schedule": schedule, "start_date": MONDAY, "max_active_runs": 1} | options)


def run(hours: float) -> DagRunInfo:
    """Return the run of an hour, counted from Monday."""
    start = MONDAY + timedelta(hours=hours)
    return DagRunInfo.interval(start, start + HOUR)


def hours(found: FollowingRuns) -> list[float]:
    """Return the hours that the runs are for, counted from Monday."""
    dates = [info.logical_date for info in found.runs]
    return [(date - MONDAY).total_seconds() / 3600 for date in dates if date is not None]


def follow(a_dag: DAG, last: DagRunInfo | None, *, at: float, count: int = 3) -> FollowingRuns:
    """Ask at an hour counted from Monday."""
    return following_runs(a_dag, last, count=count, at=MONDAY + timedelta(hours=at))


def test_runs_with_catchup_begin_after_the_last() -> None:
    """With catchup every run follows, the owed ones first."""
    found = follow(dag(Hourly()), run(2), at=10.5)
    assert (hours(found), found.is_last, found.owed) == ([3, 4, 5], False, 7)


def test_runs_without_last_begin_at_the_start() -> None:
    """A new DAG with catchup begins at its start date."""
    found = follow(dag(Hourly()), None, at=2)
    assert (hours(found), found.owed) == ([0, 1, 2], 2)


@pytest.mark.parametrize("clamp", [newest_complete, present, lambda start: start])
def test_runs_without_catchup_begin_with_the_newest_due(
    clamp: Callable[[DateTime], DateTime],
) -> None:
    """After a pause one run is due, whichever way the timetable takes to the present."""
    found = follow(dag(Hourly(clamp), catchup=False), run(2), at=10.5)
    assert (hours(found), found.owed) == ([9, 10, 11], 1)


@pytest.mark.parametrize(
    ("clamp", "first", "owed_now"), [(newest_complete, 9, 1), (present, 10, 0)]
)
def test_first_run_without_catchup_is_the_timetables_choice(
    clamp: Callable[[DateTime], DateTime], first: int, owed_now: int
) -> None:
    """A new DAG without catchup begins where its timetable says."""
    found = follow(dag(Hourly(clamp), catchup=False), None, at=10.5)
    assert (hours(found)[0], found.owed) == (first, owed_now)


def test_first_run_of_a_timetable_that_never_skips_is_the_newest() -> None:
    """What was missed is dropped, also if the timetable does not know about catchup."""
    found = follow(dag(Hourly(), catchup=False), None, at=10.5)
    assert (hours(found), found.owed) == ([9, 10, 11], 1)


@pytest.mark.parametrize("catchup", [True, False])
def test_runs_when_nothing_is_due_are_the_coming_ones(catchup: bool) -> None:
    """A DAG that is up to date owes nothing."""
    found = follow(dag(Hourly(), catchup=catchup), run(9), at=10.5)
    assert (hours(found), found.owed) == ([10, 11, 12], 0)


def test_run_due_at_the_instant_is_owed() -> None:
    """A run may be created at its instant, not only after it."""
    assert follow(dag(Hourly()), run(8), at=10).owed == 1
    assert follow(dag(Hourly()), run(8), at=9.99).owed == 0


@pytest.mark.parametrize("catchup", [True, False])
def test_runs_of_schedule_that_ends_say_so(catchup: bool) -> None:
    """The last run is known as such as soon as it is among those returned."""
    ending = dag(Hourly(), end_date=MONDAY + 4 * HOUR, catchup=catchup)
    found = follow(ending, run(2), at=0)
    assert (hours(found), found.is_last) == ([3, 4], True)
    assert follow(ending, run(4), at=0) == FollowingRuns([], is_last=True, owed=0)
    assert not follow(ending, run(2), at=0, count=2).is_last


def test_counting_stops_at_its_limit() -> None:
    """Nobody needs to know how many more than ten thousand."""
    found = follow(dag(Hourly()), None, at=20_000)
    assert (hours(found), found.owed) == ([0, 1, 2], 10_000)
    assert owed_runs(dag(Hourly()), None, at=MONDAY.add(hours=20_000), stop_at=7) == 7


def test_walk_that_is_too_long_takes_the_timetables_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frequent schedule after a very long pause is not an error."""
    monkeypatch.setattr(upcoming, "MAX_STEPS", 50)
    found = follow(dag(Hourly(newest_complete), catchup=False), run(0), at=1000.5)
    assert (hours(found), found.owed) == ([999, 1000, 1001], 1)


def test_clock_of_the_timetable_stands_at_the_instant() -> None:
    """A timetable that looks at the clock sees the instant that it is asked about."""
    seen: set[DateTime] = set()

    def look(start: DateTime) -> DateTime:
        seen.add(clock.now())
        return start

    follow(dag(Hourly(look), catchup=False), None, at=10.5)
    assert seen == {MONDAY.add(hours=10, minutes=30)}


def test_last_run_that_timetable_sees_is_in_utc() -> None:
    """A walk shows a timetable its own runs as they will be stored: no zone of its own stays."""
    zones: set[tzinfo | None] = set()

    class Local(Timetable):
        def next_dagrun_info(
            self,
            *,
            last_automated_data_interval: DataInterval | None,
            restriction: TimeRestriction,  # noqa: ARG002 - not what this one is about
        ) -> DagRunInfo | None:
            last = last_automated_data_interval
            zones.update({last.start.tzinfo, last.end.tzinfo} if last else ())
            start = (last.end if last else MONDAY).astimezone(ZoneInfo("Europe/Zurich"))
            day = datetime(start.year, start.month, start.day, tzinfo=start.tzinfo)
            return DagRunInfo.interval(day, day + timedelta(days=1))  # type: ignore[arg-type]

    found = follow(dag(Local(), start_date=MONDAY - HOUR), None, at=0)
    assert zones == {UTC}
    assert [info.run_after.isoformat() for info in found.runs[:2]] == [
        "2026-01-05T23:00:00+00:00",
        "2026-01-06T23:00:00+00:00",
    ]


class Fixed(Hourly):
    """An author's timetable that begins when it likes and heeds no bounds."""

    def __init__(self, first: float) -> None:
        super().__init__()
        self.first = first

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,  # noqa: ARG002 - it heeds none
    ) -> DagRunInfo | None:
        last = last_automated_data_interval
        start = last.end if last else MONDAY + timedelta(hours=self.first)
        return DagRunInfo.interval(start, start + HOUR)


def in_mixed(timetable: Timetable) -> Timetable:
    """Return the timetable as a part of a schedule on assets or time."""
    return AssetOrTimeSchedule(timetable=timetable, assets=[Asset("a")])


@pytest.mark.parametrize("made", [lambda timetable: timetable, in_mixed], ids=["alone", "mixed"])
@pytest.mark.parametrize(
    ("last", "end", "expected", "is_last", "owed"),
    [
        pytest.param(None, 1, [0, 1], True, 2, id="the last one begins at the end date"),
        pytest.param(None, 1.5, [0, 1], True, 2, id="or before it"),
        pytest.param(0, 1, [1], True, 1, id="one more"),
        pytest.param(1, 1, [], True, 0, id="none"),
        pytest.param(None, 9, [0, 1, 2], False, 10, id="far away"),
    ],
)
def test_end_date_bounds_a_timetable_that_ignores_it(
    made: Callable[[Timetable], Timetable],
    last: float | None,
    end: float,
    expected: list[float],
    *,
    is_last: bool,
    owed: int,
) -> None:
    """Runs that begin after the end date are none, whatever the timetable says."""
    ends = dag(made(Fixed(0)), end_date=MONDAY + timedelta(hours=end))
    found = follow(ends, None if last is None else run(last), at=24)
    assert (hours(found), found.is_last, found.owed) == (expected, is_last, owed)


@pytest.mark.parametrize("made", [lambda timetable: timetable, in_mixed], ids=["alone", "mixed"])
@pytest.mark.parametrize("catchup", [True, False])
def test_interval_before_the_start_date_is_an_error(
    made: Callable[[Timetable], Timetable], catchup: bool
) -> None:
    """The tasks of such a run would not be meant to run; the sentence says what to do."""
    early = dag(made(Fixed(-1)), catchup=catchup)
    with pytest.raises(DefinitionError) as caught:
        follow(early, None, at=0)
    assert str(caught.value).endswith(
        " returned an interval from 2026-01-04T23:00:00+00:00, before the start date"
        " 2026-01-05T00:00:00+00:00: begin at restriction.earliest, or later"
    )


def test_built_in_trigger_may_look_back_before_the_start_date() -> None:
    """The interval before the first tick is not the author's to choose."""
    daily = CronTriggerTimetable("0 12 * * *", timezone="UTC", interval=timedelta(days=1))
    assert hours(follow(dag(daily), None, at=0, count=1)) == [-12]


def test_partition_without_zone_is_an_error() -> None:
    """A naive partition date is refused like every other naive instant."""

    class Naive(Timetable):
        def next_dagrun_info(
            self,
            *,
            last_automated_data_interval: DataInterval | None,  # noqa: ARG002 - as above
            restriction: TimeRestriction,  # noqa: ARG002 - as above
        ) -> DagRunInfo | None:
            return DagRunInfo(MONDAY, None, DateTime(2026, 1, 1), "k")

    with pytest.raises(DefinitionError, match="partition_date=2026-01-01 00:00:00 has no time"):
        follow(dag(Naive()), None, at=0)


@pytest.mark.parametrize(
    ("schedule", "last", "with_catchup", "without"),
    [
        ("@hourly", None, 10, 1),
        ("@hourly", run(4), 5, 1),
        ("@hourly", run(9), 0, 0),
        (HOUR, run(4), 5, 1),
        ("@once", None, 1, 1),
        ("@once", run(0), 0, 0),
        ("@continuous", None, 1, 1),
        (None, None, 0, 0),
        (Asset("a"), None, 0, 0),
    ],
    ids=repr,
)
def test_owed_runs_of_built_in_schedules(
    schedule: Any, last: DagRunInfo | None, with_catchup: int, without: int
) -> None:
    """Every schedule owes what is due, and one run at most without catchup."""
    at = MONDAY.add(hours=10, minutes=30)
    assert owed_runs(dag(schedule), last, at=at) == with_catchup
    assert owed_runs(dag(schedule, catchup=False), last, at=at) == without
