"""Limits of real time that a test wants to see exceeded, by those who hang and by nobody else."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# How long a test waits for what must come; longer than any machine needs, and less than a test has.
LONG_SECONDS = 120.0
_LIMITS = (2.0, 15.0, LONG_SECONDS)


def with_patience(attempt: Callable[[float], T], is_too_short: Callable[[T], bool]) -> T:
    """Return what comes of a limit that is long enough for all who do not hang.

    A busy machine may need more than the first one, which is short because a test waits for it.
    """
    for seconds in _LIMITS:
        found = attempt(seconds)
        if not is_too_short(found):
            break
    return found
