"""What a claim or a tick did, in numbers. Handlers turn it into metrics."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class ClaimReport:
    """What became of the DAGs that were named."""

    considered: int = 0
    claimed_dags: int = 0
    claimed_runs: int = 0
    released_runs: int = 0
    lost: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    # DAGs whose rows kept changing, which is worth another try in a moment.
    left_busy: set[str] = field(default_factory=set)
    failed: int = 0
    # Rows that hold what no version of this library writes.
    malformed: int = 0
    # The DAGs that were named and not dealt with: busy, failed, unreadable, or out of time. Whoever
    # named them must not forget them.
    unclaimed: set[str] = field(default_factory=set)
    # Of each DAG that is up to date: from when its newest run was due until it was created.
    lateness_seconds: list[float] = field(default_factory=list)

    def add(self, other: "ClaimReport") -> None:
        """Count in what another claim did."""
        self.considered += other.considered
        self.claimed_dags += other.claimed_dags
        self.claimed_runs += other.claimed_runs
        self.released_runs += other.released_runs
        self.lost += other.lost
        self.skipped += other.skipped
        self.left_busy |= other.left_busy
        self.failed += other.failed
        self.malformed += other.malformed
        self.unclaimed |= other.unclaimed
        self.lateness_seconds += other.lateness_seconds


@dataclass
class TickReport(ClaimReport):
    """What a tick did: its claims, and what it sent ahead."""

    sent_ahead: int = 0
    # The age of the oldest due time that the tick found.
    backlog_seconds: float = 0.0
