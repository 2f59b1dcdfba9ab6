"""The values that timetables answer with, and what a timetable is that says nothing itself."""

from typing import Any

import pendulum
import pytest

from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from lamplighter.timetables.events import EventsTimetable
from lamplighter.timetables.interval import CronDataIntervalTimetable
from lamplighter.timetables.simple import (
    AssetTriggeredTimetable,
    ContinuousTimetable,
    NullTimetable,
    OnceTimetable,
)
from lamplighter.timetables.trigger import (
    CronPartitionTimetable,
    CronTriggerTimetable,
    MultipleCronTriggerTimetable,
)

START, END = pendulum.datetime(2024, 1, 1), pendulum.datetime(2024, 1, 2)


class SilentTimetable(Timetable):
    """A timetable that defines nothing."""


class EchoTimetable(Timetable):
    """A timetable that answers with what it was asked."""

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        return DagRunInfo(END, last_automated_data_interval, restriction.earliest)


# Fields, in order.
VALUES = [
    (DataInterval, ("start", "end")),
    (TimeRestriction, ("earliest", "latest", "catchup")),
    (DagRunInfo, ("run_after", "data_interval", "partition_date", "partition_key")),
]


@pytest.mark.parametrize(("value", "fields"), VALUES)
def test_value_has_fields_in_order(value: Any, fields: tuple[str, ...]) -> None:
    """A value can be built by position, in the order that moved code relies on."""
    assert value._fields == fields


def test_exact_interval_has_no_length() -> None:
    """An exact interval starts and ends at its instant."""
    assert DataInterval.exact(START) == DataInterval(START, START)


def test_exact_run_happens_at_instant() -> None:
    """An exact run may be created at the instant of its interval."""
    assert DagRunInfo.exact(START) == DagRunInfo(START, DataInterval(START, START), None, None)


def test_interval_run_happens_at_end() -> None:
    """A run for an interval may be created when the interval has ended."""
    assert DagRunInfo.interval(START, END) == DagRunInfo(END, DataInterval(START, END), None, None)


def test_logical_date_of_run_is_start() -> None:
    """The logical date is the start of the interval."""
    assert DagRunInfo.interval(START, END).logical_date == START


def test_logical_date_without_interval_is_none() -> None:
    """A run without an interval has no logical date."""
    assert DagRunInfo(END, None).logical_date is None


BY_DATE = "('logical_date',)"
BY_END = "('data_interval_end', 'logical_date')"
MEMBERS = f"""
| member            | silent            | null      | continuous    |
| periodic          | True              | False     | False         |
| can_be_scheduled  | True              | False     | True          |
| run_ordering      | {BY_END}          | {BY_DATE} | {BY_DATE}     |
| active_runs_limit | None              | None      | 1             |
| partitioned       | False             | False     | False         |
| summary           | 'SilentTimetable' | 'None'    | '@continuous' |
"""


def members() -> list[list[str]]:
    """Return the cells of the table above."""
    lines = MEMBERS.strip().splitlines()[1:]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


@pytest.mark.parametrize(("member", "silent", "null", "continuous"), members())
def test_member_of_timetable_has_default(
    member: str, silent: str, null: str, continuous: str
) -> None:
    """Members that a timetable does not define have the agreed value."""
    timetables = SilentTimetable(), NullTimetable(), ContinuousTimetable()
    assert [repr(getattr(t, member)) for t in timetables] == [silent, null, continuous]


def test_description_nobody_wrote_is_empty() -> None:
    """A timetable without a description of its own has an empty one."""
    assert SilentTimetable().description == ""


def test_condition_of_time_schedule_is_false() -> None:
    """A schedule without assets has a condition that is false and has no leaves."""
    condition = SilentTimetable().asset_condition
    assert bool(condition) is False
    assert list(condition.leaves()) == []


def test_silent_timetable_is_written_empty() -> None:
    """A timetable without arguments is written as an empty document and read back from it."""
    assert SilentTimetable().serialize() == {}
    assert SilentTimetable.deserialize({}) == SilentTimetable()


def test_silent_timetable_passes_validation() -> None:
    """A timetable that has no rules of its own is valid."""
    SilentTimetable().validate()


def test_silent_timetable_cannot_infer_interval() -> None:
    """Without a definition there is no interval for a manual run, and the class is named."""
    with pytest.raises(NotImplementedError, match="SilentTimetable"):
        SilentTimetable().infer_manual_data_interval(run_after=START)


def test_silent_timetable_has_no_run() -> None:
    """Without a definition there is no next run, and the class is named."""
    with pytest.raises(NotImplementedError, match="SilentTimetable"):
        SilentTimetable().next_dagrun_info(
            last_automated_data_interval=None, restriction=TimeRestriction(None, None, True)
        )


def test_second_version_asks_with_interval() -> None:
    """What the scheduler asks reaches a timetable that knows the older method only."""
    restriction = TimeRestriction(START, None, True)
    info = EchoTimetable().next_dagrun_info_v2(
        last_dagrun_info=DagRunInfo.interval(START, END), restriction=restriction
    )
    assert info == DagRunInfo(END, DataInterval(START, END), START)


def test_second_version_asks_without_run() -> None:
    """Without a last run there is no last interval."""
    info = EchoTimetable().next_dagrun_info_v2(
        last_dagrun_info=None, restriction=TimeRestriction(START, None, True)
    )
    assert info == DagRunInfo(END, None, START)


def test_second_version_asks_without_interval() -> None:
    """A last run without an interval counts as no last interval."""
    info = EchoTimetable().next_dagrun_info_v2(
        last_dagrun_info=DagRunInfo(START, None), restriction=TimeRestriction(START, None, True)
    )
    assert info == DagRunInfo(END, None, START)


TYPE_NAMES = [
    (SilentTimetable(), f"{__name__}.SilentTimetable"),
    (CronDataIntervalTimetable("0 0 * * *", "UTC"), "CronDataIntervalTimetable"),
    (OnceTimetable(), "OnceTimetable"),
]


@pytest.mark.parametrize(("timetable", "name"), TYPE_NAMES, ids=repr)
def test_type_name_of_timetable_is_short(timetable: Timetable, name: str) -> None:
    """The library's own types are known by class name, an author's by import path."""
    assert timetable.type_name == name


SUMMARIES = [
    (CronDataIntervalTimetable("@daily", "UTC"), "0 0 * * *"),
    (MultipleCronTriggerTimetable("@daily", "5 4 * * *", timezone="UTC"), "0 0 * * *, 5 4 * * *"),
    (OnceTimetable(), "@once"),
    (AssetTriggeredTimetable([]), "Asset"),
    (EventsTimetable([START, END]), "2 events"),
    (EventsTimetable([START], description="the launch"), "the launch"),
]


@pytest.mark.parametrize(("timetable", "summary"), SUMMARIES, ids=repr)
def test_summary_of_timetable_is_agreed(timetable: Timetable, summary: str) -> None:
    """Lists of DAGs show the agreed few words."""
    assert timetable.summary == summary


def test_equality_of_cron_needs_zone() -> None:
    """Two cron timetables are equal when class, expression and zone are."""
    zurich = CronDataIntervalTimetable("0 0 * * *", "Europe/Zurich")
    assert zurich == CronDataIntervalTimetable("@daily", pendulum.timezone("Europe/Zurich"))
    assert zurich != CronDataIntervalTimetable("0 0 * * *", "UTC")
    assert zurich != CronDataIntervalTimetable("0 1 * * *", "Europe/Zurich")
    assert zurich != CronTriggerTimetable("0 0 * * *", timezone="Europe/Zurich")


def test_equal_timetables_have_equal_hashes() -> None:
    """Equal timetables are one member of a set."""
    pair = {CronDataIntervalTimetable("@daily", "UTC"), CronDataIntervalTimetable("@daily", "UTC")}
    assert len(pair) == 1


DATED = DataInterval(START, END)
RUN_IDS = [
    ("scheduled", DATED, None, "scheduled__2024-01-01T00:00:00+00:00"),
    ("backfill", DATED, None, "backfill__2024-01-01T00:00:00+00:00"),
    ("manual", DATED, None, "manual__2024-01-01T00:00:00+00:00"),
    ("scheduled", None, "2024-01-01", "scheduled__2024-01-02T00:00:00+00:00~2024-01-01"),
]


@pytest.mark.parametrize(("run_type", "interval", "key", "run_id"), RUN_IDS)
def test_run_id_changed_by_design_is_agreed(
    run_type: str, interval: DataInterval | None, key: str | None, run_id: str
) -> None:
    """Dated runs are named by logical date, partitioned ones by instant and key."""
    made = SilentTimetable().generate_run_id(
        run_type=run_type, run_after=END, data_interval=interval, partition_key=key
    )
    assert made == run_id


def test_run_id_of_undated_run_is_derived() -> None:
    """An undated run is named by its instant and eight digits that its content decides."""
    first, again, other = (
        AssetTriggeredTimetable([]).generate_run_id(
            run_type="asset_triggered", run_after=END, data_interval=None, events=events
        )
        for events in ([1, 2], [1, 2], [3])
    )
    assert first == again
    assert first != other
    prefix, _, digits = first.rpartition("_")
    assert prefix == "asset_triggered__2024-01-02T00:00:00+00:00"
    assert len(digits) == 8
    assert int(digits, 16) >= 0


def test_partition_schedule_is_partitioned() -> None:
    """A partition schedule says that its runs are told apart by key."""
    assert CronPartitionTimetable("@daily", timezone="UTC").partitioned
