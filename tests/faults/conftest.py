"""How many faults there were in each story, and how many of them broke something."""

import sys
from collections.abc import Callable, Sequence

import pytest

from tests.faults.reports import Report


@pytest.fixture
def report(
    capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> Report:
    """Return a function that says how many faults there were, and fails if something broke."""

    def tell(name: str, points: int, wrong: Sequence[str]) -> None:
        record_property("crash points", points)
        record_property("violations", len(wrong))
        with capsys.disabled():
            sys.stdout.write(f"\n{name}: crash points: {points}, violations: {len(wrong)}\n")
        assert wrong == []

    return tell
