"""Schedules of instants: a run happens at the tick itself, with an interval that ends there.

The interval has length zero unless `interval=` says how far back it reaches.
"""

import datetime
from contextlib import suppress
from typing import Any, TypeAlias

from pendulum import DateTime

from lamplighter import clock
from lamplighter.errors import DefinitionError, InvalidTimetableError, NoTickError
from lamplighter.timetables.base import (
    DagRunInfo,
    DataInterval,
    TickTimetable,
    TimeRestriction,
    Timetable,
    place,
)
from lamplighter.timetables.cron import CronTimetable
from lamplighter.timetables.delta import (
    Delta,
    DeltaTimetable,
    decode_delta,
    encode_delta,
    normalize_delta,
)
from lamplighter.zones import as_utc, later_reading

_NO_INTERVAL = datetime.timedelta()
_SHORTEST_BUFFER = datetime.timedelta(minutes=5)
_BUFFER_SHARE = 10
# Every one is asked for each run.
_MAX_EXPRESSIONS = 100
_ZoneLike: TypeAlias = str | int | datetime.tzinfo
_RunImmediately: TypeAlias = bool | datetime.timedelta | None


class _TriggerTimetable(TickTimetable):
    """What cron and delta triggers share: which instant comes next."""

    _interval: Delta = _NO_INTERVAL

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        return DataInterval(as_utc(run_after - self._interval), run_after)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        last = last_automated_data_interval
        tick = self._next_tick(None if last is None else last.end, restriction)
        if tick is None:
            return None
        return DagRunInfo.interval(as_utc(tick - self._interval), tick)

    def _next_tick(self, last: DateTime | None, restriction: TimeRestriction) -> DateTime | None:
        earliest = restriction.earliest
        if last is not None:
            tick = self._get_next(last)
        else:
            tick = self._first_tick() if earliest is None else self._align_to_next(earliest)
        if not restriction.catchup:
            tick = max(tick, self._newest_tick())
            if earliest is not None:
                tick = max(tick, self._align_to_next(earliest))
        if restriction.latest is not None and tick > restriction.latest:
            return None
        return tick

    def _newest_tick(self) -> DateTime:
        now = clock.now()
        try:
            return self._align_to_prev(now)
        except NoTickError:  # the schedule's first year is still to come
            return self._align_to_next(now)

    def _first_tick(self) -> DateTime:
        """Return the first tick of a DAG that has neither a start date nor a run."""
        raise NotImplementedError


class DeltaTriggerTimetable(DeltaTimetable, _TriggerTimetable):
    """A run every `delta`, counted from the start date or from the moment of the first run."""

    def __init__(
        self,
        delta: Delta,  # From one run to the next; at least a second.
        *,
        interval: Delta = _NO_INTERVAL,  # The length of the data interval that ends with the run.
    ) -> None:
        super().__init__(delta)
        self._interval = normalize_delta(interval)

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "DeltaTriggerTimetable":
        return cls(decode_delta(data["delta"]), interval=decode_delta(data["interval"]))

    def serialize(self) -> dict[str, Any]:
        return {**super().serialize(), "interval": encode_delta(self._interval)}

    def _first_tick(self) -> DateTime:
        return clock.now()


class _CronTrigger(CronTimetable, _TriggerTimetable):
    """Ticks of a cron expression, and the rule for a first run without a start date."""

    def __init__(self, cron: str, timezone: _ZoneLike, run_immediately: _RunImmediately) -> None:
        super().__init__(cron, timezone)
        if not isinstance(run_immediately, _RunImmediately):
            raise InvalidTimetableError(
                f"run_immediately must be True, False or a timedelta, not {run_immediately!r}"
            )
        self._run_immediately = run_immediately

    def serialize(self) -> dict[str, Any]:
        value = self._run_immediately
        written = encode_delta(value) if isinstance(value, datetime.timedelta) else value
        return {**super().serialize(), "run_immediately": written}

    def _first_tick(self) -> DateTime:
        now = clock.now()
        past, coming = self._newest_tick(), self._align_to_next(now)
        if self._run_immediately is True:
            return past
        if isinstance(self._run_immediately, datetime.timedelta):
            buffer = self._run_immediately
        else:
            buffer = max((coming - past) / _BUFFER_SHARE, _SHORTEST_BUFFER)
        return past if now - past <= buffer else coming


class CronTriggerTimetable(_CronTrigger):
    """A run at each tick of a cron expression."""

    def __init__(
        self,
        cron: str,  # An expression of five fields, or a preset such as "@daily".
        *,
        timezone: _ZoneLike,  # The time zone; a number is seconds east of UTC.
        interval: Delta = _NO_INTERVAL,  # The length of the data interval that ends with the run.
        # Only without a start date. True: begin with the previous tick. A timedelta: only if that
        # was no longer ago. False: only if at most a tenth of the distance, or five minutes, ago.
        run_immediately: _RunImmediately = False,
    ) -> None:
        super().__init__(cron, timezone, run_immediately)
        self._interval = normalize_delta(interval)

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "CronTriggerTimetable":
        return cls(
            data["expression"],
            timezone=data["timezone"],
            interval=decode_delta(data["interval"]),
            run_immediately=_decode_run_immediately(data.get("run_immediately", False)),
        )

    def serialize(self) -> dict[str, Any]:
        return {**super().serialize(), "interval": encode_delta(self._interval)}


class MultipleCronTriggerTimetable(Timetable):
    """A run at each tick of any of several cron expressions."""

    def __init__(
        self,
        *crons: str,  # Expressions of five fields, or presets; at most 100.
        timezone: _ZoneLike,  # The time zone of all of them.
        interval: Delta = _NO_INTERVAL,  # The length of the data interval that ends with the run.
        run_immediately: _RunImmediately = False,  # As for `CronTriggerTimetable`.
    ) -> None:
        if not crons:
            raise InvalidTimetableError(
                "MultipleCronTriggerTimetable needs at least one cron expression"
            )
        self._members = [
            CronTriggerTimetable(
                cron, timezone=timezone, interval=interval, run_immediately=run_immediately
            )
            for cron in crons
        ]

    @property
    def summary(self) -> str:
        return ", ".join(member.summary for member in self._members)

    @property
    def description(self) -> str:  # type: ignore[override] # a constant elsewhere, worked out here
        return ", ".join(member.description for member in self._members)

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "MultipleCronTriggerTimetable":
        return cls(
            *data["expressions"],
            timezone=data["timezone"],
            interval=decode_delta(data["interval"]),
            run_immediately=_decode_run_immediately(data["run_immediately"]),
        )

    def serialize(self) -> dict[str, Any]:
        # All members have the same arguments but for their expressions.
        shared = self._members[0].serialize()
        del shared["expression"]
        return {"expressions": [member.summary for member in self._members], **shared}

    def validate(self) -> None:
        for member in self._members:
            member.validate()

    def check_limits(self) -> None:
        if len(self._members) > _MAX_EXPRESSIONS:
            raise InvalidTimetableError(
                f"{len(self._members)} cron expressions, at most {_MAX_EXPRESSIONS} are allowed"
            )

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        return self._members[0].infer_manual_data_interval(run_after=run_after)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        runs: list[DagRunInfo] = []
        for member in self._members:
            with suppress(NoTickError):  # the years of one expression may end before the others'
                run = member.next_dagrun_info(
                    last_automated_data_interval=last_automated_data_interval,
                    restriction=restriction,
                )
                runs += [] if run is None else [run]
        if not restriction.catchup:
            now = clock.now()
            if past := [run for run in runs if place(run) <= now]:
                return max(past, key=place)
        return min(runs, key=place, default=None)


class CronPartitionTimetable(_CronTrigger):
    """A run at each tick, told apart by the key of the partition it builds, with no interval."""

    partitioned = True

    def __init__(
        self,
        cron: str,  # An expression of five fields, or a preset such as "@daily".
        *,
        timezone: _ZoneLike,  # The time zone of the expression and of the keys.
        run_offset: int | None = None,  # The tick whose partition it builds; -1 is the one before.
        run_immediately: _RunImmediately = False,  # As for `CronTriggerTimetable`.
        key_format: str = "%Y-%m-%dT%H:%M:%S",  # How the key is written, as `strftime` does.
    ) -> None:
        if not isinstance(run_offset, int | None) or isinstance(run_offset, bool):
            raise InvalidTimetableError(
                f"run_offset must be a whole number of ticks, not {run_offset!r}"
            )
        super().__init__(cron, timezone, run_immediately)
        self._run_offset = run_offset or 0
        self._key_format = key_format

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "CronPartitionTimetable":
        return cls(
            data["expression"],
            timezone=data["timezone"],
            run_offset=data["run_offset"],
            run_immediately=_decode_run_immediately(data["run_immediately"]),
            key_format=data["key_format"],
        )

    def serialize(self) -> dict[str, Any]:
        return {
            **super().serialize(),
            "run_offset": self._run_offset,
            "key_format": self._key_format,
        }

    def next_dagrun_info_v2(
        self, *, last_dagrun_info: DagRunInfo | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        last = None if last_dagrun_info is None else last_dagrun_info.run_after
        tick = self._next_tick(last, restriction)
        if tick is None:
            return None
        try:
            partition_date = self._partition_date(tick)
        except NoTickError:
            if self._run_offset > 0:
                raise
            # The schedule's years have just begun: the partition before this tick is not one.
            skipped = DagRunInfo(tick, None)
            return self.next_dagrun_info_v2(last_dagrun_info=skipped, restriction=restriction)
        key = partition_date.in_timezone(self._timezone).strftime(self._key_format)
        return DagRunInfo(tick, None, partition_date, key)

    def resolve_partition_date(self, partition_key: str | None) -> DateTime | None:
        """Return the partition date that a key names."""
        if partition_key is None:
            return None
        try:
            wall = datetime.datetime.strptime(  # noqa: DTZ007 - the zone comes below
                partition_key, self._key_format
            )
        except ValueError as error:
            raise DefinitionError(
                f"partition key {partition_key!r} does not fit the format {self._key_format!r}"
            ) from error
        return later_reading(wall, self._timezone) if wall.tzinfo is None else as_utc(wall)

    def _partition_date(self, tick: DateTime) -> DateTime:
        step = self._get_next if self._run_offset > 0 else self._get_prev
        for _ in range(abs(self._run_offset)):
            tick = step(tick)
        return tick


def _decode_run_immediately(value: bool | float | None) -> _RunImmediately:
    if value is None or isinstance(value, bool):
        return value
    return datetime.timedelta(seconds=value)
