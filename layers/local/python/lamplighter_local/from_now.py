"""Lets schedules begin at the present, as if all that was due before had been done.

For whoever looks at the coming days, or tries a bundle out: a DAG that started a year ago owes
thousands of runs.
"""

from collections.abc import Sequence

from pendulum import DateTime

from lamplighter import clock
from lamplighter.bundles.following import Question
from lamplighter.registry import authors
from lamplighter.registry.sandbox import Sandbox
from lamplighter.scheduler import cursor
from lamplighter.store.models import Dags
from lamplighter.store.transactions import Write, change_dag
from lamplighter.timetables.base import DagRunInfo

# So much of what an author's timetable owes is walked through.
_RUNS_AT_ONCE, _MAX_ANSWERS = 5_000, 20


def begin_now(dag_id: str) -> DagRunInfo | None:
    """Let the next run of a DAG be the first that is not due yet; return the one before it."""
    now = clock.now()
    position: DagRunInfo | None = None

    def change(row: Dags) -> Sequence[Write] | None:
        nonlocal position
        stored = cursor.stored_next(row)
        if stored is None or stored.run_after > now or cursor.is_continuous(row):
            return None
        if row.is_custom:
            writes = _skip_foretold(row, now)
        else:
            newest = cursor.newest_due(cursor.rule_of(row), stored, now=now)
            cursor.set_position(row, newest)
            cursor.set_next(row, cursor.rule_of(row).after(newest, catchup=True))
            writes = []
        position = cursor.position(row)
        return writes

    change_dag(dag_id, change)
    return position


def _skip_foretold(row: Dags, now: DateTime) -> Sequence[Write]:
    """Ask an author's timetable on and on, until it speaks of the future."""
    sandbox, file = Sandbox(row.bundle, row.bundle_version), row.place.rpartition("#")[0]
    asked = authors.question(row.dag_id, file, row, now=now)
    for _ in range(_MAX_ANSWERS):
        many = Question(**{**asked, "count": _RUNS_AT_ONCE})
        said = authors.read_answer(sandbox.coming_runs([many])[row.dag_id], most=_RUNS_AT_ONCE)
        due = [info for info in said.runs if info.run_after <= now]
        if due:
            cursor.set_position(row, due[-1])
            asked = authors.question(row.dag_id, file, row, now=now)
        if len(due) < len(said.runs) or not due:
            break
    return [authors.ask(sandbox, [asked])[row.dag_id].apply(row)]
