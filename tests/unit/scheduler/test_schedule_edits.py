"""Any schedule may become any other: the next run then follows the last, and is never an error."""

from datetime import timedelta
from typing import Any

import pytest
from dateutil.relativedelta import relativedelta
from pendulum import DateTime, datetime

from lamplighter import DAG, Asset, runtime
from lamplighter.clock import FixedClock
from lamplighter.scheduler import cursor
from lamplighter.store.models import Dags
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import DagRunInfo
from lamplighter.timetables.events import EventsTimetable
from lamplighter.timetables.interval import CronDataIntervalTimetable
from lamplighter.timetables.trigger import (
    CronPartitionTimetable,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)
from tests.tools.definitions import row_of

START = datetime(2026, 1, 1)
NOW = datetime(2026, 1, 20, 10, 30, 5)
HOURLY_TRIGGER = CronTriggerTimetable("0 * * * *", timezone="UTC")
SCHEDULES: dict[str, Any] = {
    "hourly": "0 * * * *",
    "daily": "0 0 * * *",
    "zoned": CronDataIntervalTimetable("30 2 * * *", "Europe/Zurich"),
    "delta": timedelta(minutes=7),
    "monthly": relativedelta(months=1),
    "trigger": CronTriggerTimetable("*/15 * * * *", timezone="UTC"),
    "reaching": CronTriggerTimetable("0 6 * * *", timezone="UTC", interval=timedelta(days=1)),
    "delta-trigger": DeltaTriggerTimetable(timedelta(minutes=10)),
    "several": MultipleCronTriggerTimetable("0 6 * * *", "30 7 * * *", timezone="UTC"),
    "partitions": CronPartitionTimetable("0 * * * *", timezone="UTC"),
    "events": EventsTimetable([START.add(hours=5 * number) for number in range(300)]),
    "mixed": AssetOrTimeSchedule(timetable=HOURLY_TRIGGER, assets=[Asset("orders")]),
    "once": "@once",
}


def dag(name: str, *, is_catchup: bool) -> DAG:
    """Return the DAG with one of the schedules."""
    return DAG("dag", schedule=SCHEDULES[name], start_date=START, catchup=is_catchup)


def after_some_runs(name: str, *, is_catchup: bool) -> Dags:
    """Return the row of a DAG that has had some of its runs."""
    row = row_of(dag(name, is_catchup=is_catchup))
    stored = cursor.stored_next(row)
    if stored is not None and stored.run_after <= NOW:
        rule = cursor.timetable_runs(row)
        due = cursor.runs_due(rule, stored, catchup=is_catchup, now=NOW, limit=5)
        cursor.set_position(row, due.runs[-1])
        cursor.set_next(row, due.then)
    return row


def place(info: DagRunInfo) -> DateTime:
    """Return what tells runs of one schedule apart."""
    return info.logical_date or info.run_after


def edited(old: str, new: str, *, is_catchup: bool) -> str | None:
    """Return what is wrong when a schedule becomes another, if anything."""
    row = after_some_runs(old, is_catchup=is_catchup)
    position = cursor.position(row)
    row_of(dag(new, is_catchup=is_catchup), row=row)
    stored = cursor.stored_next(row)
    if row.schedule_error is not None:
        return row.schedule_error
    if stored is None:
        return None if new == "once" else "there is no next run"
    if position is None:
        return None
    if place(stored) <= place(position) or stored.run_after < position.run_after:
        return f"after {position} comes {stored}"
    # The claim can go on from there, too.
    later = NOW.add(days=40)
    cursor.runs_due(cursor.timetable_runs(row), stored, catchup=True, now=later, limit=3)
    return None


@pytest.mark.parametrize("is_catchup", [True, False])
@pytest.mark.parametrize("new", SCHEDULES)
def test_schedule_that_replaces_another_goes_forward(new: str, is_catchup: bool) -> None:
    """Whatever a schedule was, the new one has a next run that lies after the last one."""
    with runtime.using(clock=FixedClock(NOW)):
        answers = {old: edited(old, new, is_catchup=is_catchup) for old in SCHEDULES}

    assert {old: wrong for old, wrong in answers.items() if wrong} == {}
