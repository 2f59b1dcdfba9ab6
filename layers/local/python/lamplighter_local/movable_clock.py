"""A clock that stands still until someone moves it, and then only forward.

Owns: the time of a whole local system, shared by all its threads. Refuses: going back, because
everything that was written under a later time would then have happened in the future.
"""

import datetime
import threading

from pendulum import DateTime

from lamplighter.errors import RefusedError
from lamplighter.zones import as_utc


class MovableClock:
    """A `lamplighter.clock.Clock` that starts at `at`; a naive value is taken as UTC."""

    def __init__(self, at: datetime.datetime) -> None:
        self._at = as_utc(at)
        self._lock = threading.Lock()

    def now(self) -> DateTime:
        """Return the instant at which the clock stands."""
        return self._at

    def move(self, *, to: datetime.datetime) -> None:
        """Make it `to`, at once and for every thread."""
        with self._lock:
            self._go(as_utc(to))

    def advance(self, by: datetime.timedelta) -> None:
        """Make it later by `by`; two threads that do so at once add up."""
        with self._lock:
            self._go(as_utc(self._at + by))

    def sleep(self, seconds: float) -> None:
        """Return at once, with the time that a sleep would have taken gone by."""
        self.advance(datetime.timedelta(seconds=seconds))

    def _go(self, to: DateTime) -> None:
        if to < self._at:
            raise RefusedError(f"the clock is at {self._at} and cannot go back to {to}")
        self._at = to
