"""One line at the end: how many faults there were in all, and how many of them broke something."""

from collections import Counter

import pytest


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
