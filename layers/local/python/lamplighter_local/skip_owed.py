"""Skips runs that are owed, as if all that was due before had been done.

For whoever looks at the coming days, or tries a bundle out: a DAG that started a year ago owes
thousands of runs.
"""

from collections.abc import Sequence

from lamplighter import clock
from lamplighter.registry.owed import skip_owed
from lamplighter.scheduler import cursor
from lamplighter.scheduler.cursor import is_owing
from lamplighter.store.dags import change_dag
from lamplighter.store.models import Dags
from lamplighter.store.transactions import Write
from lamplighter.timetables.base import DagRunInfo


def skip_owed_runs(dag_id: str) -> DagRunInfo | None:
    """Let the next run of a DAG be the first that is not due yet; return the one before it."""
    now = clock.now()
    position: DagRunInfo | None = None

    def change(row: Dags) -> Sequence[Write] | None:
        nonlocal position
        if not is_owing(row, now=now) or cursor.is_continuous(row):
            return None
        writes = skip_owed(row, now=now)
        position = cursor.position(row)
        return writes

    change_dag(dag_id, change)
    return position
