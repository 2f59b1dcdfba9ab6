"""How many faults there were, and how many of them broke something: for each story, and in all."""

import sys
from collections import Counter
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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add up what the tests have reported, in whichever process they ran."""
    total: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "call":
                total.update(dict(report.user_properties))
    if total["crash points"]:
        terminalreporter.write_line(
            f"crash points: {total['crash points']}, violations: {total['violations']}"
        )
