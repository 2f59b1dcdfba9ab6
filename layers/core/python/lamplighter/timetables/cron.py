"""One cron expression in one time zone: the ticks before and after an instant, across DST.

Owns: everything that touches croniter. Instants go in and come out as naive UTC datetimes, wall
times are naive local ones; `CronTimetable` wraps them. Three rules decide what happens at DST:

* The ticks of a schedule are a set of instants. The one before `t` and the one after it do not
  depend on where one asks from, so that intervals between them tile the time line.
* A wall time that the clocks skip ticks later by the length of the gap.
* A wall time that they show twice ticks the second time; a schedule of every hour ticks both times.
"""

from bisect import bisect_left, bisect_right
from contextlib import suppress
from datetime import date, datetime, timedelta, tzinfo
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeAlias

from pendulum import DateTime

from lamplighter import clock
from lamplighter.errors import InvalidTimetableError, NoTickError
from lamplighter.timetables.base import TickTimetable
from lamplighter.zones import (
    UTC,
    Stretch,
    Window,
    Zone,
    ZoneOffsets,
    as_utc,
    encode_zone,
    parse_zone,
)

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

_INSTANT = timedelta.resolution
# More than any clock differs from UTC and has ever moved.
_FAR = timedelta(days=2)
_DAY = timedelta(days=1)
_DAWN, _DUSK = datetime(2, 7, 1), datetime(9998, 7, 1)  # noqa: DTZ001 - naive UTC
_UNIX_FIELDS = 5
# Feb 29 on a given weekday recurs within 40 years; croniter's own search stops at the same 50.
_SEARCH_YEARS = 50


class CronSchedule:
    """The ticks of one expression in one zone."""

    def __init__(self, expression: str, zone: Zone) -> None:
        self._walls = wall_ticks(expression)
        self._offsets = ZoneOffsets(zone)

    def after(self, t: datetime) -> datetime:
        """Return the first tick after `t`."""
        stretch = self._offsets.at(t)
        while True:
            ticks = [self._first_in(window, t) for window in self._windows(stretch)]
            if found := [tick for tick in ticks if tick is not None]:
                return min(found)
            # No clock shows a tick before this one: a yearly schedule need not look at each change.
            wall = self._walls.after(stretch.last_wall - _INSTANT)
            end = max(stretch.end, wall - _FAR)
            t, stretch = end - _INSTANT, self._offsets.at(end)

    def before(self, t: datetime) -> datetime:
        """Return the last tick before `t`."""
        stretch = self._offsets.at(t - _INSTANT)
        while True:
            ticks = [self._last_in(window, t) for window in self._windows(stretch)]
            if found := [tick for tick in ticks if tick is not None]:
                return max(found)
            wall = self._walls.before(stretch.first_wall)
            t = min(stretch.start, wall + _FAR)
            stretch = self._offsets.at(t - _INSTANT)

    def at_or_after(self, t: datetime) -> datetime:
        """Return `t` if it is a tick, else the first one after it."""
        return self.after(t - _INSTANT)

    def at_or_before(self, t: datetime) -> datetime:
        """Return `t` if it is a tick, else the last one before it."""
        return self.before(t + _INSTANT)

    def _first_in(self, window: Window, t: datetime) -> datetime | None:
        """Return the first tick after `t` that is read in this window."""
        try:
            wall = self._walls.after(max(t + window.offset, window.start - _INSTANT))
        except NoTickError:
            return None
        return wall - window.offset if wall < window.end else None

    def _last_in(self, window: Window, t: datetime) -> datetime | None:
        """Return the last tick before `t` that is read in this window."""
        try:
            wall = self._walls.before(min(t + window.offset, window.end))
        except NoTickError:
            return None
        return wall - window.offset if wall >= window.start else None

    def _windows(self, stretch: Stretch) -> tuple[Window, ...]:
        return stretch.every_reading if self._walls.is_hourly else stretch.last_reading


@lru_cache(maxsize=4096)
def wall_ticks(expression: str) -> "_PlainTicks | _CroniterTicks":
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
    # A star in a list is as good as alone.
    expanded = [_EVERY if "*" in field else field for field in expanded]
    is_plain = len(expanded) == _UNIX_FIELDS and not nth_weekdays and not iterator.nearest_weekday
    if is_plain and all(isinstance(n, int) or n == "*" for field in expanded for n in field):
        return _PlainTicks(*expanded)
    return _CroniterTicks(expression, is_hourly=expanded[1] == _EVERY)


class _PlainTicks:
    """Five fields of plain numbers, which is nearly every schedule, walked day by day.

    croniter gives the same answers at some hundred microseconds each; this takes two.
    """

    def __init__(
        self, minutes: _Field, hours: _Field, days: _Field, months: _Field, weekdays: _Field
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

    def _next_day(self, today: date) -> date:
        last_year = min(today.year + _SEARCH_YEARS, date.max.year)
        day = today + _DAY
        while not self._matches(day):
            if day.month in self._months:
                day += _DAY
            else:
                day = (day.replace(day=1) + 31 * _DAY).replace(day=1)
            if day.year > last_year:
                raise _never_ticks()
        return day

    def _previous_day(self, today: date) -> date:
        first_year = max(today.year - _SEARCH_YEARS, date.min.year + 1)
        day = today - _DAY
        while not self._matches(day):
            day -= _DAY if day.month in self._months else day.day * _DAY
            if day.year < first_year:
                raise _never_ticks()
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
            raise _never_ticks() from error
        assert isinstance(tick, datetime)
        return tick


def _numbers(field: _Field, everything: range) -> frozenset[int]:
    return frozenset(everything if field == _EVERY else map(int, field))


def _at(day: date, minute_of_day: int) -> datetime:
    hour, minute = divmod(minute_of_day, 60)
    return datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 - wall clock


def _never_ticks() -> NoTickError:
    return NoTickError(f"the schedule has no tick within {_SEARCH_YEARS} years")


@lru_cache(maxsize=256)  # the DAGs of a file often have the same; each costs a millisecond
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
        expressions = [" ".join([*fields[:4], "*"]), " ".join([*fields[:2], "*", *fields[3:]])]
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
    if not _DAWN.year < t.year < _DUSK.year:  # a step from there may leave the calendar
        return _DAWN if t.year <= _DAWN.year else _DUSK
    return datetime(  # noqa: DTZ001 - naive UTC by design
        t.year, t.month, t.day, t.hour, t.minute, t.second, t.microsecond
    )


class CronTimetable(TickTimetable):
    """A timetable whose instants are the ticks of a cron expression in a time zone."""

    def __init__(
        self,
        cron: str,  # An expression of five fields, or a preset such as "@daily".
        timezone: str | int | tzinfo,  # The time zone; a number is seconds east of UTC.
    ) -> None:
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

    def _get_next(self, current: datetime) -> DateTime:
        return as_utc(self._schedule.after(as_naive_utc(current)))

    def _get_prev(self, current: datetime) -> DateTime:
        return as_utc(self._schedule.before(as_naive_utc(current)))

    def _align_to_next(self, current: datetime) -> DateTime:
        return as_utc(self._schedule.at_or_after(as_naive_utc(current)))

    def _align_to_prev(self, current: datetime) -> DateTime:
        return as_utc(self._schedule.at_or_before(as_naive_utc(current)))
