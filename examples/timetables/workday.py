"""One run after each workday: data of Friday is ready on Saturday, and weekends have no run."""

import datetime
from collections.abc import Iterable
from typing import Any

from pendulum import UTC, DateTime, Time

from lamplighter import clock
from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable

ONE_DAY = datetime.timedelta(days=1)
SATURDAY = 5


class AfterWorkdayTimetable(Timetable):
    """Whole days in UTC, Monday to Friday without holidays; the run comes when the day is over."""

    description = "After each workday"

    def __init__(self, holidays: Iterable[datetime.date] = ()) -> None:
        self._holidays = frozenset(holidays)

    def serialize(self) -> dict[str, Any]:
        return {"holidays": sorted(day.isoformat() for day in self._holidays)}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "AfterWorkdayTimetable":
        return cls(map(datetime.date.fromisoformat, data["holidays"]))

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        start = midnight(run_after) - ONE_DAY
        while not self._is_workday(start):
            start -= ONE_DAY
        return DataInterval(start, start + ONE_DAY)

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        if last_automated_data_interval is not None:
            start = midnight(last_automated_data_interval.start) + ONE_DAY
        elif restriction.earliest is None:
            return None
        else:
            start = restriction.earliest
        if restriction.earliest is not None:
            start = max(start, restriction.earliest)
        if not restriction.catchup:
            start = max(start, midnight(clock.now()))
        if start != midnight(start):
            start = midnight(start) + ONE_DAY
        while not self._is_workday(start):
            start += ONE_DAY
        if restriction.latest is not None and start > restriction.latest:
            return None
        return DagRunInfo(self._run_after(start + ONE_DAY), DataInterval(start, start + ONE_DAY))

    def _run_after(self, end: DateTime) -> DateTime:
        return end

    def _is_workday(self, day: DateTime) -> bool:
        return day.weekday() < SATURDAY and day.date() not in self._holidays


class SometimeAfterWorkdayTimetable(AfterWorkdayTimetable):
    """The same days, with the run at a time of one's choice on the day after."""

    def __init__(self, schedule_at: datetime.time, holidays: Iterable[datetime.date] = ()) -> None:
        super().__init__(holidays)
        self._schedule_at = schedule_at

    @property
    def summary(self) -> str:
        return f"after each workday, at {self._schedule_at}"

    def serialize(self) -> dict[str, Any]:
        return {**super().serialize(), "schedule_at": self._schedule_at.isoformat()}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "SometimeAfterWorkdayTimetable":
        holidays = map(datetime.date.fromisoformat, data["holidays"])
        return cls(Time.fromisoformat(data["schedule_at"]), holidays)

    def _run_after(self, end: DateTime) -> DateTime:
        return DateTime.combine(end.date(), self._schedule_at, tzinfo=UTC)


def midnight(moment: DateTime) -> DateTime:
    """Return the start of the day in UTC."""
    return moment.in_timezone(UTC).start_of("day")
