"""An author's own timetable: a run after each odd day of a month."""

from datetime import timedelta

from pendulum import DateTime

from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable

_DAY = timedelta(days=1)


class OddDaysTimetable(Timetable):
    """Whole days in UTC whose number is odd."""

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        start = run_after.in_timezone("UTC").start_of("day") - _DAY
        return DataInterval(start, start + _DAY)

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        if last_automated_data_interval is not None:
            start = last_automated_data_interval.start + _DAY
        elif restriction.earliest is None:
            return None
        else:
            start = restriction.earliest
        while start.day % 2 == 0:
            start += _DAY
        if restriction.latest is not None and start > restriction.latest:
            return None
        return DagRunInfo.interval(start=start, end=start + _DAY)
