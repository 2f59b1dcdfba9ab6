"""Two runs a day at uneven distances: 06:00 and 16:30, which no single cron expression can say."""

from typing import Any

import pendulum
from pendulum import DateTime

from lamplighter import clock
from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable

MORNING = (6, 0)
AFTERNOON = (16, 30)


class UnevenIntervalsTimetable(Timetable):
    """Intervals from 06:00 to 16:30 and from 16:30 to 06:00 of the next day, on local clocks."""

    description = "At 06:00 and 16:30"

    def __init__(self, timezone: str = "UTC") -> None:
        self._zone = pendulum.timezone(timezone)

    @property
    def summary(self) -> str:
        return f"06:00 and 16:30 {self._zone.name}"

    def serialize(self) -> dict[str, Any]:
        return {"timezone": self._zone.name}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "UnevenIntervalsTimetable":
        return cls(data["timezone"])

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        return self._newest_complete(run_after)

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        starts = []
        if last_automated_data_interval is not None:
            starts.append(self._first_from(last_automated_data_interval.end))
        if restriction.earliest is not None:
            starts.append(self._first_from(restriction.earliest, only=MORNING))
        if not restriction.catchup:
            starts.append(self._newest_complete(clock.now()).start)
        if not starts:
            return None  # neither a start date nor a run to go on from
        start = max(starts)
        if restriction.latest is not None and start > restriction.latest:
            return None
        return DagRunInfo.interval(start, self._first_from(start.add(seconds=1)))

    def _newest_complete(self, moment: DateTime) -> DataInterval:
        past = [boundary for boundary in self._around(moment) if boundary <= moment]
        return DataInterval(past[-2], past[-1])

    def _first_from(self, moment: DateTime, *, only: tuple[int, int] | None = None) -> DateTime:
        times = (only,) if only else (MORNING, AFTERNOON)
        return min(boundary for boundary in self._around(moment, times) if boundary >= moment)

    def _around(
        self, moment: DateTime, times: tuple[tuple[int, int], ...] = (MORNING, AFTERNOON)
    ) -> list[DateTime]:
        """Return the boundaries from two days before `moment` to two days after it, in UTC."""
        today = moment.in_timezone(self._zone).date()
        days = [today.add(days=offset) for offset in range(-2, 3)]
        return [
            pendulum.datetime(day.year, day.month, day.day, *time, tz=self._zone).in_timezone("UTC")
            for day in days
            for time in times
        ]
