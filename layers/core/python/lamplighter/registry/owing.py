"""What a push would change for each DAG, told before it acts: next runs, debts, lost events."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pendulum import DateTime

from lamplighter import clock
from lamplighter.bundles.check import CheckedDag
from lamplighter.bundles.sandbox import coming_runs_of
from lamplighter.dags.owed import STOP_COUNTING_AT
from lamplighter.registry.authors import question, read_answer
from lamplighter.registry.definition import (
    Definition,
    Source,
    ask_schedule,
    define,
    new_row,
    owed_of,
)
from lamplighter.registry.reading import read_definition
from lamplighter.registry.references import compile_condition
from lamplighter.scheduler.pending import ids_of, pending_of, waited_for
from lamplighter.store.models import Dags
from lamplighter.store.transactions import read_dags

if TYPE_CHECKING:
    from lamplighter.bundles.following import Question

_NO_SOURCE = Source("", "", 0)


@dataclass(frozen=True)
class DagChange:
    """What a push would change for one DAG, as far as its schedule goes."""

    dag_id: str
    # In the author's words; None if there is no such DAG before, or after.
    schedule_before: str | None
    schedule_after: str | None
    # When its next run may be created, if time decides about it.
    next_before: DateTime | None = None
    next_after: DateTime | None = None
    # Runs that are due by then, and created as slots allow.
    owed: int = 0
    # Events that wait for it, of assets that it will not wait for any more.
    dropped_events: int = 0

    @property
    def is_new(self) -> bool:
        """Whether there was no such DAG."""
        return self.schedule_before is None

    @property
    def is_none(self) -> bool:
        """Whether all stays as it was: an author's timetable was asked, and said the same."""
        before = (self.schedule_before, self.next_before)
        return before == (self.schedule_after, self.next_after) and not self.dropped_events

    @property
    def is_leaving(self) -> bool:
        """Whether there will be no such DAG."""
        return self.schedule_after is None


@dataclass(frozen=True)
class _Asked:
    """A DAG whose schedule is new or changed, and its row as the push would have it."""

    definition: Definition
    before: Dags | None
    row: Dags
    dropped_events: int


def changes_of_push(
    root: Path, dags: Sequence[CheckedDag], *, bundle: str | None = None
) -> list[DagChange]:
    """Return what a push would change: DAGs whose schedules are new, changed, or leave the bundle.

    The author's own timetables are asked here, in forks: it is the author's machine.
    """
    now = clock.now()
    asked = _asked(dags, now)
    questions: list[Question] = [
        question(one.row.dag_id, one.definition.file, one.before, now=now)
        for one in asked
        if one.definition.is_custom
    ]
    said = {answer["dag_id"]: answer for answer in coming_runs_of(root, questions)}
    found = []
    for one in asked:
        row, before = one.row, one.before
        if one.definition.is_custom:
            answer = read_answer(said[row.dag_id])
            then, owed = next((info.run_after for info in answer.runs), None), answer.owed
        else:
            ask_schedule(row, now=now)
            then, owed = row.next_run_after, owed_of(row, now=now, stop_at=STOP_COUNTING_AT)
        found.append(
            DagChange(
                row.dag_id,
                None if before is None else before.schedule,
                one.definition.schedule,
                None if before is None else before.next_run_after,
                then,
                owed,
                one.dropped_events,
            )
        )
    found += _leaving(bundle, {dag.dag_id for dag in dags}) if bundle else ()
    return sorted(found, key=lambda change: change.dag_id)


def owed_after_push(root: Path, dags: Sequence[CheckedDag]) -> dict[str, int]:
    """Return the number of owed runs of each DAG whose schedule is new or changed."""
    return {change.dag_id: change.owed for change in changes_of_push(root, dags) if change.owed}


def _asked(dags: Sequence[CheckedDag], now: DateTime) -> list[_Asked]:
    rows = {row.dag_id: row for row in read_dags(dag.dag_id for dag in dags)}
    dropped = dict(_dropped(rows.values(), dags))
    found = []
    for each in dags:
        definition = read_definition(each)
        stored = rows.get(each.dag_id)
        before = None if stored is None else stored.as_stored()
        row = new_row(definition) if stored is None else stored
        is_changed = define(row, definition, row.asset_condition, _NO_SOURCE, now=now)
        lost = dropped.get(each.dag_id, 0)
        if is_changed or lost:
            found.append(_Asked(definition, before, row, lost))
    return found


def _dropped(rows: Iterable[Dags], dags: Sequence[CheckedDag]) -> Iterator[tuple[str, int]]:
    """Yield the DAGs that will not wait any more for assets of which events wait for them."""
    wanted = {
        dag.dag_id: set(
            ids_of(compile_condition(read_definition(dag).dag.timetable.asset_condition))
        )
        for dag in dags
    }
    losing = [row for row in rows if waited_for(row) - wanted[row.dag_id]]
    for dag_id, pending in (pending_of(losing) if losing else {}).items():
        ranges = (
            found.sequences
            for asset, found in pending.events.items()
            if asset not in wanted[dag_id]
        )
        count = sum(last - consumed for consumed, last in ranges)
        if count:
            yield dag_id, count


def _leaving(bundle: str, staying: set[str]) -> Iterator[DagChange]:
    gone = {row.dag_id for row in Dags.by_file.query(bundle)} - staying
    for row in read_dags(gone):
        if row.bundle == bundle and not row.is_stale:
            yield DagChange(row.dag_id, row.schedule, None, row.next_run_after)
