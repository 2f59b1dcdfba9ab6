"""One row for each measurement, and the table of them.

Owns: what a target is, and how a number is written.
"""

from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table

_WIDTH = 100

Unit = Literal["seconds", "count"]


@dataclass(frozen=True)
class Row:
    """One measurement of both; less is better, and None is not measured.

    A limit of None is for information only.
    """

    name: str
    ours: float | None
    airflows: float | None
    limit: float | None
    unit: Unit = "seconds"

    @property
    def is_met(self) -> bool | None:
        """Whether ours is within the limit."""
        return None if self.limit is None or self.ours is None else self.ours <= self.limit

    @property
    def ratio(self) -> str:
        """Ours as a share of Airflow's."""
        if not (self.airflows and self.ours):
            return ""
        if self.ours > self.airflows:
            return f"{self.ours / self.airflows:.1f}"
        return f"1/{self.airflows / self.ours:.0f}"

    def readable(self, number: float | None) -> str:
        """Return a number of this row with its unit, or nothing."""
        if number is None:
            return ""
        if self.unit == "count":
            return f"{number:.2g}"
        if number < 0.001:
            return f"{number * 1e6:.1f} µs"
        return f"{number * 1e3:.1f} ms" if number < 1 else f"{number:.2f} s"


def show(rows: list[Row]) -> None:
    """Print the table, and which targets are missed."""
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    table = Table(
        "measured", "ours", "Airflow's", "ratio", "target", "", title="CPU per run, and in all"
    )
    for column in table.columns[1:5]:
        column.justify = "right"
    for row in rows:
        target = "" if row.limit is None else f"≤ {row.readable(row.limit)}"
        verdict = {True: "[green]met", False: "[bold red]MISSED", None: ""}[row.is_met]
        ours, airflows = row.readable(row.ours), row.readable(row.airflows)
        table.add_row(row.name, ours, airflows, row.ratio, target, verdict)
    console.print(table)
    missed = [row.name.strip() for row in rows if row.is_met is False]
    console.print(f"missed: {', '.join(missed)}" if missed else "every target is met")
