"""One of the processes of a storm: threads that tick, claim, finish, pause and trigger at random.

A program that `test_tickers` starts several of.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lamplighter.zones import parse_instant
from lamplighter_operations.trigger import create_manual_run
from tests.concurrency import turns


@dataclass(frozen=True)
class Storm(turns.Storm):
    """What one process is asked to do."""

    # For which dates of which DAGs to ask for a run; none is undated.
    manual: list[tuple[str, str | None]]


@dataclass
class Process(turns.Process[Storm]):
    """Everything that the threads of this process share."""

    def more_mischief(self) -> list[Callable[[], object]]:
        """Return the runs that people ask for."""
        return [
            partial(
                create_manual_run,
                dag_id,
                logical_date=None if date is None else parse_instant(date),
            )
            for dag_id, date in self.storm.manual
        ]


if __name__ == "__main__":
    turns.take_part(Storm, Process, turns.Thread[Process])
