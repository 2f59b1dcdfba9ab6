"""The clock of a local system: still, shared, and only ever moved forward."""

import datetime
from concurrent.futures import ThreadPoolExecutor

import pytest

from lamplighter import clock, runtime
from lamplighter.errors import RefusedError
from lamplighter_local.movable_clock import MovableClock

START = datetime.datetime(2026, 3, 27, tzinfo=datetime.UTC)
HOUR = datetime.timedelta(hours=1)


def test_clock_left_alone_stands_still() -> None:
    """Two looks at a clock that nobody moves show the same instant."""
    movable = MovableClock(START)
    assert movable.now() == movable.now() == START


def test_clock_moved_shows_the_new_instant() -> None:
    """A clock moved to an instant of another zone shows that instant in UTC."""
    movable = MovableClock(START)
    movable.move(to=START.astimezone(datetime.timezone(2 * HOUR)) + HOUR)
    assert movable.now().isoformat() == "2026-03-27T01:00:00+00:00"


def test_clock_advanced_shows_the_sum() -> None:
    """Advances add up, the empty one included."""
    movable = MovableClock(START)
    for by in (HOUR, 0 * HOUR, HOUR):
        movable.advance(by)
    assert movable.now() == START + 2 * HOUR


def test_sleep_passes_time_without_waiting() -> None:
    """A sleep of a year and a half second is over at once and has taken that long."""
    movable = MovableClock(START)
    movable.sleep(365 * 86_400 + 0.5)
    assert movable.now() == START + datetime.timedelta(days=365, milliseconds=500)


def test_move_to_the_past_is_refused() -> None:
    """A clock that is told to go back says where it stands, and stays there."""
    movable = MovableClock(START)
    with pytest.raises(RefusedError, match=r"stands at 2026-03-27.*does not go back"):
        movable.move(to=START - HOUR)
    assert movable.now() == START


@pytest.mark.parametrize("seconds", [-1, -0.001])
def test_sleep_of_less_than_nothing_is_refused(seconds: float) -> None:
    """A negative sleep would turn the clock back and is refused."""
    with pytest.raises(RefusedError):
        MovableClock(START).sleep(seconds)


def test_clock_advanced_by_threads_loses_nothing() -> None:
    """Advances of many threads at once all count."""
    movable = MovableClock(START)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(movable.sleep, [1] * 4000))
    assert movable.now() == START + datetime.timedelta(seconds=4000)


def test_clock_of_the_process_can_be_a_movable_one() -> None:
    """Code that asks the library for the time follows the movable clock."""
    movable = MovableClock(START)
    with runtime.using(clock=movable):
        movable.advance(HOUR)
        assert clock.now() == START + HOUR
