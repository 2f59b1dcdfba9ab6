"""What authors' timetables said in the sandbox about the coming runs of their DAGs.

Owns: the Catalog rows of kind `runs`. The claim reads them instead of running author code.
"""

from collections.abc import Iterable
from typing import Any

from lamplighter import clock
from lamplighter.scheduler.cursor import Foretold, Outlook, run_from_json
from lamplighter.store.models import Catalog, Dags
from lamplighter.store.transactions import Put

KIND = "runs"
COUNT = 64


def outlooks_of(rows: Iterable[Dags]) -> dict[str, Outlook]:
    """Return what is foretold for each of the DAGs that have an author's timetable."""
    versions = {row.dag_id: row.version for row in rows if row.is_custom}
    outlooks: dict[str, Outlook] = {dag_id: Foretold((), is_last=False) for dag_id in versions}
    if versions:
        for found in Catalog.batch_get(
            [(KIND, dag_id) for dag_id in versions], consistent_read=True
        ):
            # Written for another definition: what it says about this one is unknown.
            if found.version == versions[found.id]:
                runs = tuple(run_from_json(run) for run in found.runs)
                outlooks[found.id] = Foretold(runs, is_last=bool(found.is_last))
    return outlooks


def replace(dag_id: str, version: str, runs: list[dict[str, Any]], *, is_last: bool) -> Put:
    """Return the write that replaces what is foretold for a DAG."""
    row = Catalog(KIND, dag_id, version=version, runs=runs, is_last=is_last, updated_at=clock.now())
    return Put(row, may_replace=True)
