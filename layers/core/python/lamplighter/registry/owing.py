"""How many runs DAGs would owe if they were pushed now: told before, not after."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lamplighter import clock
from lamplighter.bundles.check import CheckedDag
from lamplighter.bundles.sandbox import coming_runs_of
from lamplighter.dags.owed import owed_runs
from lamplighter.loading import author_code_as_data
from lamplighter.registry.authors import question
from lamplighter.registry.definition import Definition, Source, define, new_row
from lamplighter.scheduler import cursor
from lamplighter.serialization import decode_dag
from lamplighter.store.transactions import read_dags

if TYPE_CHECKING:
    from lamplighter.bundles.following import Question

_NO_SOURCE = Source("", "", 0)


def owed_after_push(root: Path, dags: Sequence[CheckedDag]) -> dict[str, int]:
    """Return the number of owed runs of each DAG whose schedule is new or changed.

    The author's own timetables are asked here, in forks: it is the author's machine.
    """
    now = clock.now()
    rows = {row.dag_id: row for row in read_dags(dag.dag_id for dag in dags)}
    owed: dict[str, int] = {}
    questions: list[Question] = []
    for found in dags:
        with author_code_as_data():
            definition = Definition(
                decode_dag(found.document), found.document, found.hash, found.file
            )
        row = rows.get(found.dag_id) or new_row(definition)
        position = cursor.position(row)
        if definition.is_custom:
            questions.append(question(found.dag_id, found.file, row, now=now))
        elif define(row, definition, row.asset_condition, _NO_SOURCE, now=now):
            owed[found.dag_id] = owed_runs(definition.dag, position, at=now)
    owed |= {answer["dag_id"]: answer["owed"] for answer in coming_runs_of(root, questions)}
    return {dag_id: count for dag_id, count in owed.items() if count}
