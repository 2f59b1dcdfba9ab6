"""The contract test that authors use: it passes good timetables and names what is wrong."""

import itertools
from datetime import datetime, timedelta
from typing import Any

import pytest
from pendulum import DateTime

from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from lamplighter.timetables.events import EventsTimetable
from lamplighter.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from lamplighter.timetables.simple import ContinuousTimetable, NullTimetable, OnceTimetable
from lamplighter.timetables.testing import check_timetable
from lamplighter.timetables.trigger import (
    CronPartitionTimetable,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)

DAILY = CronDataIntervalTimetable("0 0 * * *", "UTC")


class Rolling(Timetable):
    """Every day, the seven days before it: the intervals overlap by six days."""

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        return DataInterval(run_after - timedelta(days=7), run_after)

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        last = last_automated_data_interval
        day_of_last = last and DataInterval(last.start, last.start + timedelta(days=1))
        info = DAILY.next_dagrun_info(
            last_automated_data_interval=day_of_last, restriction=restriction
        )
        if info is None or info.data_interval is None:
            return None
        start = info.data_interval.start
        return DagRunInfo.interval(start, start + timedelta(days=7))


class Broken(Rolling):
    """Breaks the contract in the way that `how` says; every way has one of its own."""

    counter = itertools.count()

    def __init__(self, how: str = "not at all") -> None:
        self.how = how

    def serialize(self) -> dict[str, Any]:
        return {} if self.how == "forgets" else {"how": self.how}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "Broken":
        return cls(data.get("how", "came back empty"))

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        if self.how == "manual":
            return None  # type: ignore[return-value]
        return super().infer_manual_data_interval(run_after=run_after)

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        last = last_automated_data_interval
        if self.how == "ignores latest":
            restriction = restriction._replace(latest=None)
        if self.how == "ignores catchup":
            restriction = restriction._replace(catchup=True)
        if self.how == "stands still" and last is not None:
            return DagRunInfo.interval(*last)
        info = super().next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
        if info is None:
            return None
        if self.how == "tuple":
            return (info.run_after, None)  # type: ignore[return-value] # what an author might do
        if self.how == "wavers":
            return DagRunInfo.exact(info.run_after + timedelta(seconds=next(self.counter)))
        if self.how == "naive":
            return DagRunInfo.exact(datetime(2026, 1, 1))  # type: ignore[arg-type]
        if self.how == "too early":
            return DagRunInfo.exact(info.run_after - timedelta(days=30))
        if self.how == "looks back":
            return DagRunInfo.interval(info.run_after - timedelta(days=14), info.run_after)
        return info


def test_overlapping_windows_keep_the_contract() -> None:
    """A rolling window of seven days passes, although its intervals overlap."""
    runs = check_timetable(Rolling())
    first, second = runs[0].data_interval, runs[1].data_interval
    assert first is not None
    assert second is not None
    assert second.start < first.end
    assert first.end - first.start == timedelta(days=7)


@pytest.mark.parametrize(
    "timetable",
    [
        DAILY,
        CronDataIntervalTimetable("30 2 * * *", "Europe/Zurich"),
        DeltaDataIntervalTimetable(timedelta(hours=7)),
        CronTriggerTimetable("0 6 * * 1-5", timezone="America/New_York"),
        DeltaTriggerTimetable(timedelta(minutes=90)),
        MultipleCronTriggerTimetable("0 6 * * *", "30 16 * * *", timezone="UTC"),
        CronPartitionTimetable("0 0 * * *", timezone="UTC", run_offset=-1),
        EventsTimetable([DateTime(2026, 1, n + 1) for n in range(20)]),
        NullTimetable(),
        OnceTimetable(),
        ContinuousTimetable(),
    ],
    ids=lambda timetable: type(timetable).__name__,
)
def test_built_in_timetables_keep_the_contract(timetable: Timetable) -> None:
    """Every built-in timetable passes the test that authors' own must pass."""
    check_timetable(timetable)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("tuple", "not a DagRunInfo"),
        ("wavers", "to one question"),
        ("naive", "without a time zone"),
        ("too early", "returns a run at .*, before the earliest instant"),
        ("looks back", "returns an interval from .*, before the earliest instant"),
        ("stands still", "does not move forward"),
        ("ignores latest", "although the latest date is"),
        ("ignores catchup", "ignores catchup=False"),
        ("forgets", "its deserialized copy|does not survive"),
        ("manual", "not a DataInterval"),
    ],
)
def test_broken_contract_is_named_in_one_sentence(how: str, words: str) -> None:
    """Each way to break the contract is found and said."""
    with pytest.raises(AssertionError, match=words):
        check_timetable(Broken(how))


def test_unbroken_relative_of_the_broken_ones_passes() -> None:
    """What the broken ones have in common is not what makes them fail."""
    check_timetable(Broken())
