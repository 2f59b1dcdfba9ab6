"""Schedules of data intervals: one run per interval, created when the interval has ended.

The intervals tile the time line. A plain cron text or timedelta in `schedule=` means these.
"""

from typing import Any

from pendulum import DateTime

from lamplighter import clock
from lamplighter.errors import InvalidTimetableError, NoTickError
from lamplighter.timetables.base import DagRunInfo, DataInterval, TickTimetable, TimeRestriction
from lamplighter.timetables.cron import CronTimetable
from lamplighter.timetables.delta import EPOCH, DeltaTimetable, decode_delta, fixed_length

# A calendar delta without catchup is followed step by step from the start date.
_MAX_STEPS = 20_000


class DataIntervalTimetable(TickTimetable):
    """What cron and delta intervals share: where the next interval starts, and where it ends."""

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        earliest = restriction.earliest
        if not restriction.catchup:
            earliest = self._skip_to_latest(earliest)
        elif earliest is not None:
            earliest = self._align_to_next(earliest)
        if last_automated_data_interval is not None:
            start = self._start_after(last_automated_data_interval, earliest)
        elif earliest is not None:
            start = earliest
        else:
            return None
        if restriction.latest is not None and start > restriction.latest:
            return None
        return DagRunInfo.interval(start, self._get_next(start))

    def rest_of_interval(self, start: DateTime) -> DataInterval | None:
        """Return what is left from `start` on of the interval around it; None if there is none."""
        try:
            self._align_to_prev(start)  # a cron expression may name its years, which begin one day
            return DataInterval(start, self._get_next(start))
        except NoTickError:
            return None

    def _start_after(self, last: DataInterval, earliest: DateTime | None) -> DateTime:
        start = self._align_to_prev(last.end)
        if earliest is not None:
            start = max(start, earliest)
        if start > last.start:
            return start
        # The schedule was changed to a coarser one: the interval that holds the last run's end
        # began before that run did, and its logical date may already be taken. Take the next one.
        start = self._get_next(start)
        if start <= last.start:
            raise InvalidTimetableError(
                f"schedule {self.summary!r} cannot follow the interval that starts at {last.start}:"
                " the last run lies too far in the future"
            )
        return start

    def _skip_to_latest(self, earliest: DateTime | None) -> DateTime:
        """Return the start of the newest interval that has already ended, not before `earliest`."""
        raise NotImplementedError


class CronDataIntervalTimetable(CronTimetable, DataIntervalTimetable):
    """Intervals between the ticks of a cron expression: `"0 0 * * *"` is one run for each day."""

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "CronDataIntervalTimetable":
        return cls(data["expression"], data["timezone"])

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        end = self._align_to_prev(run_after)
        return DataInterval(self._get_prev(end), end)

    def _skip_to_latest(self, earliest: DateTime | None) -> DateTime:
        now = clock.now()
        try:
            start = self._get_prev(self._align_to_prev(now))
        except NoTickError:  # the schedule's first year is still to come
            return self._align_to_next(earliest or now)
        return start if earliest is None else max(start, self._align_to_next(earliest))


class DeltaDataIntervalTimetable(DeltaTimetable, DataIntervalTimetable):
    """Intervals of one length, laid end to end from the start date.

    Without catchup the newest one is found by counting from the epoch, as Airflow does.
    """

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "DeltaDataIntervalTimetable":
        return cls(decode_delta(data["delta"]))

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        return DataInterval(self._get_prev(run_after), run_after)

    def _skip_to_latest(self, earliest: DateTime | None) -> DateTime:
        start = self._get_prev(self._floor(clock.now(), anchor=earliest))
        return start if earliest is None else max(start, earliest)

    def _floor(self, now: DateTime, *, anchor: DateTime | None) -> DateTime:
        """Return the newest boundary that is not after `now`."""
        length = fixed_length(self._delta)
        if length is not None:
            # The grid of a fixed delta hangs on the epoch and not on the start date: adding a task
            # with an earlier start date must not shift every later run.
            return now - (now - EPOCH).as_timedelta() % length
        boundary = now if anchor is None else min(anchor, now)
        for _ in range(_MAX_STEPS):
            later = self._get_next(boundary)
            if later > now:
                return boundary
            if later <= boundary:
                raise InvalidTimetableError(
                    f"schedule delta {self._delta} does not lead forward from {boundary}"
                )
            boundary = later
        raise InvalidTimetableError(
            f"schedule delta {self._delta} has more than {_MAX_STEPS:,} intervals since {anchor}:"
            " use a timedelta, or a later start date"
        )
