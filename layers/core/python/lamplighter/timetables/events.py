"""A schedule of listed instants: elections, launches, matches, quarter ends."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pendulum import DateTime

from lamplighter import clock
from lamplighter.errors import InvalidTimetableError
from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from lamplighter.zones import as_utc, iso, parse_instant


def _instant(moment: datetime) -> DateTime:
    if not isinstance(moment, datetime):
        raise InvalidTimetableError(f"event {moment!r} must be a datetime")
    return as_utc(moment)


class EventsTimetable(Timetable):
    """One run at each listed instant."""

    def __init__(
        self,
        event_dates: Iterable[datetime],  # The instants; a naive one is taken as UTC.
        restrict_to_events: bool = False,  # Whether a manual run has the date of an event.
        presorted: bool = False,  # Whether they are in order already.
        description: str | None = None,  # What people read about the schedule.
    ) -> None:
        if not isinstance(event_dates, Iterable) or isinstance(event_dates, str):
            raise InvalidTimetableError(
                f"event_dates must be a list of datetimes, not {event_dates!r}"
            )
        dates = list(map(_instant, event_dates))
        self.event_dates = dates if presorted else sorted(dates)
        self.restrict_to_events = restrict_to_events
        self._given_description = description
        self.description = self._count_and_span() if description is None else description

    def _count_and_span(self) -> str:
        if not self.event_dates:
            return "No events"
        first, last = self.event_dates[0], self.event_dates[-1]
        return f"{len(self.event_dates)} events between {iso(first)} and {iso(last)}"

    @property
    def summary(self) -> str:
        if self._given_description is not None:
            return self._given_description
        return f"{len(self.event_dates)} events"

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "EventsTimetable":
        return cls(
            [parse_instant(text) for text in data["event_dates"]],
            restrict_to_events=data["restrict_to_events"],
            presorted=True,
            description=data["description"],
        )

    def serialize(self) -> dict[str, Any]:
        return {
            "event_dates": [iso(moment) for moment in self.event_dates],
            "restrict_to_events": self.restrict_to_events,
            "description": self._given_description,
        }

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        if not self.restrict_to_events or not self.event_dates:
            return DataInterval.exact(run_after)
        index = bisect_right(self.event_dates, run_after)
        return DataInterval.exact(self.event_dates[max(index - 1, 0)])

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        earliest = restriction.earliest
        if not restriction.catchup:
            now = clock.now()
            earliest = now if earliest is None else max(earliest, now)
        index = 0 if earliest is None else bisect_left(self.event_dates, earliest)
        if last_automated_data_interval is not None:
            index = max(index, bisect_right(self.event_dates, last_automated_data_interval.end))
        if index == len(self.event_dates):
            return None
        at = self.event_dates[index]
        if restriction.latest is not None and at > restriction.latest:
            return None
        return DagRunInfo.exact(at)
