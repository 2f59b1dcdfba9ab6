"""Cron, delta and event timetables given wrong or unusual arguments, and zones of every kind."""

import zoneinfo
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any

import pendulum
import pytest
from dateutil import tz
from dateutil.relativedelta import relativedelta

from lamplighter import DAG, Asset, clock, runtime
from lamplighter.errors import DefinitionError, InvalidTimetableError
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from lamplighter.timetables.events import EventsTimetable
from lamplighter.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from lamplighter.timetables.trigger import (
    CronPartitionTimetable,
    CronTriggerTimetable,
    MultipleCronTriggerTimetable,
)
from lamplighter.zones import as_utc, encode_zone, iso, parse_instant, parse_zone

BUILDERS: dict[str, Callable[[Any, Any], Timetable]] = {
    "intervals": CronDataIntervalTimetable,
    "triggers": lambda cron, zone: CronTriggerTimetable(cron, timezone=zone),
    "several": lambda cron, zone: MultipleCronTriggerTimetable("@daily", cron, timezone=zone),
    "partitions": lambda cron, zone: CronPartitionTimetable(cron, timezone=zone),
}
builders = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)

BAD_CRONS = [
    "",
    "   ",
    "* * * *",
    "* * * * * * * *",
    "60 * * * *",
    "* 24 * * *",
    "* * 0 * *",
    "* * * 13 *",
    "* * * * 8",
    "*/0 * * * *",
    "a * * * *",
    "0 0 * * funday",
    "0 0 31 2 *",
    "@fortnightly",
    "every day",
    "0 0 * * *; rm",
]


@builders
@pytest.mark.parametrize("cron", BAD_CRONS)
def test_bad_cron_of_timetable_is_invalid(build: Callable[..., Timetable], cron: str) -> None:
    """A wrong expression can be constructed and described, and fails when it is validated."""
    timetable = build(cron, "UTC")
    assert isinstance(timetable.description, str)
    with pytest.raises(InvalidTimetableError):
        timetable.validate()


@pytest.mark.parametrize("cron", BAD_CRONS)
def test_bad_cron_of_dag_names_both(cron: str) -> None:
    """In a DAG, the error names the DAG and the argument, and is a ValueError."""
    with pytest.raises(ValueError, match="DAG 'd': schedule: "):
        DAG("d", schedule=cron, start_date=datetime(2024, 1, 1))


@builders
@pytest.mark.parametrize("cron", [None, 5, ["0 0 * * *"], timedelta(days=1)], ids=repr)
def test_cron_that_is_no_text_is_refused(build: Callable[..., Timetable], cron: object) -> None:
    """An expression is a text."""
    with pytest.raises(InvalidTimetableError, match="must be a string"):
        build(cron, "UTC")


@builders
@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "", "Europe", "../UTC", "europe/zurich", "\0", None, 1.5], ids=repr
)
def test_zone_nobody_knows_is_refused(build: Callable[..., Timetable], zone: object) -> None:
    """An unknown zone is an error that quotes it."""
    with pytest.raises(DefinitionError, match="zone"):
        build("@daily", zone)


def test_cron_of_past_years_stays_definable() -> None:
    """A schedule that ended last year may still be defined: its runs may still be owed."""
    with runtime.using(clock=clock.FixedClock(pendulum.datetime(2025, 6, 1))):
        dag = DAG("d", schedule="0 0 1 * * 0 2024", start_date=datetime(2024, 1, 1))
        assert dag.next_dagrun_info() == DagRunInfo.interval(
            pendulum.datetime(2024, 1, 1), pendulum.datetime(2024, 2, 1)
        )


YEAR_2024 = "0 0 1 * * 0 2024"


def first_days(schedule: Timetable, *, now: str, start: str, count: int = 3) -> list[str]:
    """Return the days of the first runs of a DAG that does not catch up, as the clock stands."""
    dag = DAG("d", schedule=schedule, start_date=parse_instant(start), catchup=False)
    days: list[str] = []
    info: DagRunInfo | None = None
    with runtime.using(clock=clock.FixedClock(parse_instant(now))):
        while len(days) < count and (info := dag.next_dagrun_info(info)) is not None:
            days.append(f"{info.run_after:%Y-%m-%d}")
    return days


@builders
def test_cron_of_coming_years_waits_for_them(build: Callable[..., Timetable]) -> None:
    """A schedule whose years are still to come starts with the first of them."""
    timetable = build(YEAR_2024, "UTC")
    if isinstance(timetable, MultipleCronTriggerTimetable):
        timetable = MultipleCronTriggerTimetable(YEAR_2024, timezone="UTC")
    days = first_days(timetable, now="2023-06-15", start="2020-01-01", count=2)
    shift = 1 if isinstance(timetable, CronDataIntervalTimetable) else 0
    assert days == ["2024-01-01", "2024-02-01", "2024-03-01"][shift : shift + 2]


def test_cron_of_past_years_ends_quietly() -> None:
    """Behind its last tick a schedule has no run, and no error either."""
    dag = DAG("d", schedule=YEAR_2024, start_date=datetime(2024, 10, 1))
    runs = dag.iter_dagrun_infos_between(None, pendulum.datetime(2030, 1, 1))
    assert [f"{run.run_after:%Y-%m-%d}" for run in runs] == ["2024-11-01", "2024-12-01"]


def test_cron_of_past_years_leaves_others() -> None:
    """Among several expressions, one that has ended does not end the others."""
    several = MultipleCronTriggerTimetable(YEAR_2024, "0 0 1 6 *", timezone="UTC")
    dag = DAG("d", schedule=several, start_date=datetime(2024, 11, 1))
    runs = dag.iter_dagrun_infos_between(None, pendulum.datetime(2026, 7, 1))
    days = [f"{run.run_after:%Y-%m-%d}" for run in runs]
    assert days == ["2024-11-01", "2024-12-01", "2025-06-01", "2026-06-01"]


def test_cron_of_coming_years_leaves_others() -> None:
    """Among several expressions, one that has not begun does not hold the others back."""
    several = MultipleCronTriggerTimetable(YEAR_2024, "0 0 1 6 *", timezone="UTC")
    days = first_days(several, now="2023-06-15", start="2020-01-01")
    assert days == ["2023-06-01", "2024-01-01", "2024-02-01"]


def test_cron_with_seconds_ticks_on_them() -> None:
    """A sixth field is the second, and seconds survive change of zone."""
    info = CronDataIntervalTimetable("30 2 * * * 15", "Europe/Zurich").next_dagrun_info(
        last_automated_data_interval=None,
        restriction=TimeRestriction(pendulum.datetime(2024, 7, 1), None, True),
    )
    assert info == DagRunInfo.interval(
        pendulum.datetime(2024, 7, 1, 0, 30, 15), pendulum.datetime(2024, 7, 2, 0, 30, 15)
    )


def test_cron_with_both_days_means_either() -> None:
    """Day of month and weekday, both restricted, mean either of them."""
    schedule = CronTriggerTimetable("0 0 13 * 5", timezone="UTC")
    ticks: list[str] = []
    last: DataInterval | None = None
    while len(ticks) < 4:
        info = schedule.next_dagrun_info(
            last_automated_data_interval=last,
            restriction=TimeRestriction(pendulum.datetime(2024, 2, 8), None, True),
        )
        assert info is not None
        ticks.append(f"{info.run_after:%m-%d}")
        last = info.data_interval
    assert ticks == ["02-09", "02-13", "02-16", "02-23"]


class NamelessZone(tzinfo):
    """A zone that has rules and no name."""

    def utcoffset(self, when: datetime | None, /) -> timedelta | None:
        return None if when is None else timedelta(hours=1 if when.month < 6 else 2)

    def dst(self, _when: datetime | None, /) -> timedelta | None:
        return None

    def tzname(self, _when: datetime | None, /) -> str | None:
        return None


ZONES = [
    ("Europe/Zurich", "Europe/Zurich"),
    ("UTC", "UTC"),
    ("utc", "UTC"),
    (3600, 3600),
    (-19800, -19800),
    (0, 0),
    (UTC, "UTC"),
    (timezone(timedelta(hours=5, minutes=30)), 19800),
    (zoneinfo.ZoneInfo("Asia/Tokyo"), "Asia/Tokyo"),
    (pendulum.timezone("Asia/Tokyo"), "Asia/Tokyo"),
    (pendulum.FixedTimezone(7200), 7200),
    (tz.tzutc(), "UTC"),
    (tz.tzoffset(None, -3600), -3600),
]


@pytest.mark.parametrize(("zone", "written"), ZONES, ids=repr)
def test_zone_of_any_library_is_written(zone: Any, written: str | int) -> None:
    """A zone of any library has one written form, which reads back as the same zone."""
    assert encode_zone(parse_zone(zone)) == written
    assert encode_zone(parse_zone(written)) == written


def test_zone_without_name_names_dag() -> None:
    """A start date in a zone that cannot be written down is an error in the name of the DAG."""
    start = datetime(2024, 1, 1, tzinfo=NamelessZone())
    with pytest.raises(DefinitionError, match="DAG 'd': start_date: "):
        DAG("d", schedule="@daily", start_date=start)


@pytest.mark.parametrize("zone", ["Etc/GMT+5", "America/St_Johns", "Asia/Kathmandu", -12600])
def test_cron_in_zone_ticks_at_midnight(zone: str | int) -> None:
    """Midnight is midnight on the wall of the zone."""
    info = CronDataIntervalTimetable("@daily", zone).next_dagrun_info(
        last_automated_data_interval=None,
        restriction=TimeRestriction(pendulum.datetime(2024, 3, 1), None, True),
    )
    assert info is not None
    local = info.run_after.in_timezone(parse_zone(zone))
    assert (local.hour, local.minute) == (0, 0)
    assert info.run_after.timezone_name == "UTC"


@pytest.mark.parametrize("dates", [["2024-01-01"], [date(2024, 1, 1)], [None], 5], ids=repr)
def test_event_that_is_no_datetime_is_refused(dates: Any) -> None:
    """Events are datetimes; anything else is named."""
    with pytest.raises(DefinitionError, match="event"):
        EventsTimetable(dates)


@pytest.mark.parametrize("inner", ["@daily", None, timedelta(days=1)], ids=repr)
def test_time_part_that_is_no_timetable_is_refused(inner: Any) -> None:
    """The time part of a mixed schedule is a timetable; a cron text is told so."""
    with pytest.raises(DefinitionError, match="timetable"):
        AssetOrTimeSchedule(timetable=inner, assets=[Asset("a")])


@pytest.mark.parametrize("value", ["yes", 5, 1.5], ids=repr)
def test_buffer_of_other_kind_is_refused(value: Any) -> None:
    """`run_immediately` is a flag or a timedelta; anything else would be ignored silently."""
    with pytest.raises(InvalidTimetableError, match="run_immediately"):
        CronTriggerTimetable("@daily", timezone="UTC", run_immediately=value)


def test_delta_of_whole_calendar_never_hangs() -> None:
    """A calendar delta that some day leads backwards is refused, not walked without end."""
    timetable = DeltaDataIntervalTimetable(relativedelta(months=1, month=1))
    with (
        runtime.using(clock=clock.FixedClock(pendulum.datetime(2024, 1, 20))),
        pytest.raises(InvalidTimetableError),
    ):
        assert_ends(timetable)


def assert_ends(timetable: Timetable) -> None:
    """Validate and ask `timetable`, and give up after many steps."""
    steps = iter(range(10_000))
    step = timetable._get_next  # type: ignore[attr-defined]

    def counted(current: Any) -> Any:
        assert next(steps, None) is not None, "the walk does not end"
        return step(current)

    timetable._get_next = counted  # type: ignore[attr-defined]
    timetable.validate()
    timetable.next_dagrun_info(
        last_automated_data_interval=None,
        restriction=TimeRestriction(pendulum.datetime(2023, 3, 1), None, catchup=False),
    )


INSTANTS = [
    ("2024-01-01", "2024-01-01T00:00:00+00:00"),
    ("2024-01-01T06:30", "2024-01-01T06:30:00+00:00"),
    ("2024-01-01T06:30:00Z", "2024-01-01T06:30:00+00:00"),
    ("2024-01-01T06:30+01:00", "2024-01-01T05:30:00+00:00"),
    ("2024-01-01T06:30:00.000001Z", "2024-01-01T06:30:00.000001+00:00"),
]


@pytest.mark.parametrize(("text", "written"), INSTANTS)
def test_instant_read_from_text_is_utc(text: str, written: str) -> None:
    """ISO text is an instant; without an offset it is in UTC."""
    assert iso(parse_instant(text)) == written


@pytest.mark.parametrize("text", ["", "yesterday", "2024-13-01", "2024-01-01T25:00", "01.02.2024"])
def test_instant_of_other_text_is_refused(text: str) -> None:
    """Other text is an error that quotes it."""
    with pytest.raises(DefinitionError, match=f"'{text}' is not an instant"):
        parse_instant(text)


@pytest.mark.parametrize("fold", [0, 1])
def test_instant_of_repeated_hour_keeps_fold(fold: int) -> None:
    """The two readings of a repeated hour stay two instants."""
    zone = zoneinfo.ZoneInfo("Europe/Zurich")
    moment = datetime(2023, 10, 29, 2, 30, tzinfo=zone, fold=fold)
    assert as_utc(moment) == pendulum.datetime(2023, 10, 29, fold, 30)


def test_mixed_schedule_is_partitioned_like_its_times() -> None:
    """A schedule on assets or time over partitions is partitioned, too."""
    inner = CronPartitionTimetable("@daily", timezone="UTC")
    assert AssetOrTimeSchedule(timetable=inner, assets=[Asset("a")]).partitioned


def test_partitions_before_the_first_year_are_skipped() -> None:
    """A run whose partition would lie before the schedule's first tick is left out."""
    timetable = CronPartitionTimetable("0 0 1 * * 0 2024", timezone="UTC", run_offset=-1)
    info = timetable.next_dagrun_info_v2(
        last_dagrun_info=None,
        restriction=TimeRestriction(pendulum.datetime(2020, 1, 1), None, catchup=True),
    )
    assert info is not None
    assert info.run_after == pendulum.datetime(2024, 2, 1)
    assert info.partition_date == pendulum.datetime(2024, 1, 1)
