"""What no new schedule may be, and how schedules that are already stored are still followed."""

import datetime
from typing import Any

import pytest
from dateutil.relativedelta import relativedelta
from pendulum import datetime as instant

from lamplighter import DAG, Asset
from lamplighter.errors import DefinitionError
from lamplighter.serialization import decode_dag, encode_dag
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import (
    TimeRestriction,
    Timetable,
    decode_timetable,
    encode_timetable,
    next_run,
)
from lamplighter.timetables.interval import DeltaDataIntervalTimetable
from lamplighter.timetables.trigger import DeltaTriggerTimetable, MultipleCronTriggerTimetable

START = instant(2026, 1, 5)


def many(count: int) -> MultipleCronTriggerTimetable:
    """Return a schedule of so many expressions."""
    crons = [f"{number % 60} {number // 60} * * *" for number in range(count)]
    return MultipleCronTriggerTimetable(*crons, timezone="UTC")


REFUSED = {
    "101 expressions": (many(101), "101 cron expressions, at most 100"),
    "beside assets": (
        AssetOrTimeSchedule(timetable=many(101), assets=Asset("a")),
        "101 cron expressions, at most 100",
    ),
    "a microsecond": (datetime.timedelta(microseconds=1), "at least one second"),
    "less than a second": (datetime.timedelta(milliseconds=999), "at least one second"),
    "a trigger": (DeltaTriggerTimetable(datetime.timedelta(milliseconds=1)), "at least one second"),
    "a calendar delta": (relativedelta(microseconds=5), "at least one second"),
    "only the first is long": (relativedelta(hour=1, microseconds=1), "at least one second"),
}
ACCEPTED = [many(100), datetime.timedelta(seconds=1), relativedelta(seconds=1), "* * * * * *"]


@pytest.mark.parametrize(("schedule", "problem"), REFUSED.values(), ids=REFUSED)
def test_schedule_beyond_a_limit_is_refused_where_it_is_defined(
    schedule: Any, problem: str
) -> None:
    """It has no document; the error names the DAG."""
    with pytest.raises(DefinitionError, match=f"DAG 'dag': schedule: .*{problem}"):
        encode_dag(DAG("dag", schedule=schedule, start_date=START))


@pytest.mark.parametrize("schedule", ACCEPTED)
def test_schedule_at_a_limit_is_accepted(schedule: Any) -> None:
    """A hundred expressions, and a run in every second."""
    assert encode_dag(DAG("dag", schedule=schedule, start_date=START))["dag_id"] == "dag"


@pytest.mark.parametrize(("schedule", "problem"), REFUSED.values(), ids=REFUSED)
def test_schedule_that_is_stored_is_still_read(schedule: Any, problem: str) -> None:
    """The runs of a DAG that was pushed before the limit go on."""
    document = encode_dag(DAG("dag", schedule="@daily", start_date=START))
    given = DAG("dag", schedule=schedule, start_date=START).timetable
    document["timetable"] = encode_timetable(given)
    assert decode_dag(document).timetable == given, problem
    assert decode_timetable(document["timetable"]) == given


def test_own_timetable_has_no_limit_of_ours() -> None:
    """An author's class need not know of limits: the sandbox has its own."""
    assert Timetable().check_limits() is None  # type: ignore[func-returns-value]


def test_calendar_delta_with_too_many_steps_is_an_error() -> None:
    """A delta that may be a second or a month is not followed for hours without catchup."""
    delta = relativedelta(months=1, days=-31, seconds=1)
    timetable = DeltaDataIntervalTimetable(delta)
    restriction = TimeRestriction(instant(1970, 1, 1), None, catchup=False)
    with pytest.raises(DefinitionError, match="more than 20,000 intervals since 1970"):
        next_run(timetable, None, restriction)
