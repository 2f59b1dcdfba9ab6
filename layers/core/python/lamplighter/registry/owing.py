"""How many runs DAGs would owe if they were pushed now: told before, not after."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lamplighter import clock
from lamplighter.bundles.check import CheckedDag
from lamplighter.bundles.sandbox import coming_runs_of
from lamplighter.dags.owed import STOP_COUNTING_AT
from lamplighter.registry.authors import question
from lamplighter.registry.definition import Source, ask_schedule, define, new_row, owed_of
from lamplighter.registry.reading import read_definition
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
        definition = read_definition(found)
        row = rows.get(found.dag_id) or new_row(definition)
        if definition.is_custom:
            questions.append(question(found.dag_id, found.file, row, now=now))
        elif define(row, definition, row.asset_condition, _NO_SOURCE, now=now):
            ask_schedule(row, now=now)
            owed[found.dag_id] = owed_of(row, now=now, stop_at=STOP_COUNTING_AT)
    owed |= {answer["dag_id"]: answer["owed"] for answer in coming_runs_of(root, questions)}
    return {dag_id: count for dag_id, count in owed.items() if count}
