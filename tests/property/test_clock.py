"""Law: whoever stops or moves the clock is obeyed, by `now()` and by every timetable."""

import datetime
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from unittest import mock

import freezegun
import pendulum
import pytest
import time_machine
from pendulum import DateTime

from lamplighter import clock, runtime
from lamplighter.timetables.base import DagRunInfo, TimeRestriction, Timetable
from lamplighter.timetables.events import EventsTimetable
from lamplighter.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from lamplighter.timetables.simple import ContinuousTimetable, OnceTimetable
from lamplighter.timetables.trigger import (
    CronPartitionTimetable,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)

NOON = pendulum.datetime(2031, 5, 6, 12, 0, 0, 250_000)
LATER = NOON.add(days=9, hours=1)

Stop = Callable[[DateTime], AbstractContextManager[object]]


REAL_DATETIME = datetime.datetime


def naive(moment: DateTime) -> datetime.datetime:
    """Return the instant as a plain, naive datetime in UTC."""
    return REAL_DATETIME.fromisoformat(moment.isoformat()).replace(tzinfo=None)


@contextmanager
def replaced_time(moment: DateTime) -> Iterator[None]:
    """Replace `time.time` and nothing else."""
    with mock.patch("time.time", return_value=moment.timestamp()):
        yield


class AnyDatetime(type):
    """What a stand-in needs so that real datetimes still count as datetimes."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, REAL_DATETIME)


@contextmanager
def replaced_datetime(moment: DateTime) -> Iterator[None]:
    """Replace `datetime.datetime` and nothing else, the way a careful test does."""

    class Stopped(REAL_DATETIME, metaclass=AnyDatetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Stopped":
            return cls.fromtimestamp(moment.timestamp(), tz=tz)

    with mock.patch("datetime.datetime", Stopped):
        yield


@contextmanager
def replaced_datetime_carelessly(moment: DateTime) -> Iterator[None]:
    """Replace `datetime.datetime` by one whose `now` forgets the zone it was asked for."""

    class Careless(REAL_DATETIME, metaclass=AnyDatetime):
        @classmethod
        def now(  # type: ignore[override]
            cls,
            tz: datetime.tzinfo | None = None,  # noqa: ARG003 - that is its carelessness
        ) -> datetime.datetime:
            return naive(moment)

    with mock.patch("datetime.datetime", Careless):
        yield


@contextmanager
def replaced_both(moment: DateTime) -> Iterator[None]:
    """Replace both, with the same instant."""
    with replaced_datetime(moment), replaced_time(moment):
        yield


STOPS: dict[str, Stop] = {
    "time_machine": lambda moment: time_machine.travel(moment, tick=False),
    "freezegun": lambda moment: freezegun.freeze_time(naive(moment)),
    "time_alone": replaced_time,
    "datetime_alone": replaced_datetime,
    "datetime_carelessly": replaced_datetime_carelessly,
    "both": replaced_both,
    "using": lambda moment: runtime.using(clock=clock.FixedClock(moment)),
}
stops = pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS)


@stops
def test_now_under_stopped_clock_is_obedient(stop: Stop) -> None:
    """The present is the instant at which the clock was stopped, to the microsecond, in UTC."""
    with stop(NOON):
        now = clock.now()
    assert now == NOON
    assert type(now) is DateTime
    assert now.timezone_name == "UTC"


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_now_frozen_by_pendulum_is_obedient(zone: str) -> None:
    """A clock may be frozen at the library's own kind of instant, in any zone."""
    with freezegun.freeze_time(NOON.in_timezone(zone)):
        assert clock.now() == NOON


@stops
def test_now_after_stopped_clock_is_real(stop: Stop) -> None:
    """When the block ends, the machine's clock counts again."""
    with stop(NOON):
        clock.now()
    assert abs(clock.now().timestamp() - time.time()) < 60


@stops
def test_now_under_moved_clock_moves(stop: Stop) -> None:
    """A clock that is set a second time is read a second time."""
    with stop(NOON):
        first = clock.now()
    with stop(LATER):
        second = clock.now()
    assert (first, second) == (NOON, LATER)


DAY = datetime.timedelta(days=1)
TIMETABLES: list[Timetable] = [
    CronDataIntervalTimetable("@daily", "UTC"),
    CronDataIntervalTimetable("@daily", "Europe/Zurich"),
    DeltaDataIntervalTimetable(DAY),
    CronTriggerTimetable("@daily", timezone="UTC"),
    DeltaTriggerTimetable(DAY),
    MultipleCronTriggerTimetable("@daily", "@hourly", timezone="UTC"),
    CronPartitionTimetable("@daily", timezone="UTC"),
    OnceTimetable(),
    ContinuousTimetable(),
    EventsTimetable([NOON.add(days=days) for days in range(30)]),
]


def newest_run(timetable: Timetable) -> DagRunInfo | None:
    """Return the next run without catchup and without a start date: it hangs on the clock."""
    return timetable.next_dagrun_info_v2(
        last_dagrun_info=None, restriction=TimeRestriction(None, None, catchup=False)
    )


@stops
@pytest.mark.parametrize("timetable", TIMETABLES, ids=repr)
def test_timetable_reads_clock_every_time(timetable: Timetable, stop: Stop) -> None:
    """A timetable that was asked before answers by the clock as it is now."""
    with stop(NOON):
        first = newest_run(timetable)
    with stop(LATER):
        second = newest_run(timetable)
    assert first is not None
    assert second is not None
    assert 8 * DAY <= second.run_after - first.run_after <= 10 * DAY


def test_clocks_inside_each_other_return() -> None:
    """The inner clock counts until its block ends, then the outer one counts again."""
    with runtime.using(clock=clock.FixedClock(NOON)):
        with runtime.using(clock=clock.FixedClock(LATER)):
            assert clock.now() == LATER
        assert clock.now() == NOON


def test_clock_of_failed_block_is_dropped() -> None:
    """A block that fails does not leave its clock behind."""
    with pytest.raises(RuntimeError), runtime.using(clock=clock.FixedClock(NOON)):
        raise RuntimeError
    assert clock.now() != NOON


def test_clock_in_use_counts_for_threads() -> None:
    """Threads agree on the time."""
    seen: list[DateTime] = []
    thread = threading.Thread(target=lambda: seen.append(clock.now()))
    with runtime.using(clock=clock.FixedClock(NOON)):
        thread.start()
        thread.join()
    assert seen == [NOON]


@pytest.mark.parametrize(
    "moment",
    [naive(NOON), NOON.in_timezone("Asia/Tokyo"), datetime.datetime.fromisoformat(str(NOON))],
    ids=["naive", "tokyo", "plain"],
)
def test_clock_of_any_kind_answers_utc(moment: datetime.datetime) -> None:
    """Whatever a clock shows becomes an instant in UTC; a naive one is in UTC already."""
    with runtime.using(clock=clock.FixedClock(moment)):
        assert clock.now() == NOON
        assert clock.now().timezone_name == "UTC"
