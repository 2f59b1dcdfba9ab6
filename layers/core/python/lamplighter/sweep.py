"""Finds whatever a crash or a lost message left behind, and does it again.

Owns: the order of the search, and that one kind of trouble does not keep it from the others.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from lamplighter.backfill.advance import sweep_backfills
from lamplighter.events.fan_out import sweep_open
from lamplighter.registry.pushes import sweep_pushes
from lamplighter.runs.advance import sweep_runs
from lamplighter.runs.decision import RunsReport
from lamplighter.runs.outlets import sweep_outlets

log = logging.getLogger(__name__)


@dataclass
class SweepReport(RunsReport):
    """What was found, and what became of the runs that were."""

    claimed_runs: int = 0
    resent_events: int = 0
    resent_pushes: int = 0
    woken_runs: int = 0
    backfill_runs: int = 0
    failed_searches: int = 0


def sweep(*, has_time: Callable[[], bool]) -> SweepReport:
    """Hand on events and pushes that reached nobody; move runs and backfills nobody has moved."""
    report = SweepReport()

    def search_assets() -> None:
        found = sweep_open(has_time=has_time)
        report.claimed_runs = found.claimed_runs
        report.failed_searches += found.failed

    def search_outlets() -> None:
        report.resent_events = sweep_outlets(has_time=has_time)

    def search_pushes() -> None:
        report.resent_pushes = sweep_pushes(has_time=has_time)

    def search_runs() -> None:
        for found in sweep_runs(has_time=has_time):
            report.add(found)
            report.woken_runs += 1

    def search_backfills() -> None:
        report.backfill_runs = sweep_backfills(has_time=has_time).backfill_runs

    searches = (search_assets, search_outlets, search_pushes, search_runs, search_backfills)
    for search in searches:
        try:
            search()
        except Exception:  # the next sweep tries again; the other searches must not wait for it
            log.exception("search failed", extra={"search": search.__name__})
            report.failed_searches += 1
    return report
