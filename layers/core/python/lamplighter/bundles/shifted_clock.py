"""Moves the clock that author code sees, to find definitions that depend on when they are parsed.

A start date of "today" gives the same definition twice in one second, and another one tomorrow. The
second of two parses therefore happens a day later. Only ever used in a process that ends after it.
"""

import datetime
import time

import pendulum
from pendulum import DateTime

_Real = datetime.datetime
_RealDate = datetime.date
# Enough to change the day, the hour and the minute.
SHIFT = datetime.timedelta(days=1, hours=1, minutes=1)


class _LooksReal(type):
    """Lets real values pass for values of the shifted classes in `isinstance`."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _Real if cls.__name__ == "datetime" else _RealDate)


def shift_clock() -> None:
    """Let every usual way of asking for the time answer `SHIFT` later from now on."""
    real_time = time.time
    real_now = pendulum.now

    # Both hand out real values, which is why their signatures differ from what they override.
    class shifted_datetime(_Real, metaclass=_LooksReal):  # noqa: N801 - stands in for `datetime`
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> _Real:  # type: ignore[override]
            return _Real.now(tz) + SHIFT

        @classmethod
        def today(cls) -> _Real:  # type: ignore[override]
            return _Real.now() + SHIFT

        @classmethod
        def utcnow(cls) -> _Real:  # type: ignore[override]
            return _Real.now(datetime.UTC).replace(tzinfo=None) + SHIFT

    class shifted_date(_RealDate, metaclass=_LooksReal):  # noqa: N801 - stands in for `date`
        @classmethod
        def today(cls) -> _RealDate:  # type: ignore[override]
            return (_Real.now() + SHIFT).date()

    def now(tz: str | pendulum.Timezone | None = None) -> DateTime:
        return real_now(tz) + SHIFT

    shifted_datetime.__name__, shifted_date.__name__ = "datetime", "date"
    # mypy refuses to see a class replaced, which is the point here.
    datetime.datetime = shifted_datetime  # type: ignore[misc]
    datetime.date = shifted_date  # type: ignore[misc]
    time.time = lambda: real_time() + SHIFT.total_seconds()
    pendulum.now = now
    pendulum.today = lambda tz="local": now(tz).start_of("day")
