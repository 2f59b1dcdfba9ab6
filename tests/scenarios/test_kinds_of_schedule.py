"""Every kind of schedule from its first run to its last, through the real handlers."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pendulum import DateTime, datetime

from lamplighter import DAG, Asset, SparkTask
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.events import EventsTimetable
from lamplighter.timetables.interval import CronDataIntervalTimetable
from lamplighter.timetables.trigger import (
    CronPartitionTimetable,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)
from lamplighter_local.stack import LocalStack
from tests.tools.checked_deployment import LocalDeployment
from tests.tools.definitions import store_dags
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound

Deploy = Callable[..., LocalStack]

MIDNIGHT = datetime(2026, 1, 1)
FIVE_PAST = MIDNIGHT.add(seconds=5)


def dag(schedule: Any, **arguments: Any) -> DAG:
    """Return a DAG that starts at midnight."""
    arguments.setdefault("start_date", MIDNIGHT)
    return DAG("dag", schedule=schedule, **arguments)


def tick_at(stack: LocalStack, instant: DateTime) -> None:
    """Let it be `instant` without a tick on the way, and then tick."""
    stack.clock.move(to=instant)
    stack.tick()
    stack.run_until_idle()


def created(stack: LocalStack) -> list[DateTime]:
    """Return when the runs of the DAG were due."""
    return sorted(run.run_after for run in stack.runs("dag"))


@pytest.mark.parametrize("is_catchup", [True, False])
def test_once_runs_once_and_never_again(deploy: Deploy, is_catchup: bool) -> None:
    """`@once` has one run, at its start date, whatever else happens."""
    stack = deploy(MIDNIGHT.subtract(minutes=2))
    store_dags([dag("@once", catchup=is_catchup)])
    stack.advance(minutes=10)
    finish_run("dag", stack.runs("dag")[0].run_key, state="failed")
    tick_at(stack, MIDNIGHT.add(days=30))

    assert created(stack) == [MIDNIGHT]
    assert stack.dag("dag").next_run_create_after is None
    require_sound()


@pytest.mark.parametrize(
    ("seconds", "apart"), [(1, 30), (31, 31), (90, 90)], ids=lambda value: f"{value} s"
)
def test_continuous_runs_follow_at_their_end_but_not_within_the_gap(
    seconds: int, apart: int
) -> None:
    """The gap spreads runs that end quickly; it delays none after a longer run, nor the first."""
    begin = MIDNIGHT.add(minutes=1)
    endless = dag("@continuous", max_active_runs=1, start_date=begin)
    SparkTask("load", job="jobs:load", dag=endless)
    with LocalDeployment([endless], at=FIVE_PAST) as lamp:
        lamp.takes("dag", "load", seconds=seconds)
        lamp.advance(seconds=60 + 2 * apart)
        first, second, third = lamp.runs("dag")

        assert first.created_at == begin
        assert third.created_at - second.created_at == timedelta(seconds=apart)
        lamp.check_invariants()


def test_continuous_intervals_touch_and_are_never_empty(deploy: Deploy) -> None:
    """The first run starts at its start date, although no time has passed since then."""
    stack = deploy(MIDNIGHT)
    store_dags([dag("@continuous", max_active_runs=1)])
    stack.tick()
    stack.run_until_idle()
    (first,) = stack.runs("dag")
    finish_run("dag", first.run_key, state="success")
    stack.advance(minutes=1)

    first, second = stack.runs("dag")
    assert first.created_at == first.data_interval_start == MIDNIGHT
    assert first.data_interval_end == second.data_interval_start == MIDNIGHT.add(microseconds=1)
    assert second.created_at - first.created_at == timedelta(seconds=31)
    require_sound()


def test_continuous_after_an_outage_is_one_long_interval(deploy: Deploy) -> None:
    """What `@continuous` missed is in its next interval: nothing is lost or run twice."""
    stack = deploy(FIVE_PAST)
    store_dags([dag("@continuous", max_active_runs=1)])
    stack.advance(minutes=1)
    finish_run("dag", stack.runs("dag")[0].run_key, state="success")
    tick_at(stack, MIDNIGHT.add(days=3))

    first, second = stack.runs("dag")
    assert second.data_interval_start == first.data_interval_end
    assert second.data_interval_end == MIDNIGHT.add(days=3)
    require_sound()


def test_continuous_stops_at_its_end_date(deploy: Deploy) -> None:
    """The last interval of `@continuous` does not reach beyond the end date."""
    stack = deploy(FIVE_PAST)
    store_dags([dag("@continuous", max_active_runs=1, end_date=MIDNIGHT.add(minutes=1))])
    tick_at(stack, MIDNIGHT.add(minutes=10))
    finish_run("dag", stack.runs("dag")[0].run_key, state="success")
    tick_at(stack, MIDNIGHT.add(minutes=20))

    (only,) = stack.runs("dag")
    assert only.data_interval_end == MIDNIGHT.add(minutes=1)
    require_sound()


def test_events_run_at_each_listed_instant(deploy: Deploy) -> None:
    """Listed instants, out of order and one of them before the start, each give their run once."""
    stack = deploy(FIVE_PAST)
    hours = [5, 1, -3, 2]
    events = EventsTimetable([MIDNIGHT.add(hours=hour) for hour in hours])
    store_dags([dag(events)])
    for hour in (1, 4, 6, 8):
        tick_at(stack, MIDNIGHT.add(hours=hour, seconds=1))

    assert created(stack) == [MIDNIGHT.add(hours=hour) for hour in (1, 2, 5)]
    assert stack.dag("dag").next_run_create_after is None
    require_sound()


def test_event_listed_twice_runs_once(deploy: Deploy) -> None:
    """An instant that stands in the list twice is still one run."""
    stack = deploy(FIVE_PAST)
    store_dags([dag(EventsTimetable([MIDNIGHT.add(hours=1)] * 2))])
    tick_at(stack, MIDNIGHT.add(hours=2))

    assert created(stack) == [MIDNIGHT.add(hours=1)]
    require_sound()


def test_end_date_is_the_last_logical_date(deploy: Deploy) -> None:
    """The interval that starts at the end date has its run, and none comes after it."""
    stack = deploy(FIVE_PAST)
    store_dags([dag("0 * * * *", end_date=MIDNIGHT.add(hours=2))])
    tick_at(stack, MIDNIGHT.add(days=1))

    assert created(stack) == [MIDNIGHT.add(hours=hour) for hour in (1, 2, 3)]
    assert stack.dag("dag").next_run_create_after is None
    require_sound()


@pytest.mark.parametrize("is_catchup", [True, False])
def test_partitions_are_told_apart_by_their_keys(deploy: Deploy, is_catchup: bool) -> None:
    """A partitioned schedule has runs without a date, one for each key."""
    stack = deploy(FIVE_PAST)
    timetable = CronPartitionTimetable(
        "0 * * * *", timezone="Europe/Zurich", run_offset=-1, key_format="%Y-%m-%dT%H"
    )
    store_dags([dag(timetable, catchup=is_catchup, start_date=MIDNIGHT.add(minutes=30))])
    tick_at(stack, MIDNIGHT.add(hours=3, seconds=2))
    tick_at(stack, MIDNIGHT.add(hours=4, seconds=2))

    runs = stack.runs("dag")
    hours = ["01", "02", "03", "04"] if is_catchup else ["03", "04"]
    assert [run.partition_key for run in runs] == [f"2026-01-01T{hour}" for hour in hours]
    assert {run.logical_date for run in runs} == {None}
    assert runs[-1].run_key == "2026-01-01T04:00:00+00:00~2026-01-01T04"
    require_sound()


def test_assets_or_time_runs_at_its_times(deploy: Deploy) -> None:
    """The time part of a mixed schedule is claimed like any other."""
    stack = deploy(FIVE_PAST)
    timetable = CronTriggerTimetable("0 * * * *", timezone="UTC", interval=timedelta(hours=1))
    mixed = AssetOrTimeSchedule(timetable=timetable, assets=[Asset("orders")])
    store_dags([dag(mixed)])
    tick_at(stack, MIDNIGHT.add(hours=2, seconds=1))

    assert created(stack) == [MIDNIGHT.add(hours=hour) for hour in (0, 1, 2)]
    assert {run.run_type for run in stack.runs("dag")} == {"scheduled"}
    require_sound()


def test_assets_alone_never_run_by_time(deploy: Deploy) -> None:
    """A schedule on assets is in no index and gets no run from a tick."""
    stack = deploy(FIVE_PAST)
    store_dags([dag([Asset("orders")])])
    tick_at(stack, MIDNIGHT.add(days=1))

    assert stack.runs("dag") == []
    assert stack.dag("dag").due_shard is None
    require_sound()


def test_triggers_of_several_crons_run_at_each(deploy: Deploy) -> None:
    """Two cron expressions that share a tick give one run at it."""
    stack = deploy(MIDNIGHT.subtract(seconds=5))
    store_dags([dag(MultipleCronTriggerTimetable("0 */2 * * *", "0 */3 * * *", timezone="UTC"))])
    tick_at(stack, MIDNIGHT.add(hours=6, seconds=1))

    assert created(stack) == [MIDNIGHT.add(hours=hour) for hour in (0, 2, 3, 4, 6)]
    require_sound()


def test_delta_with_seconds_runs_on_its_second(deploy: Deploy) -> None:
    """A delta schedule with odd seconds is created within a second of its due time."""
    stack = deploy(FIVE_PAST)
    store_dags([dag(DeltaTriggerTimetable(timedelta(minutes=7, seconds=13)))])
    stack.advance(minutes=30)

    runs = stack.runs("dag")
    assert [run.run_after for run in runs][1:3] == [
        MIDNIGHT.add(minutes=7, seconds=13),
        MIDNIGHT.add(minutes=14, seconds=26),
    ]
    assert all(run.created_at - run.run_after < timedelta(seconds=1) for run in runs[1:])
    require_sound()


def test_weekday_schedule_has_friday_ready_on_saturday(deploy: Deploy) -> None:
    """A schedule of midnights from Tuesday to Saturday has each weekday ready the morning after."""
    monday = datetime(2026, 1, 5)
    stack = deploy(monday.add(seconds=5))
    store_dags([dag("0 0 * * TUE-SAT", start_date=monday.subtract(days=2))])
    for day in range(1, 9):
        tick_at(stack, monday.add(days=day, seconds=1))

    saturday, tuesday = monday.add(days=5), monday.add(days=8)
    friday_run, monday_run = stack.runs("dag")[-2:]
    assert friday_run.logical_date == monday.add(days=4)
    assert friday_run.created_at - saturday == timedelta(seconds=1)
    # Saturday, Sunday and Monday are one interval: no tick lies between them.
    assert (monday_run.logical_date, monday_run.run_after) == (saturday, tuesday)
    require_sound()


ZONES = {
    "America/New_York": (datetime(2026, 3, 8), datetime(2026, 11, 1)),
    "Europe/Zurich": (datetime(2026, 3, 29), datetime(2026, 10, 25)),
    "Australia/Sydney": (datetime(2026, 10, 4), datetime(2026, 4, 5)),
    "Australia/Lord_Howe": (datetime(2026, 10, 4), datetime(2026, 4, 5)),
}


@pytest.mark.parametrize(
    ("zone", "day"), [(zone, day) for zone, days in ZONES.items() for day in days]
)
def test_half_past_two_runs_daily_across_transitions(
    deploy: Deploy, zone: str, day: DateTime
) -> None:
    """A daily 02:30 has one run for each day round a transition; their intervals touch."""
    stack = deploy(day.subtract(days=3))
    timetable = CronDataIntervalTimetable("30 2 * * *", zone)
    store_dags([dag(timetable, start_date=day.subtract(days=3))])
    for hours in range(0, 24 * 7, 12):
        tick_at(stack, day.subtract(days=3).add(hours=hours))

    runs = stack.runs("dag")
    starts = [run.logical_date.in_timezone(zone) for run in runs if run.logical_date is not None]
    dates = [start.date() for start in starts]
    assert len(dates) == len(set(dates))
    assert (dates[-1] - dates[0]).days == len(dates) - 1 >= 4
    ends = [run.data_interval_end for run in runs]
    assert ends[:-1] == [run.data_interval_start for run in runs[1:]]
    require_sound()
