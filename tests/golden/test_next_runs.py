"""The next run of each kind of schedule at 12:30 on 2024-01-10: the agreed answers.

`CDI` is a daily cron interval, `CT` a daily cron trigger, `DDI` and `DT` the same with a delta of
six hours. Instants are UTC and leave out the year; `a..b` is a data interval, a single instant an
interval of length zero; an end without a date is on the day of the start. Runs are created at the
end of their interval.
"""

from datetime import datetime, timedelta

import pytest
from dateutil.relativedelta import relativedelta
from pendulum import DateTime

from lamplighter import clock, runtime
from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from lamplighter.timetables.events import EventsTimetable
from lamplighter.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from lamplighter.timetables.simple import ContinuousTimetable, NullTimetable, OnceTimetable
from lamplighter.timetables.trigger import (
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)
from lamplighter.zones import parse_instant

SIX_HOURS = timedelta(hours=6)
DAY = timedelta(days=1)


def at(text: str) -> DateTime:
    """Return the instant of 2024 that `text` gives without its year."""
    return parse_instant(f"2024-{text}")


SCHEDULES: dict[str, Timetable] = {
    "CDI": CronDataIntervalTimetable("0 0 * * *", "UTC"),
    "CDI weekly": CronDataIntervalTimetable("0 0 * * 0", "UTC"),
    "CDI hourly": CronDataIntervalTimetable("0 * * * *", "UTC"),
    "CT": CronTriggerTimetable("0 0 * * *", timezone="UTC"),
    "CT 1d": CronTriggerTimetable("0 0 * * *", timezone="UTC", interval=DAY),
    "DDI": DeltaDataIntervalTimetable(SIX_HOURS),
    "DDI month": DeltaDataIntervalTimetable(relativedelta(months=1)),
    "DT": DeltaTriggerTimetable(SIX_HOURS),
    "DT 6h": DeltaTriggerTimetable(SIX_HOURS, interval=SIX_HOURS),
    "Multi": MultipleCronTriggerTimetable("0 * * * *", "30 */6 * * *", timezone="UTC"),
    "Null": NullTimetable(),
    "Once": OnceTimetable(),
    "Continuous": ContinuousTimetable(),
    "Events": EventsTimetable([at("01-03"), at("01-08"), at("01-11")]),
}

NEXT_RUNS = """
| schedule   | last         | earliest | latest   | catchup=True          | catchup=False         |
| CDI        |              | 01-05T06 |          | 01-06..01-07          | 01-09..01-10          |
| CDI        |              | 01-05T00 |          | 01-05..01-06          | 01-09..01-10          |
| CDI        |              |          |          | None                  | 01-09..01-10          |
| CDI        |              | 01-20T06 |          | 01-21..01-22          | 01-21..01-22          |
| CDI        | 01-06..01-07 |          |          | 01-07..01-08          | 01-09..01-10          |
| CDI        | 01-06..01-07 | 01-05T06 |          | 01-07..01-08          | 01-09..01-10          |
| CDI        | 01-06..01-07 |          | 01-07    | 01-07..01-08          | None                  |
| CDI        | 01-06..01-07 |          | 01-06T23 | None                  | None                  |
| CDI        | 01-09..01-10 |          |          | 01-10..01-11          | 01-10..01-11          |
| CDI hourly | 01-08..01-09 |          |          | 01-09T00..01          | 01-10T11..12          |
| CT         |              | 01-05T06 |          | 01-06                 | 01-10                 |
| CT         |              |          |          | 01-11                 | 01-11                 |
| CT         | 01-07        |          |          | 01-08                 | 01-10                 |
| CT         | 01-07        |          | 01-07    | None                  | None                  |
| CT         | 01-07        |          | 01-08    | 01-08                 | None                  |
| CT         | 01-10        |          |          | 01-11                 | 01-11                 |
| CT 1d      |              | 01-05T06 |          | 01-05..01-06          | 01-09..01-10          |
| DDI        |              | 01-05T06 |          | 01-05T06..12          | 01-10T06..12          |
| DDI        |              | 01-05T07 |          | 01-05T07..13          | 01-10T06..12          |
| DDI        |              |          |          | None                  | 01-10T06..12          |
| DDI month  |              | 01-01    |          | 01-01..02-01          | 01-01..02-01          |
| DT         |              | 01-05T06 |          | 01-05T06              | 01-10T12:30           |
| DT         | 01-07        |          |          | 01-07T06              | 01-10T12:30           |
| DT         |              |          |          | 01-10T12:30           | 01-10T12:30           |
| DT 6h      |              | 01-05T06 |          | 01-05T00..06          | 01-10T06:30..12:30    |
| Multi      |              | 01-05T06 |          | 01-05T06              | 01-10T12:30           |
| Multi      | 01-05T06     |          |          | 01-05T06:30           | 01-10T12:30           |
| Multi      | 01-10T12:30  |          |          | 01-10T13              | 01-10T13              |
| Null       |              | 01-05T06 |          | None                  | None                  |
| Once       |              | 01-05T06 |          | 01-05T06              | 01-05T06              |
| Once       |              |          |          | 01-10T12:30           | 01-10T12:30           |
| Once       | 01-05T06     | 01-05T06 |          | None                  | None                  |
| Once       |              | 01-05T06 | 01-05T05 | None                  | None                  |
| Continuous |              | 01-05T06 |          | 01-05T06..01-10T12:30 | 01-05T06..01-10T12:30 |
| Continuous |              |          |          | 01-10T12:30           | 01-10T12:30           |
| Continuous | 01-05..01-09 | 01-05    |          | 01-09..01-10T12:30    | 01-09..01-10T12:30    |
| Continuous | 01-12T00..01 | 01-12    |          | 01-12T00..01          | 01-12T00..01          |
| Continuous | 01-05..01-09 | 01-05    | 01-10T12 | None                  | None                  |
| Continuous |              | 01-20    |          | 01-20                 | 01-20                 |
| Events     |              |          |          | 01-03                 | 01-11                 |
| Events     |              | 01-04    |          | 01-08                 | 01-11                 |
| Events     | 01-03        |          |          | 01-08                 | 01-11                 |
| Events     | 01-11        |          |          | None                  | None                  |
| Events     | 01-03        |          | 01-07    | None                  | None                  |
"""

# The schedule was another before: an interval whose start is not after the last one's is left out.
AFTER_A_CHANGE = """
| schedule   | last         | earliest | latest | catchup=True | catchup=False |
| CDI weekly | 01-09..01-10 |          |        | 01-14..01-21 | 01-14..01-21  |
| CDI weekly | 01-09..01-10 | 01-01    |        | 01-14..01-21 | 01-14..01-21  |
| CDI weekly | 01-06..01-07 |          |        | 01-07..01-14 | 01-07..01-14  |
| CDI weekly | 01-07..01-08 |          |        | 01-14..01-21 | 01-14..01-21  |
| CDI        | 01-07        |          |        | 01-08..01-09 | 01-09..01-10  |
"""

# The same question with another clock: a daily interval that ends this very moment is complete.
AT_MIDNIGHT = """
| schedule | last | earliest | latest | catchup=True | catchup=False |
| CDI      |      | 01-05T06 |        | 01-06..01-07 | 01-09..01-10  |
"""

MANUAL_RUNS = """
| schedule   | manual run at 01-10T12:30 |
| CDI        | 01-09..01-10              |
| CT         | 01-10T12:30               |
| CT 1d      | 01-09T12:30..01-10T12:30  |
| DDI        | 01-10T06:30..12:30        |
| DT         | 01-10T12:30               |
| DT 6h      | 01-10T06:30..12:30        |
| Multi      | 01-10T12:30               |
| Null       | 01-10T12:30               |
| Once       | 01-10T12:30               |
| Continuous | 01-10T12:30               |
| Events     | 01-10T12:30               |
"""

# A buffer decides whether the first run without a start date is the tick just missed or the next.
FIRST_TRIGGERS = """
| cron         | run_immediately | now            | first run   |
| 0 * * * *    | False           | 01-10T12:05    | 01-10T12    |
| 0 * * * *    | False           | 01-10T12:06    | 01-10T12    |
| 0 * * * *    | False           | 01-10T12:06:01 | 01-10T13    |
| 0 * * * *    | None            | 01-10T12:06    | 01-10T12    |
| 0 * * * *    | None            | 01-10T12:06:01 | 01-10T13    |
| 0 * * * *    | True            | 01-10T12:59    | 01-10T12    |
| 0 * * * *    | 20 min          | 01-10T12:20    | 01-10T12    |
| 0 * * * *    | 20 min          | 01-10T12:20:01 | 01-10T13    |
| */10 * * * * | False           | 01-10T12:05    | 01-10T12    |
| */10 * * * * | False           | 01-10T12:05:01 | 01-10T12:10 |
| 0 0 * * *    | False           | 01-10T02:24    | 01-10       |
| 0 0 * * *    | False           | 01-10T02:24:01 | 01-11       |
"""
RUN_IMMEDIATELY: dict[str, bool | timedelta | None] = {
    "False": False,
    "None": None,
    "True": True,
    "20 min": timedelta(minutes=20),
}


def rows(table: str) -> list[list[str]]:
    """Return the cells of each row below the heading."""
    lines = table.strip().splitlines()[1:]
    return [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines]


def optional(text: str) -> DateTime | None:
    """Return the instant of a cell, None where it is empty."""
    return at(text) if text else None


def interval(text: str) -> DataInterval | None:
    """Return the data interval of a cell, None where it is empty or says so."""
    if text in {"", "None"}:
        return None
    start, _, end = text.partition("..")
    if end and "-" not in end:
        end = f"{start.partition('T')[0]}T{end}"
    return DataInterval(at(start), at(end or start))


def run(text: str) -> DagRunInfo | None:
    """Return the run whose interval a cell gives: it is created when the interval ends."""
    made_for = interval(text)
    return made_for and DagRunInfo(made_for.end, made_for)


def ask(question: list[str], *, now: str, catchup: bool) -> DagRunInfo | None:
    """Return what the schedule of a row answers."""
    schedule, last, earliest, latest, *_ = question
    with runtime.using(clock=clock.FixedClock(at(now))):
        return SCHEDULES[schedule].next_dagrun_info(
            last_automated_data_interval=interval(last),
            restriction=TimeRestriction(optional(earliest), optional(latest), catchup),
        )


@pytest.mark.parametrize("row", rows(NEXT_RUNS), ids=" ".join)
def test_next_run_with_catchup_equals_table(row: list[str]) -> None:
    """With catchup, the next run is the one in the table's first column of answers."""
    assert ask(row, now="01-10T12:30", catchup=True) == run(row[4])


@pytest.mark.parametrize("row", rows(NEXT_RUNS), ids=" ".join)
def test_next_run_without_catchup_equals_table(row: list[str]) -> None:
    """Without catchup, the next run is the one in the table's second column of answers."""
    assert ask(row, now="01-10T12:30", catchup=False) == run(row[5])


@pytest.mark.parametrize("row", rows(AFTER_A_CHANGE), ids=" ".join)
@pytest.mark.parametrize("catchup", [True, False])
def test_next_run_after_schedule_change_moves_on(row: list[str], catchup: bool) -> None:
    """A coarser schedule starts with the first interval that lies after the last run's start."""
    assert ask(row, now="01-10T12:30", catchup=catchup) == run(row[4 if catchup else 5])


@pytest.mark.parametrize("row", rows(AT_MIDNIGHT), ids=" ".join)
@pytest.mark.parametrize("catchup", [True, False])
def test_next_run_on_boundary_equals_table(row: list[str], catchup: bool) -> None:
    """An interval that ends exactly now counts as complete."""
    assert ask(row, now="01-10T00", catchup=catchup) == run(row[4 if catchup else 5])


@pytest.mark.parametrize(("schedule", "answer"), rows(MANUAL_RUNS))
def test_manual_run_at_noon_gets_interval(schedule: str, answer: str) -> None:
    """A manual run covers the interval in the table, whatever the clock says."""
    manual = SCHEDULES[schedule].infer_manual_data_interval(run_after=at("01-10T12:30"))
    assert manual == interval(answer)


@pytest.mark.parametrize(("cron", "immediately", "now", "first"), rows(FIRST_TRIGGERS))
def test_first_trigger_without_start_obeys_buffer(
    cron: str, immediately: str, now: str, first: str
) -> None:
    """Without a start date, the first run is the tick just missed or the next, by the buffer."""
    timetable = CronTriggerTimetable(
        cron, timezone="UTC", run_immediately=RUN_IMMEDIATELY[immediately]
    )
    with runtime.using(clock=clock.FixedClock(at(now))):
        info = timetable.next_dagrun_info(
            last_automated_data_interval=None, restriction=TimeRestriction(None, None, True)
        )
    assert info == run(first)


@pytest.mark.parametrize("immediately", [True, False, None, timedelta(minutes=20)])
@pytest.mark.parametrize("last", ["", "01-08"])
def test_first_trigger_with_start_ignores_buffer(
    last: str, immediately: bool | timedelta | None
) -> None:
    """With a start date or an earlier run, `run_immediately` changes nothing."""
    timetable = CronTriggerTimetable("0 0 * * *", timezone="UTC", run_immediately=immediately)
    with runtime.using(clock=clock.FixedClock(at("01-10T12:30"))):
        info = timetable.next_dagrun_info(
            last_automated_data_interval=interval(last),
            restriction=TimeRestriction(at("01-05T06"), None, True),
        )
    assert info == run("01-09" if last else "01-06")


def test_schedule_change_beyond_last_is_refused() -> None:
    """A last interval so far ahead that one period does not pass it is an error, not a repeat."""
    with pytest.raises(ValueError, match="cannot follow"):
        SCHEDULES["CDI"].next_dagrun_info(
            last_automated_data_interval=DataInterval(at("03-01"), at("01-07")),
            restriction=TimeRestriction(None, None, True),
        )


def test_timetable_asked_in_zone_answers_same() -> None:
    """An instant means the same in any zone: bounds and last interval may come in all of them."""
    zurich = [moment.in_timezone("Europe/Zurich") for moment in (at("01-06"), at("01-07"))]
    info = SCHEDULES["CDI"].next_dagrun_info(
        last_automated_data_interval=DataInterval(*zurich),
        restriction=TimeRestriction(zurich[0], None, True),
    )
    assert info == run("01-07..01-08")


def test_timetable_given_plain_datetimes_answers_pendulum() -> None:
    """An answer holds pendulum instants in UTC even where the question held plain datetimes."""
    info = SCHEDULES["CDI"].next_dagrun_info(
        last_automated_data_interval=None,
        restriction=TimeRestriction(
            datetime.fromisoformat("2024-01-05T07:00+01:00"),  # type: ignore[arg-type]
            None,
            True,
        ),
    )
    assert info == run("01-06..01-07")
    assert info is not None
    assert all(isinstance(moment, DateTime) for moment in info.data_interval or ())
    assert info.run_after.timezone_name == "UTC"
