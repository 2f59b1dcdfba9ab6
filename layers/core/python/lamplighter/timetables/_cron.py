"""The part that every cron timetable shares: one expression, one zone, and its ticks."""

import datetime
from contextlib import suppress
from functools import cached_property
from typing import Any

from pendulum import DateTime

from lamplighter import clock
from lamplighter.errors import InvalidTimetableError, NoTickError
from lamplighter.timetables.base import Timetable
from lamplighter.timetables.cron import PRESETS, CronSchedule, as_naive_utc, describe
from lamplighter.zones import as_utc, encode_zone, parse_zone


class CronTimetable(Timetable):
    """A timetable whose instants are the ticks of a cron expression in a time zone."""

    def __init__(self, cron: str, timezone: str | int | datetime.tzinfo) -> None:
        if not isinstance(cron, str):
            raise InvalidTimetableError(f"cron {cron!r} must be a string such as '0 6 * * *'")
        self._expression = PRESETS.get(cron.strip(), cron.strip())
        self._timezone = parse_zone(timezone)

    @property
    def summary(self) -> str:
        return self._expression

    @property
    def description(self) -> str:  # type: ignore[override] # a constant elsewhere, worked out here
        return describe(self._expression)

    def serialize(self) -> dict[str, Any]:
        return {"expression": self._expression, "timezone": encode_zone(self._timezone)}

    def validate(self) -> None:
        now = as_naive_utc(clock.now())
        with suppress(NoTickError):
            self._schedule.after(now)
            return
        try:
            self._schedule.before(now)  # its years may be over, but a date must exist at all
        except NoTickError as error:
            raise InvalidTimetableError(
                f"cron {self._expression!r} never ticks: there is no such date"
            ) from error

    @cached_property
    def _schedule(self) -> CronSchedule:
        # Built on first use, so that a wrong expression is reported by `validate`, with the DAG's
        # name, and not by whichever line happened to construct the timetable.
        return CronSchedule(self._expression, self._timezone)

    def _get_next(self, current: datetime.datetime) -> DateTime:
        return as_utc(self._schedule.after(as_naive_utc(current)))

    def _get_prev(self, current: datetime.datetime) -> DateTime:
        return as_utc(self._schedule.before(as_naive_utc(current)))

    def _align_to_next(self, current: datetime.datetime) -> DateTime:
        return as_utc(self._schedule.at_or_after(as_naive_utc(current)))

    def _align_to_prev(self, current: datetime.datetime) -> DateTime:
        return as_utc(self._schedule.at_or_before(as_naive_utc(current)))
