"""A timetable of your own: one run after each workday, and none for Saturdays and Sundays."""

import datetime
from typing import Any

import pendulum
from pendulum import DateTime

from lamplighter import clock
from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable

_SATURDAY = 5


class AfterWorkdayTimetable(Timetable):
    """Days from Monday to Friday in a time zone; the run of a day comes when the day is over."""

    description = "After each workday"

    def __init__(self, timezone: str = "UTC") -> None:
        self._timezone = timezone

    def serialize(self) -> dict[str, Any]:
        return {"timezone": self._timezone}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "AfterWorkdayTimetable":
        return cls(data["timezone"])

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        return self._interval(self._newest_complete(run_after))

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        days = []
        if last_automated_data_interval is not None:
            days.append(self._day(last_automated_data_interval.start) + datetime.timedelta(days=1))
        elif restriction.earliest is None:
            return None
        if restriction.earliest is not None:
            # Only whole days count.
            before = restriction.earliest - datetime.timedelta(microseconds=1)
            days.append(self._day(before) + datetime.timedelta(days=1))
        if not restriction.catchup:
            days.append(self._newest_complete(clock.now()))
        interval = self._interval(_workday(max(days), 1))
        if restriction.latest is not None and interval.start > restriction.latest:
            return None
        return DagRunInfo(run_after=interval.end, data_interval=interval)

    def _newest_complete(self, moment: DateTime) -> datetime.date:
        """Return the newest workday that is over."""
        return _workday(self._day(moment) - datetime.timedelta(days=1), -1)

    def _day(self, moment: DateTime) -> datetime.date:
        return moment.in_timezone(self._timezone).date()

    def _interval(self, day: datetime.date) -> DataInterval:
        start = pendulum.datetime(day.year, day.month, day.day, tz=self._timezone)
        return DataInterval(start, start.add(days=1))


def _workday(day: datetime.date, step: int) -> datetime.date:
    """Return the day, or the next workday in the direction of `step`."""
    while day.weekday() >= _SATURDAY:
        day += datetime.timedelta(days=step)
    return day
