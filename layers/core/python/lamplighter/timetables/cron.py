"""One cron expression in one time zone: the ticks before and after an instant, across DST.

Owns: everything that touches croniter. Instants go in and come out as naive UTC datetimes, wall
times are naive local ones; the timetables wrap them. Three rules decide what daylight saving does:

* A wall time that happens twice ticks at its second occurrence; one that does not exist ticks later
  by the length of the gap. Both are "the later of the two readings".
* A schedule of every hour ticks once per real hour: both of a repeated hour, and no hole.
* The tick before `t` is always earlier than `t`, and the tick after it leads back to `t`.
"""

from bisect import bisect_left, bisect_right
from datetime import date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Literal, Protocol, TypeAlias
from zoneinfo import ZoneInfo

from lamplighter.errors import InvalidTimetableError
from lamplighter.zones import UTC, Zone, encode_zone

PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_Field: TypeAlias = list[int | Literal["*", "l"]]
_EVERY: _Field = ["*"]

_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_UNIX_FIELDS = 5
# Feb 29 on a given weekday recurs within 40 years; croniter's own search stops at the same 50.
_SEARCH_YEARS = 50


class CronSchedule:
    """The ticks of one expression in one zone."""

    def __init__(self, expression: str, zone: Zone) -> None:
        self._walls = wall_ticks(expression)
        self._zone = _standard_zone(zone)
        self._is_hourly = self._walls.is_hourly

    def after(self, t: datetime) -> datetime:
        """Return the first tick after `t`."""
        if self._zone is None:
            return self._walls.after(t)
        wall = self._wall(t)
        tick = self._walls.after(wall)
        if not self._is_hourly:
            return self._instant(tick)
        instant = t + (tick - wall)
        if tick - wall > _HOUR and self._wall(instant) != tick:
            return self._instant(tick)  # the schedule paused for days and the clocks changed
        return instant

    def before(self, t: datetime) -> datetime:
        """Return the last tick before `t`."""
        if self._zone is None:
            return self._walls.before(t)
        wall = self._wall(t)
        tick = self._walls.before(wall)
        if self._is_hourly:
            return self._hourly_before(t, wall, tick)
        instant = self._instant(tick)
        while instant >= t:  # `t` is inside a gap or a fold, where several wall times meet
            tick = self._walls.before(tick)
            instant = self._instant(tick)
        return instant

    def at_or_after(self, t: datetime) -> datetime:
        """Return `t` if it is a tick, else the first one after it."""
        later = self.after(t)
        return t if self.before(later) == t else later

    def at_or_before(self, t: datetime) -> datetime:
        """Return `t` if it is a tick, else the last one before it."""
        earlier = self.before(t)
        return t if self.after(earlier) == t else earlier

    def _hourly_before(self, t: datetime, wall: datetime, tick: datetime) -> datetime:
        instant = t - (wall - tick)
        drift = self._wall(instant) - tick
        if not drift:
            return instant
        if wall - tick > _HOUR:
            return self._instant(tick)
        if not drift % _HOUR:
            return instant
        # The clocks moved by a fraction of an hour (Lord Howe Island): counting backwards would
        # land between the ticks that counting forwards has made.
        earlier = later = self.before(t - 2 * _HOUR)
        while later < t:
            earlier, later = later, self.after(later)
        return earlier

    def _wall(self, t: datetime) -> datetime:
        assert self._zone is not None
        return self._zone.fromutc(t.replace(tzinfo=self._zone)).replace(tzinfo=None)

    def _instant(self, wall: datetime) -> datetime:
        zone = self._zone
        assert zone is not None
        first = zone.utcoffset(wall)
        second = zone.utcoffset(wall.replace(fold=1))
        assert first is not None
        assert second is not None
        return wall - min(first, second)


class WallTicks(Protocol):
    """The ticks of an expression on a clock that nobody ever changes."""

    is_hourly: bool

    def after(self, wall: datetime) -> datetime:
        """Return the first tick after `wall`."""
        ...

    def before(self, wall: datetime) -> datetime:
        """Return the last tick before `wall`."""
        ...


@lru_cache(maxsize=4096)
def wall_ticks(expression: str) -> WallTicks:
    """Return the ticks of `expression`, or raise `InvalidTimetableError` naming what is wrong."""
    from croniter import CroniterError, croniter  # noqa: PLC0415 - 100 ms that imports can spare

    if any(field.upper().startswith("R") for field in expression.split()):
        raise InvalidTimetableError(
            f"cron {expression!r}: a random field would change the schedule at every parse"
        )
    try:
        expanded, nth_weekdays = croniter.expand(expression)
        iterator = croniter(expression, datetime(2000, 1, 1))  # noqa: DTZ001 - wall clock
    except (CroniterError, ValueError, AttributeError) as error:
        raise InvalidTimetableError(f"cron {expression!r} is not valid: {error}") from error
    is_plain = len(expanded) == _UNIX_FIELDS and not nth_weekdays and not iterator.nearest_weekday
    if is_plain and all(isinstance(n, int) or n == "*" for field in expanded for n in field):
        return _PlainTicks(*expanded)
    return _CroniterTicks(expression, is_hourly=expanded[1] == _EVERY)


class _PlainTicks:
    """Five fields of plain numbers, which is nearly every schedule, walked day by day.

    croniter gives the same answers at some hundred microseconds each; this takes two.
    """

    def __init__(
        self,
        minutes: _Field,
        hours: _Field,
        days: _Field,
        months: _Field,
        weekdays: _Field,
    ) -> None:
        self.is_hourly = hours == _EVERY
        self._minutes_of_day = [
            60 * hour + minute
            for hour in sorted(_numbers(hours, range(24)))
            for minute in sorted(_numbers(minutes, range(60)))
        ]
        self._months = _numbers(months, range(1, 13))
        self._days = _numbers(days, range(1, 32))
        self._weekdays = _numbers(weekdays, range(7))
        # cron's oldest rule: when both day fields are restricted, either may match.
        self._either_day = _EVERY not in (days, weekdays)

    def after(self, wall: datetime) -> datetime:
        day = wall.date()
        if self._matches(day):
            minutes = self._minutes_of_day
            index = bisect_right(minutes, 60 * wall.hour + wall.minute)
            if index < len(minutes):
                return _at(day, minutes[index])
        return _at(self._next_day(day), self._minutes_of_day[0])

    def before(self, wall: datetime) -> datetime:
        day = wall.date()
        if self._matches(day):
            minutes = self._minutes_of_day
            bisect = bisect_right if wall.second or wall.microsecond else bisect_left
            index = bisect(minutes, 60 * wall.hour + wall.minute)
            if index:
                return _at(day, minutes[index - 1])
        return _at(self._previous_day(day), self._minutes_of_day[-1])

    def _matches(self, day: date) -> bool:
        if day.month not in self._months:
            return False
        on_day = day.day in self._days
        on_weekday = day.isoweekday() % 7 in self._weekdays
        return (on_day or on_weekday) if self._either_day else (on_day and on_weekday)

    def _next_day(self, day: date) -> date:
        last_year = min(day.year + _SEARCH_YEARS, date.max.year)
        day += _DAY
        while not self._matches(day):
            if day.month in self._months:
                day += _DAY
            else:
                day = (day.replace(day=1) + 31 * _DAY).replace(day=1)
            if day.year > last_year:
                raise _never_ticks(day)
        return day

    def _previous_day(self, day: date) -> date:
        first_year = max(day.year - _SEARCH_YEARS, date.min.year + 1)
        day -= _DAY
        while not self._matches(day):
            day -= _DAY if day.month in self._months else day.day * _DAY
            if day.year < first_year:
                raise _never_ticks(day)
        return day


class _CroniterTicks:
    """Seconds, years, and the letters L, W and #: as croniter reads them."""

    def __init__(self, expression: str, *, is_hourly: bool) -> None:
        self.is_hourly = is_hourly
        self._expression = expression

    def after(self, wall: datetime) -> datetime:
        return self._step(wall, "get_next")

    def before(self, wall: datetime) -> datetime:
        return self._step(wall, "get_prev")

    def _step(self, wall: datetime, method: str) -> datetime:
        from croniter import CroniterBadDateError, croniter  # noqa: PLC0415 - see wall_ticks

        try:
            tick = getattr(croniter(self._expression, wall), method)(datetime)
        except CroniterBadDateError as error:
            raise _never_ticks(wall) from error
        assert isinstance(tick, datetime)
        return tick


def _numbers(field: _Field, everything: range) -> frozenset[int]:
    return frozenset(everything if field == _EVERY else map(int, field))


def _at(day: date, minute_of_day: int) -> datetime:
    hour, minute = divmod(minute_of_day, 60)
    return datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 - wall clock


def _never_ticks(near: date) -> InvalidTimetableError:
    return InvalidTimetableError(f"the schedule has no tick within {_SEARCH_YEARS} years of {near}")


def _standard_zone(zone: Zone) -> tzinfo | None:
    """Return the standard library's zone, which answers in C; None for UTC, which needs none."""
    name = encode_zone(zone)
    if name == "UTC":
        return None
    return ZoneInfo(name) if isinstance(name, str) else zone


def describe(expression: str) -> str:
    """Return the expression in English, empty where that would mislead."""
    from cron_descriptor import (  # noqa: PLC0415 - only people who look at a schedule pay for it
        CasingTypeEnum,
        ExpressionDescriptor,
        FormatException,
        MissingFieldException,
    )

    fields = expression.split()
    if len(fields) != _UNIX_FIELDS:
        return ""
    expressions = [expression]
    if fields[2] != "*" and fields[4] != "*":
        expressions = [
            " ".join([*fields[:4], "*"]),
            " ".join([*fields[:2], "*", *fields[3:]]),
        ]
    try:
        wall_ticks(expression)
        return " (or) ".join(
            ExpressionDescriptor(
                text, casing_type=CasingTypeEnum.Sentence, use_24hour_time_format=True
            ).get_description()
            for text in expressions
        )
    except (InvalidTimetableError, FormatException, MissingFieldException):
        return ""


def as_naive_utc(t: datetime) -> datetime:
    """Return the instant as the plain, naive datetime that this module works on."""
    if t.tzinfo is not UTC and t.tzinfo is not None:
        t = t.astimezone(UTC)
    return datetime(  # noqa: DTZ001 - naive UTC by design
        t.year, t.month, t.day, t.hour, t.minute, t.second, t.microsecond
    )
