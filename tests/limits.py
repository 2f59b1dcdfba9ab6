"""How long a test may take before it counts as one that hangs, and what random tests begin with.

The limits are far beyond what any test needs on a slow machine. They end what would never end, and
say which test that was.
"""

import faulthandler
import random
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings
from pytest_timeout import is_debugging

_TESTS = Path(__file__).parent
_FULL_SECONDS = 2_700
# By folder: tests of these start processes that take their time, or rage for minutes.
_FOLDER_SECONDS = {
    "concurrency": 1_500,
    "deployed": 1_800,
    "infra": 900,
    "releases": 900,
    "spark": 900,
}
# Whoever has kept the first for himself, such as a task of an event loop, gets another.
_AGAIN_SECONDS = 20

SEED = pytest.StashKey[int]()


class TestTakesTooLong(BaseException):
    """A test has used up its time.

    Not an `Exception`: code under test might handle one, and Hypothesis would take it for a
    failure, and repeat what takes too long in order to make it shorter.
    """

    __test__ = False


def set_limit(item: pytest.Item) -> None:
    """Give a test its limit, if the usual one is not enough."""
    if item.get_closest_marker("timeout") is not None:
        return
    below = item.path.relative_to(_TESTS).parts if item.path.is_relative_to(_TESTS) else ()
    folder = next((each for each in below if each in _FOLDER_SECONDS), None)
    if item.get_closest_marker("full") is not None:
        item.add_marker(pytest.mark.timeout(_FULL_SECONDS))
    elif folder is not None:
        item.add_marker(pytest.mark.timeout(_FOLDER_SECONDS[folder]))


def start_timer(item: pytest.Item, seconds: float) -> bool | None:
    """Let the test fail when its time is up; None, if only pytest-timeout itself can see to it."""
    if threading.current_thread() is not threading.main_thread():
        return None

    def stop(signal_number: int, frame: FrameType | None) -> None:
        if is_debugging():
            return
        assert sys.__stderr__ is not None
        faulthandler.dump_traceback(file=sys.__stderr__, all_threads=True)
        raise TestTakesTooLong(f"{item.nodeid} takes longer than {seconds:g} s")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_SECONDS)
    return True


def stop_timer() -> bool | None:
    """Let nothing happen any more when time is up."""
    if threading.current_thread() is not threading.main_thread():
        return None
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return True


def load_profile() -> None:
    """Let no generated test fail because the machine is slow."""
    settings.register_profile(
        "lamplighter",
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("lamplighter")


def choose_seed(config: pytest.Config) -> None:
    """Let all random tests of all processes begin with one seed, which can be given again."""
    given = config.getoption("--hypothesis-seed")
    if given is None:
        given = str(random.randrange(2**32))
        config.option.hypothesis_seed = given
    config.stash[SEED] = given
