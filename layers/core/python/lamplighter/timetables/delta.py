"""The part that every delta timetable shares, and the written form of a delta."""

import datetime
from typing import Any, TypeAlias

import pendulum
from dateutil.relativedelta import relativedelta, weekday
from pendulum import DateTime

from lamplighter.errors import InvalidTimetableError
from lamplighter.timetables.base import TickTimetable
from lamplighter.zones import UTC, as_utc

Delta: TypeAlias = datetime.timedelta | relativedelta

EPOCH = DateTime(1970, 1, 1, tzinfo=UTC)
_SHORTEST = datetime.timedelta(seconds=1)

# A relativedelta's plural fields are distances, zero when unset; its singular ones are places on
# the clock or calendar, None when unset.
_DISTANCES = ["years", "months", "days", "hours", "minutes", "seconds", "microseconds", "leapdays"]
_PLACES = ["year", "month", "day", "hour", "minute", "second", "microsecond"]


class DeltaTimetable(TickTimetable):
    """A timetable whose instants are a fixed or calendar distance apart."""

    def __init__(self, delta: Delta) -> None:  # The distance; at least a second.
        self._delta = normalize_delta(delta)

    @property
    def summary(self) -> str:
        return str(self._delta)

    def serialize(self) -> dict[str, Any]:
        return {"delta": encode_delta(self._delta)}

    def validate(self) -> None:
        # From a fixed instant, so that a delta is as valid in the evening as in the morning.
        first = EPOCH + self._delta
        if not EPOCH < first < first + self._delta:
            raise InvalidTimetableError(f"schedule delta must be positive, not {self._delta}")

    def check_limits(self) -> None:
        first = EPOCH + self._delta
        if min(first - EPOCH, first + self._delta - first) < _SHORTEST:
            raise InvalidTimetableError(
                f"schedule delta must be at least one second, not {self._delta}"
            )

    def _get_next(self, current: DateTime) -> DateTime:
        return as_utc(current + self._delta)

    def _get_prev(self, current: DateTime) -> DateTime:
        return as_utc(current - self._delta)

    def _align_to_next(self, current: DateTime) -> DateTime:
        return current

    def _align_to_prev(self, current: DateTime) -> DateTime:
        return current


def normalize_delta(delta: Delta) -> Delta:
    """Return `delta` as a plain timedelta or relativedelta.

    A pendulum duration of months is a timedelta of 30 days to everyone else, and would become one
    as soon as it is written down; here it keeps its months.
    """
    if isinstance(delta, relativedelta):
        return delta
    if not isinstance(delta, datetime.timedelta):
        raise InvalidTimetableError(f"{delta!r} is not a timedelta or relativedelta")
    if isinstance(delta, pendulum.Duration):
        if delta.years or delta.months:
            return relativedelta(
                years=delta.years,
                months=delta.months,
                days=delta.weeks * 7 + delta.remaining_days,
                seconds=delta.hours * 3600 + delta.minutes * 60 + delta.remaining_seconds,
                microseconds=delta.microseconds,
            )
        return datetime.timedelta(seconds=delta.total_seconds())
    return delta


def encode_delta(delta: Delta) -> float | dict[str, Any]:
    """Return the written form of a delta: seconds, or the fields of a relativedelta."""
    if isinstance(delta, datetime.timedelta):
        return delta.total_seconds()
    encoded: dict[str, Any] = {n: getattr(delta, n) for n in _DISTANCES if getattr(delta, n)}
    encoded |= {n: getattr(delta, n) for n in _PLACES if getattr(delta, n) is not None}
    day: weekday | None = delta.weekday
    if day is not None:
        encoded["weekday"] = [day.weekday] if day.n is None else [day.weekday, day.n]
    return encoded


def decode_delta(data: float | dict[str, Any]) -> Delta:
    """Return the delta that `encode_delta` wrote."""
    if not isinstance(data, dict):
        return datetime.timedelta(seconds=data)
    fields = dict(data)
    if "weekday" in fields:
        fields["weekday"] = weekday(*fields["weekday"])
    return relativedelta(**fields)


def fixed_length(delta: Delta) -> datetime.timedelta | None:
    """Return the length of a delta; None if it depends on where in the calendar one starts."""
    if isinstance(delta, datetime.timedelta):
        return delta
    if delta.months or delta.years:
        return None
    length = datetime.timedelta(
        days=delta.days, hours=delta.hours, minutes=delta.minutes, seconds=delta.seconds
    )
    return length or None
