"""The pause before another attempt: how it grows, how far, and that it never differs."""

from datetime import timedelta
from typing import Any

import pytest

from lamplighter.dags.task import Task
from lamplighter.runs.job_observation import retry_delay
from tests.unit.runs.rows import make_dag

DAY = timedelta(days=1)


def task(**options: Any) -> Task:
    """Return a task with these options."""
    return make_dag(load=options).tasks["load"]


def delays(given: Task, try_number: int, count: int = 50) -> list[float]:
    """Return how long so many steps wait after an attempt."""
    steps = (f"orders|{day}#load" for day in range(count))
    return [retry_delay(given, try_number, of=step).total_seconds() for step in steps]


@pytest.mark.parametrize("try_number", [1, 2, 1_000])
def test_delay_without_back_off_is_always_the_same(try_number: int) -> None:
    """Without back-off a step waits as the author wrote, however often it failed."""
    given = task(retry_delay=timedelta(minutes=7), max_retry_delay=timedelta(minutes=1))
    assert retry_delay(given, try_number, of="a") == timedelta(minutes=7)


def test_delay_without_options_is_five_minutes() -> None:
    """An author who writes nothing gets Airflow's five minutes."""
    assert retry_delay(task(), 1, of="a") == timedelta(minutes=5)


@pytest.mark.parametrize(
    ("factor", "try_number", "base"),
    [(2.0, 1, 10), (2.0, 2, 20), (2.0, 5, 160), (3.0, 3, 90), (1.0, 9, 10), (1.5, 2, 15)],
)
def test_delay_with_back_off_grows_up_to_double(factor: float, try_number: int, base: int) -> None:
    """The n-th pause is the delay times the factor to the n-1, and less than as much again."""
    given = task(retry_delay=10, retry_exponential_backoff=factor)

    found = delays(given, try_number)

    assert min(found) >= base
    assert max(found) < 2 * base
    assert len(set(found)) > 5


def test_back_off_that_is_true_doubles_the_delay() -> None:
    """True means a factor of two, since whoever writes it wants the pauses to grow."""
    given = task(retry_delay=10, retry_exponential_backoff=True)
    assert min(delays(given, 4)) >= 80


def test_delay_of_one_attempt_never_differs() -> None:
    """Whoever asks, one attempt waits the same; another step does not."""
    given = task(retry_delay=3_600, retry_exponential_backoff=2.0)

    assert retry_delay(given, 1, of="a") == retry_delay(given, 1, of="a")
    assert len(set(delays(given, 1))) > 40


@pytest.mark.parametrize("try_number", [1, 3, 60, 2_000, 10**9])
@pytest.mark.parametrize("factor", [2.0, 1e3, 1e300, 1.7e308])
def test_delay_with_back_off_is_never_above_its_limit(factor: float, try_number: int) -> None:
    """However large the power, also beyond what a number can hold, the limit stands."""
    given = task(
        retry_delay=10, retry_exponential_backoff=factor, max_retry_delay=timedelta(seconds=45)
    )
    assert all(10 <= delay <= 45 for delay in delays(given, try_number))


@pytest.mark.parametrize("limit", [None, timedelta(days=30)])
def test_delay_with_back_off_is_at_most_a_day(limit: timedelta | None) -> None:
    """A day is the longest pause with back-off, whatever limit the author gave."""
    given = task(retry_delay=3_600, retry_exponential_backoff=10.0, max_retry_delay=limit)
    assert set(delays(given, 9)) == {DAY.total_seconds()}


@pytest.mark.parametrize("delay", [0, 0.001, 0.5])
def test_delay_with_back_off_is_at_least_a_second(delay: float) -> None:
    """With back-off even no delay at all becomes a second, so that it can grow."""
    given = task(retry_delay=delay, retry_exponential_backoff=2.0)
    assert set(delays(given, 1)) == {1.0}


def test_factor_below_one_shrinks_but_never_to_nothing() -> None:
    """A factor below one makes pauses shorter, but not shorter than a second."""
    given = task(retry_delay=64, retry_exponential_backoff=0.5)
    assert 32 <= min(delays(given, 2)) < 64
    assert set(delays(given, 5_000)) == {1.0}


def test_limit_below_a_second_is_kept() -> None:
    """A limit shorter than the shortest pause still holds."""
    given = task(
        retry_delay=10, retry_exponential_backoff=2.0, max_retry_delay=timedelta(milliseconds=200)
    )
    assert set(delays(given, 3)) == {0.2}
