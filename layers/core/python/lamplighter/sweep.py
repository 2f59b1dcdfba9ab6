"""Finds and repeats work that a crash or a lost message left behind.

Owns: the order of the searches. A search that fails does not stop the others.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lamplighter.backfill.advance import sweep_backfills
from lamplighter.events.fan_out import sweep_open
from lamplighter.registry.pushes import sweep_pushes
from lamplighter.runs.advance import sweep_limits, sweep_runs
from lamplighter.runs.decision import RunsReport
from lamplighter.runs.outlets import sweep_outlets

log = logging.getLogger(__name__)


@dataclass
class SweepReport(RunsReport):
    """What the sweep found, and how the runs among it advanced."""

    claimed_runs: int = 0  # Runs of assets that were open too long.
    resent_events: int = 0  # Events of outlets whose message was lost.
    resent_pushes: int = 0  # Pushes whose announcement was lost.
    woken_runs: int = 0  # Runs whose wake time had come.
    backfill_runs: int = 0  # Runs of backfills that were overdue.
    failed_searches: int = 0  # Searches that failed; the next sweep repeats them.


def sweep(*, has_time: Callable[[], bool]) -> SweepReport:
    """Resume events, pushes, runs and backfills that are overdue."""
    report = SweepReport()

    @contextmanager
    def search(name: str) -> Iterator[None]:
        try:
            yield
        except Exception:  # the next sweep retries; the other searches go on
            log.exception("search failed", extra={"search": name})
            report.failed_searches += 1

    with search("assets"):
        found = sweep_open(has_time=has_time)
        report.claimed_runs = found.claimed_runs
        report.failed_searches += found.failed
    with search("outlets"):
        report.resent_events = sweep_outlets(has_time=has_time)
    with search("pushes"):
        report.resent_pushes = sweep_pushes(has_time=has_time)
    with search("runs"):
        for moved in sweep_runs(has_time=has_time):
            report.add(moved)
            report.woken_runs += 1
    with search("limits"):
        sweep_limits()
    with search("backfills"):
        report.backfill_runs = sweep_backfills(has_time=has_time).backfill_runs
    return report
