"""Any interval schedule may become any other at any moment: the intervals tile the time line."""

from datetime import timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pendulum import DateTime, datetime

from lamplighter import DAG, Asset, runtime
from lamplighter.clock import FixedClock
from lamplighter.scheduler import cursor
from lamplighter.scheduler.schedules import followed_until, schedule_in_force
from lamplighter.store.models import Dags
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import DataInterval
from lamplighter.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from tests.tools.definitions import row_of

# Both clock changes of Zurich and New York lie within a few days of these.
STARTS = [datetime(2026, 3, 6), datetime(2026, 3, 27, 3, 20), datetime(2026, 10, 23, 1)]
MINUTES = ["0", "30", "17", "*/20", "5,50"]
HOURS = ["*", "*/2", "0", "2", "8-17", "1,2,3"]
ZONES = ["UTC", "Europe/Zurich", "America/New_York", "Asia/Kolkata"]

crons = st.builds(
    lambda minute, hour, days, zone: CronDataIntervalTimetable(f"{minute} {hour} * * {days}", zone),
    st.sampled_from(MINUTES),
    st.sampled_from(HOURS),
    st.sampled_from(["*", "1-5"]),
    st.sampled_from(ZONES),
)
deltas = st.sampled_from([25, 60, 24 * 60]).map(
    lambda minutes: DeltaDataIntervalTimetable(timedelta(minutes=minutes))
)
times = st.one_of(crons, crons, deltas)
schedules = st.one_of(
    times,
    times.map(lambda time: AssetOrTimeSchedule(timetable=time, assets=[Asset("a")])),
)
edits = st.lists(
    st.tuples(schedules, st.integers(0, 3 * 24 * 60), st.integers(0, 40)), min_size=1, max_size=4
)


def stored(row: Dags) -> Dags:
    """Return a row as it is when it has been written and read again."""
    row.stored = dict(row.attribute_values)
    return row


def define(schedule: Any, start: DateTime, row: Dags | None, *, catchup: bool = True) -> Dags:
    """Return the row as a push of the DAG with this schedule would have it."""
    dag = DAG("dag", schedule=schedule, start_date=start, catchup=catchup)
    return stored(row_of(dag, row=row))


def claim(row: Dags, *, now: DateTime, limit: int) -> list[DataInterval]:
    """Let a row have some of the runs that are due; return their intervals."""
    found: list[DataInterval] = []
    while (first := cursor.stored_next(row)) is not None and first.run_after <= now and limit > 0:
        due = cursor.runs_due(
            cursor.timetable_runs(row),
            first,
            catchup=schedule_in_force(row).catchup,
            now=followed_until(row, now),
            limit=limit,
        )
        cursor.advance(row, due, now=now)
        found += [info.data_interval for info in due.runs if info.data_interval is not None]
        limit -= len(due.runs)
    stored(row)
    return found


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(STARTS), schedules, edits)
def test_edited_interval_schedules_tile_the_time_line(
    start: DateTime, first: Any, edits: list[tuple[Any, int, int]]
) -> None:
    """Whatever is owed at whichever edit, there is no hole, no overlap and no missing end."""
    now = start
    with runtime.using(clock=FixedClock(now)):
        row = define(first, start, None)
    found: list[DataInterval] = []
    for schedule, minutes, limit in edits:
        now = now.add(minutes=minutes)
        with runtime.using(clock=FixedClock(now)):
            found += claim(row, now=now, limit=limit)
            row = define(schedule, start, row)
    now = now.add(days=4)
    found += claim(row, now=now, limit=10_000)

    assert {row.schedule_error, row.schedule_switch_at} == {None}
    assert found != []
    assert all(begin < end for begin, end in found)
    assert [(a, b) for a, b in pairwise(found) if a.end != b.start] == []
    following = cursor.stored_next(row)
    assert following is not None
    assert following.data_interval is not None
    assert following.data_interval.start == found[-1].end
    assert following.run_after > now


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(STARTS), schedules, schedules, st.integers(60, 5 * 24 * 60))
def test_edit_without_catchup_creates_the_newest_due_run_alone(
    start: DateTime, old: Any, new: Any, minutes: int
) -> None:
    """Of all that was due under the old schedule one run is created, and the new one follows it."""
    with runtime.using(clock=FixedClock(start)):
        row = define(old, start, None, catchup=False)
    now = start.add(minutes=minutes)
    first = cursor.stored_next(row)
    with runtime.using(clock=FixedClock(now)):
        row = define(new, start, row)
        is_kept = row.schedule_switch_at is not None
        found = claim(row, now=now, limit=1)

    if first is not None and first.run_after <= now and old != new:
        assert is_kept
        (newest,) = found
        assert cursor.position(row) is not None
        following = cursor.stored_next(row)
        assert following is not None
        assert following.data_interval is not None
        assert following.data_interval.start == newest.end
        # Nothing else of the old schedule was complete.
        rule = cursor.timetable_runs(define(old, start, None))
        after = rule.after_another(cursor.position(row), catchup=True)
        assert after is None or after.run_after > now
