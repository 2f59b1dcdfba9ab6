"""Tests that hang: each is ended, named and shown with what it printed, whatever it hangs in."""

from pathlib import Path

import pytest

from tests.patience import with_patience

pytest_plugins = ["pytester"]

CONFTEST = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests import limits

def pytest_timeout_set_timer(item, settings):
    return limits.start_timer(item, settings.timeout)

def pytest_timeout_cancel_timer(item):
    return limits.stop_timer()
"""
HANGING = {
    "a generated example": """
from hypothesis import given, strategies as st
@given(seed=st.integers(0, 9))
def test_it(seed):
    print("seed is", seed)
    while True:
        pass
""",
    "a task that handles errors": """
import asyncio
def test_it():
    async def main():
        print("seed is 7")
        while True:
            try:
                await asyncio.sleep(3600)
            except Exception:
                pass
    asyncio.run(main())
""",
    "a thread": """
import threading
def test_it():
    print("seed is 7")
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    threading.Event().wait()
""",
}


@pytest.mark.parametrize("processes", [0, 1])
@pytest.mark.parametrize("name", HANGING)
def test_test_that_hangs_fails_with_its_name_and_seed(
    pytester: pytest.Pytester, name: str, processes: int
) -> None:
    """The tests after it run, and what it had printed says how to repeat it."""
    pytester.makeconftest(CONFTEST)

    def run(seconds: float) -> pytest.RunResult:
        mark = f"import pytest\npytestmark = pytest.mark.timeout({seconds})\n"
        pytester.makepyfile(test_hanging=mark + HANGING[name])
        pytester.makepyfile(test_next="def test_next():\n    pass\n")
        return pytester.runpytest_subprocess("-n", str(processes), "-p", "no:lamplighter")

    done = with_patience(run, lambda done: "seed is" not in done.stdout.str())
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(
        ["*test_hanging.py::test_it takes longer than *", "*Captured stdout call*", "seed is *"]
    )
