"""The current time: the only place that reads the clock.

Callers call `now()` when they need the time and never keep it, so that a movable clock, or a test
library that freezes time, takes effect everywhere at once.
"""

import datetime
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from pendulum import DateTime

from lamplighter import runtime
from lamplighter.zones import as_utc

# In a tuple, because a library that freezes time also replaces module attributes that hold it.
_AT_IMPORT = (time.time,)


class Clock(Protocol):
    """Returns the current time as an aware datetime, and sleeps."""

    def now(self) -> datetime.datetime:
        """Return the current time."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return when `seconds` have passed on this clock."""
        ...


class SystemClock:
    """The machine's clock."""

    def sleep(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(seconds)

    def now(self) -> datetime.datetime:
        """Return the machine's time, or the frozen time in a test that freezes it."""
        # A test may replace `time.time`, `datetime.datetime` or both; whichever it replaced wins.
        # So both are looked up on their modules here, never bound at import.
        if time.time is not _AT_IMPORT[0]:
            return datetime.datetime.fromtimestamp(time.time(), tz=datetime.UTC)
        return datetime.datetime.now(tz=datetime.UTC)


class FixedClock:
    """A clock that stands still."""

    def __init__(self, at: datetime.datetime) -> None:
        self._at = at

    def now(self) -> datetime.datetime:
        """Return the fixed instant."""
        return self._at

    def sleep(self, seconds: float) -> None:
        """Return at once: time does not pass."""


_SYSTEM = SystemClock()
_instant: ContextVar[DateTime | None] = ContextVar("_instant", default=None)


def in_force() -> Clock:
    """Return the clock of the current runtime."""
    return runtime.current().clock or _SYSTEM


def now() -> DateTime:
    """Return the current time in UTC."""
    return _instant.get() or as_utc(in_force().now())


@contextmanager
def at(instant: datetime.datetime) -> Iterator[None]:
    """Fix the time at `instant` in this thread, so that a decision sees one instant."""
    token = _instant.set(as_utc(instant))
    try:
        yield
    finally:
        _instant.reset(token)


def sleep(seconds: float) -> None:
    """Sleep on the current clock."""
    in_force().sleep(seconds)
