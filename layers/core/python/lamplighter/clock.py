"""What time it is: the one place that reads the clock.

Owns: "now", which the clock of the current runtime tells. Everything that needs the time asks
`now()` at the moment it needs it, so that a movable clock, or a test library that freezes time, is
obeyed everywhere at once.
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

# In a tuple, because a library that freezes time also replaces the names of modules that hold it.
_AT_IMPORT = (time.time,)


class Clock(Protocol):
    """Anything that can say what time it is, as an aware instant."""

    def now(self) -> datetime.datetime:
        """Return the present instant."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return when so much time has passed on this clock."""
        ...


class SystemClock:
    """The machine's clock."""

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def now(self) -> datetime.datetime:
        """Return the machine's time, or the frozen one while a test has frozen it."""
        # A test may have replaced `time.time` alone, `datetime.datetime` alone, or both: whichever
        # was replaced must win. Both are looked up on their module here, never bound at import.
        if time.time is not _AT_IMPORT[0]:
            return datetime.datetime.fromtimestamp(time.time(), tz=datetime.UTC)
        return datetime.datetime.now(tz=datetime.UTC)


class FixedClock:
    """A clock that stands still."""

    def __init__(self, at: datetime.datetime) -> None:
        self._at = at

    def now(self) -> datetime.datetime:
        """Return the one instant it knows."""
        return self._at

    def sleep(self, seconds: float) -> None:
        """Return at once: here, time does not pass."""


_SYSTEM = SystemClock()
_instant: ContextVar[DateTime | None] = ContextVar("_instant", default=None)


def in_force() -> Clock:
    """Return the clock of the current runtime."""
    return runtime.current().clock or _SYSTEM


def now() -> DateTime:
    """Return the present instant in UTC."""
    return _instant.get() or as_utc(in_force().now())


@contextmanager
def at(instant: datetime.datetime) -> Iterator[None]:
    """Let it be `instant` for this thread until the block ends.

    A decision is made at one instant: asked twice, the clock would give two.
    """
    token = _instant.set(as_utc(instant))
    try:
        yield
    finally:
        _instant.reset(token)


def sleep(seconds: float) -> None:
    """Wait, by the clock that tells the time."""
    in_force().sleep(seconds)
