"""What is shown of backfills, for programs and for people."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from lamplighter.backfill.expect import finished, seconds_left
from lamplighter.store.backfills import OPEN
from lamplighter.store.models import Backfills
from lamplighter.zones import Zone
from lamplighter_cli import console
from lamplighter_cli.console import Rows, instant, instant_json

_TEXTS = ("backfill_id", "dag_id", "state", "reason", "reprocess")
_COUNTS = ("total", "position", "succeeded", "failed", "cancelled", "passed", "max_active_runs")
_INSTANTS = ("start", "end", "created_at", "ended_at")


def backfill_json(row: Backfills) -> dict[str, Any]:
    """Return a backfill for programs."""
    return {
        **{name: getattr(row, name) for name in _TEXTS},
        "backwards": row.run_backwards,
        **{name: int(getattr(row, name)) for name in _COUNTS},
        "active": sorted(row.active or ()),
        "skipped_runs": row.skipped_runs or [],
        "conf": row.conf or {},
        "cost": row.cost,
        "max_cost": row.max_cost,
        "seconds_left": seconds_left(row) if row.state in OPEN else None,
        **{name: instant_json(getattr(row, name)) for name in _INSTANTS},
    }


def done(row: Backfills) -> int:
    """Return how many of its dates are over, with or without a run."""
    return finished(row) + int(row.passed)


def progress_of(row: Backfills) -> str:
    """Return how far it is, in words."""
    total = int(row.total)
    share = 100 * done(row) // total
    parts = [
        f"{done(row):,} of {total:,} ({share}%)",
        f"{len(row.active or ())} running" if row.active else "",
        f"{row.failed:.0f} failed" if row.failed else "",
        f"{row.cancelled:.0f} cancelled" if row.cancelled else "",
        f"{row.passed:.0f} had a run by then" if row.passed else "",
        cost_of(row),
        rest_of(row),
    ]
    return ", ".join(part for part in parts if part)


def cost_of(row: Backfills) -> str:
    """Return what it has cost, and what it may."""
    if row.cost is None:
        return ""
    return f"${row.cost:,.2f}" + (f" of ${row.max_cost:,.2f}" if row.max_cost else "")


def rest_of(row: Backfills) -> str:
    """Return how long it may still take."""
    left = seconds_left(row) if row.state in OPEN else None
    return f"about {console.duration(left)} left" if left else ""


def backfill_table(row: Backfills, zone: Zone | None) -> Table:
    """Return a backfill for people."""
    return console.facts(
        {
            "backfill": Text(row.backfill_id, "bold"),
            "DAG": row.dag_id,
            "state": console.state(row.state),
            "reason": row.reason,
            "from": f"{instant(row.start, zone)}, included",
            "to": f"{instant(row.end, zone)}, not included",
            "reprocess": row.reprocess,
            "order": "newest first" if row.run_backwards else "oldest first",
            "at a time": f"{row.max_active_runs:.0f}",
            "progress": progress_of(row),
            "under way": ", ".join(sorted(row.active or ())),
            "created": instant(row.created_at, zone),
            "ended": instant(row.ended_at, zone),
        }
    )


def backfills_table(rows: Sequence[Backfills]) -> Rows:
    """Return several backfills for people, one below the other."""
    table = Rows("backfill", "state", "from", "to (not included)", "progress")
    for row in rows:
        table.add(
            row.backfill_id,
            console.state(row.state),
            instant(row.start),
            instant(row.end),
            progress_of(row),
        )
    return table
