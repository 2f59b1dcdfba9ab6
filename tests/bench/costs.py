"""What something costs, for either scheduler: a timed run, an asset event.

Owns: the numbers both sides report, and the names they report them under. It is imported by two
interpreters, so it needs only Python.
"""

from dataclasses import dataclass

RECORD = "record an event and queue its consumer"
CREATE = "create the run of one event"
FIRE = "an event that makes a run of its own"
SHARE = "an event that shares a run"
WAIT = "wait for the other half of an AND"
IDLE = "a pass that finds nothing queued"
EXECUTE = "a run of one step, from queued to success"


@dataclass(frozen=True)
class Cost:
    """Something done `count` times: seconds and requests, each for one time.

    `requests` counts what the database is asked, by kind: SQL statements by their first word, or
    calls of an API by operation. `database_cpu` is the part of `cpu` that a database in the same
    process took; it is 0 where the database is another process.
    """

    name: str
    count: int
    cpu: float
    database_cpu: float
    elapsed: float
    requests: dict[str, float]

    @property
    def own_cpu(self) -> float:
        """The scheduler's own seconds, without the work of its database."""
        return self.cpu - self.database_cpu
