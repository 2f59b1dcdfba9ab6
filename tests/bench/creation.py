"""What it takes to create one timed run, for either scheduler.

Owns: the numbers both sides report. It is imported by two interpreters, so it needs only Python.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Creation:
    """The creation of many runs, `due` of each DAG: seconds and requests, divided by the runs.

    `requests` counts what the database is asked, by kind: SQL statements by their first word, or
    calls of an API by operation. `database_cpu` is the part of `cpu` that a database in the same
    process took; it is 0 where the database is another process.
    """

    due: int
    runs: int
    cpu: float
    database_cpu: float
    elapsed: float
    requests: dict[str, float]

    @property
    def own_cpu(self) -> float:
        """The scheduler's own seconds, without the work of its database."""
        return self.cpu - self.database_cpu
