"""What authors' timetables say, asked in the sandbox: the only place where they run."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from pendulum import DateTime

from lamplighter import clock
from lamplighter.bundles.following import LastRun, Question
from lamplighter.errors import UNREADABLE, in_short
from lamplighter.registry.definition import Definition
from lamplighter.registry.sandbox import Sandbox
from lamplighter.scheduler import cursor, schedules
from lamplighter.scheduler.schedules import (
    PrecomputedRuns,
    PrecomputedRunsExhausted,
    run_as_json,
    run_from_json,
    schedule_in_force,
)
from lamplighter.store.models import Dags
from lamplighter.store.transactions import Put
from lamplighter.timetables.base import DagRunInfo
from lamplighter.zones import iso


@dataclass(frozen=True)
class Answer:
    """The coming runs of one DAG, or why its timetable could not say."""

    runs: tuple[DagRunInfo, ...] = ()
    is_last: bool = True
    owed: int = 0
    error: str | None = None

    def apply(self, row: Dags) -> Put:
        """Assign the next run to a DAG's row; return the write that stores the rest."""
        row.schedule_error = self.error
        schedule = schedule_in_force(row)
        run_source = PrecomputedRuns(self.runs, is_last=self.is_last or self.error is not None)
        # If the DAG has moved beyond all these runs meanwhile, it keeps its next run until the
        # claim, which finds nothing foretold, has the timetable asked again.
        with suppress(PrecomputedRunsExhausted):
            cursor.set_next(row, run_source.after(cursor.position(row), catchup=schedule.catchup))
        if self.error is None:
            cursor.switch_if_done(row, now=clock.now())
        runs = [run_as_json(info) for info in self.runs]
        return schedules.precomputed_runs_write(row.dag_id, schedule, runs, is_last=self.is_last)


def agree(old: PrecomputedRuns, new: Answer, row: Dags, *, now: DateTime) -> bool:
    """Return whether the code of a timetable, asked anew, gives the due runs that it gave before.

    What was not asked for before cannot differ. Without catchup only the newest counts, and if
    that was not asked for, it is taken to differ: then the old code is asked for it.
    """
    known = old.runs_after(cursor.position(row))
    before = [info for info in known if info.run_after <= now]
    after = [info for info in new.runs if info.run_after <= now]
    is_known = old.is_last or len(before) < len(known)
    if not row.catchup:
        return is_known and before[-1:] == after[-1:]
    count = min(len(before), len(after))
    is_whole = is_known and len(after) < len(new.runs)
    return before[:count] == after[:count] and (len(before) == len(after) or not is_whole)


def read_answer(data: Any, *, limit: int = schedules.PRECOMPUTED_COUNT) -> Answer:
    """Return what the sandbox answered about a timetable; nonsense is an error of that DAG."""
    try:
        error = data["error"]
        return Answer(
            runs=tuple(run_from_json(run) for run in data["runs"][:limit]),
            is_last=bool(data["is_last"]),
            owed=int(data["owed"]),
            error=None if error is None else in_short(error),
        )
    except UNREADABLE as error:
        return Answer(error=in_short(f"the sandbox gave an answer that is none: {error!r}"))


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
        last=None
        if last is None
        else cast("LastRun", {**run_as_json(last), "partition_date": None}),
        count=schedules.PRECOMPUTED_COUNT,
        at=iso(now),
    )


def ask(sandbox: Sandbox, questions: Sequence[Question]) -> dict[str, Answer]:
    """Return the answers by DAG."""
    if not questions:
        return {}
    found = sandbox.coming_runs(questions)
    return {
        asked["dag_id"]: read_answer(found.get(asked["dag_id"], "no answer")) for asked in questions
    }
