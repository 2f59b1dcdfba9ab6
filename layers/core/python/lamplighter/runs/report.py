"""What moving runs on did, in numbers. Handlers turn it into metrics."""

from dataclasses import dataclass, fields


@dataclass
class RunsReport:
    """What became of runs and their steps."""

    started_jobs: int = 0
    postponed_jobs: int = 0
    cancelled_jobs: int = 0
    succeeded_steps: int = 0
    failed_steps: int = 0
    retried_steps: int = 0
    skipped_steps: int = 0
    succeeded_runs: int = 0
    failed_runs: int = 0
    cancelled_runs: int = 0
    spark_dollars: float = 0.0

    def add(self, other: "RunsReport") -> None:
        """Count in what another one says."""
        for each in fields(other):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
