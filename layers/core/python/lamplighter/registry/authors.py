"""What authors' timetables say, asked in the sandbox: the only place where they run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pendulum import DateTime

from lamplighter.bundles.following import LastRun, Question
from lamplighter.errors import DefinitionError
from lamplighter.registry.definition import Definition
from lamplighter.registry.sandbox import Sandbox
from lamplighter.scheduler import cursor, foretold
from lamplighter.scheduler.cursor import Foretold, NothingForetold
from lamplighter.store.models import Dags
from lamplighter.store.transactions import Put
from lamplighter.timetables.base import DagRunInfo
from lamplighter.zones import iso


@dataclass(frozen=True)
class Answer:
    """The coming runs of one DAG, or why its timetable could not say."""

    runs: list[dict[str, Any]]
    is_last: bool
    owed: int
    error: str | None

    def apply(self, row: Dags) -> Put:
        """Assign the next run to a DAG's row; return the write that stores the rest."""
        row.schedule_error = self.error
        try:
            outlook = Foretold(tuple(map(cursor.run_from_json, self.runs)), is_last=self.is_last)
            cursor.set_next(row, outlook.after(cursor.position(row), catchup=row.catchup))
        except NothingForetold:
            cursor.set_next(row, None)
        except (KeyError, TypeError, DefinitionError) as error:
            row.schedule_error = f"the sandbox foretold something that is no run: {error!r}"
            cursor.set_next(row, None)
        return foretold.replace(row.dag_id, row.version, self.runs, is_last=self.is_last)


def ask_authors(
    sandbox: Sandbox,
    definitions: Sequence[Definition],
    rows: Mapping[str, Dags],
    *,
    now: DateTime,
) -> dict[str, Answer]:
    """Return the answers for those of the DAGs that have a timetable of their author's."""
    questions = [
        question(item.dag.dag_id, item.file, rows.get(item.dag.dag_id), now=now)
        for item in definitions
        if item.is_custom
    ]
    return ask(sandbox, questions)


def question(dag_id: str, file: str, row: Dags | None, *, now: DateTime) -> Question:
    """Return what to ask about one DAG."""
    last = None if row is None else cursor.position(row)
    return Question(
        dag_id=dag_id,
        file=file,
        last=None if last is None else _as_json(last),
        count=foretold.COUNT,
        at=iso(now),
    )


def ask(sandbox: Sandbox, questions: Sequence[Question]) -> dict[str, Answer]:
    """Return the answers by DAG."""
    if not questions:
        return {}
    found = sandbox.coming_runs(questions)
    silent = {"runs": [], "is_last": True, "owed": 0, "error": "the sandbox gave no answer"}
    answers = {asked["dag_id"]: found.get(asked["dag_id"], silent) for asked in questions}
    return {
        dag_id: Answer(
            runs=list(answer["runs"]),
            is_last=bool(answer["is_last"]),
            owed=int(answer["owed"]),
            error=None if answer["error"] is None else str(answer["error"]),
        )
        for dag_id, answer in answers.items()
    }


def _as_json(last: DagRunInfo) -> LastRun:
    start, end = last.data_interval or (None, None)
    return LastRun(
        run_after=iso(last.run_after),
        data_interval_start=None if start is None else iso(start),
        data_interval_end=None if end is None else iso(end),
        partition_date=None,
        partition_key=None,
    )
