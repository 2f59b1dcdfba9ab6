"""How results look: instants, and rows on wide and narrow screens."""

import io

import pytest
from pendulum import UTC, DateTime, datetime, timezone
from rich.console import Console

from lamplighter_cli import console

ZURICH = timezone("Europe/Zurich")


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (datetime(2026, 1, 1, 5), "2026-01-01 05:00 UTC (06:00 Europe/Zurich)"),
        (datetime(2026, 7, 1, 5, 0, 7), "2026-07-01 05:00:07 UTC (07:00:07 Europe/Zurich)"),
        (datetime(2026, 10, 25, 0, 30), "2026-10-25 00:30 UTC (02:30+02:00 Europe/Zurich)"),
        (datetime(2026, 10, 25, 1, 30), "2026-10-25 01:30 UTC (02:30+01:00 Europe/Zurich)"),
        (datetime(2026, 10, 25, 2), "2026-10-25 02:00 UTC (03:00 Europe/Zurich)"),
        (datetime(2026, 3, 29, 1, 30), "2026-03-29 01:30 UTC (03:30 Europe/Zurich)"),
        (datetime(2026, 1, 1, 23, 30), "2026-01-01 23:30 UTC (2026-01-02 00:30 Europe/Zurich)"),
        (None, ""),
    ],
)
def test_instant_is_told_in_both_zones(at: DateTime | None, text: str) -> None:
    """Seconds only where there are some, the day and the offset where they differ."""
    assert console.instant(at, ZURICH) == text


def test_instant_in_utc_is_told_once() -> None:
    """There is nothing to put beside it."""
    assert console.instant(datetime(2026, 1, 1, 5), UTC) == "2026-01-01 05:00 UTC"


def shown(width: int) -> list[str]:
    """Return two results as a screen of this width shows them."""
    rows = console.Rows("run", "state", "ended")
    rows.add("sales/scheduled__2026-01-01T00:00:00+00:00", console.state("failed"), "at noon")
    rows.add("sales/mine", console.state("queued"), "")
    out = io.StringIO()
    Console(file=out, width=width).print(rows)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_rows_that_fit_are_a_table() -> None:
    """A headline, and a line for each."""
    assert shown(80) == [
        "run                                         state   ended",
        "sales/scheduled__2026-01-01T00:00:00+00:00  failed  at noon",
        "sales/mine                                  queued",
    ]


def test_rows_that_do_not_fit_are_blocks() -> None:
    """Names stay whole, so that they can be copied; what is empty is left out."""
    assert shown(50) == [
        "sales/scheduled__2026-01-01T00:00:00+00:00",
        "  state  failed",
        "  ended  at noon",
        "sales/mine",
        "  state  queued",
    ]
