"""The runtime: what is current, what a changed copy shares, and that caches end with it."""

from threading import Thread

import pytest
from pendulum import datetime

from lamplighter import clock, runtime, settings
from lamplighter.clock import FixedClock
from lamplighter.runtime import Runtime
from lamplighter.settings import Settings

asked: list[str] = []


@runtime.cached(maxsize=10)
def answer(question: str) -> str:
    """Return an answer, and note that it was asked for."""
    asked.append(question)
    return f"{question}!"


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    """Begin each test with nothing asked."""
    asked.clear()


def test_newest_open_runtime_is_current_whatever_the_order_of_ends() -> None:
    """Two deployments that overlap leave each other alone, and then the process as it was."""
    before = runtime.current()
    one, other = Runtime(), Runtime()
    first, second = runtime.activate(one), runtime.activate(other)
    first.__enter__()
    second.__enter__()
    assert runtime.current() is other
    first.__exit__(None, None, None)
    assert runtime.current() is other
    second.__exit__(None, None, None)
    assert runtime.current() is before


def test_current_runtime_is_that_of_all_threads() -> None:
    """A thread that was started before or after sees the same settings."""
    seen: list[Settings] = []
    given = Settings(table_prefix="threads-")
    with runtime.using(settings=given):
        thread = Thread(target=lambda: seen.append(settings.current()))
        thread.start()
        thread.join()
    assert seen == [given]


def test_cached_answers_belong_to_their_runtime() -> None:
    """What one deployment has learned is not known to another, and is gone with it."""
    with runtime.activate(Runtime()):
        assert [answer("a"), answer("a")] == ["a!", "a!"]
        with runtime.activate(Runtime()):
            answer("a")
        answer("a")
    with runtime.activate(Runtime()):
        answer("a")
    assert asked == ["a", "a", "a"]


def test_changed_clock_keeps_clients_and_caches() -> None:
    """Another time is no other deployment."""
    with runtime.activate(Runtime()):
        answer("a")
        made = runtime.current().client("it", object)
        with runtime.using(clock=FixedClock(datetime(2026, 1, 1))):
            answer("a")
            assert clock.now() == datetime(2026, 1, 1)
            assert runtime.current().client("it", object) is made
    assert asked == ["a"]


def test_changed_settings_keep_clients_but_no_caches() -> None:
    """Other settings may name other tables, in the same account."""
    with runtime.activate(Runtime()):
        answer("a")
        made = runtime.current().client("it", object)
        with runtime.using(settings=Settings(table_prefix="other-")):
            answer("a")
            assert runtime.current().client("it", object) is made
        with runtime.using(new_clients=True):
            assert runtime.current().client("it", object) is not made
    assert asked == ["a", "a"]
