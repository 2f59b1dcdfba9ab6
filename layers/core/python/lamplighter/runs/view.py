"""A run with its steps, read together and written together.

Owns: the one lock of a run. Every decision about a run or its steps raises the run's `rev`, and is
written only if that is still what was read; whoever comes second reads again. So a decision is
always made from all that is true, and two steps that end at once cannot overlook each other.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from pendulum import DateTime

from lamplighter import clock
from lamplighter.dags.dag import DAG
from lamplighter.errors import PermanentError
from lamplighter.events.lineage import triggering_asset_events
from lamplighter.queues import RunName
from lamplighter.runs.states import LIVE, NONE, RUNNING
from lamplighter.store import slots
from lamplighter.store.backfills import backfill_write, read_backfill, read_backfills
from lamplighter.store.dags import dag_write, definition_of, read_dag, read_dags
from lamplighter.store.models import Backfills, Dags, Runs, Steps
from lamplighter.store.runs import read_run, read_runs, read_step, run_ref, runs_before, steps_of
from lamplighter.store.transactions import Change, Put, Write, transact

if TYPE_CHECKING:
    from lamplighter.store.rows import Malformed


def seconds_since(instant: DateTime | None, now: DateTime) -> float:
    """Return the seconds since an instant; none, if it is not known."""
    return 0.0 if instant is None else (now - instant).total_seconds()


class RunReader:
    """Reads what a decision may need beside its run's own rows, only when it is needed."""

    runs_before = staticmethod(runs_before)
    read_step = staticmethod(read_step)
    definition_of = staticmethod(definition_of)
    triggering_events = staticmethod(triggering_asset_events)


@dataclass
class RunView:
    """What is known of a run at one moment, and what has been assigned since."""

    run: Runs
    steps: dict[str, Steps]
    dag: DAG
    # Missing if the DAG was deleted while its run lived.
    row: Dags | None
    # Whose slot it occupies, if not one of its DAG's.
    backfill: Backfills | None = None
    puts: list[Put] = field(default_factory=list)
    reader: RunReader = field(default_factory=RunReader)

    @classmethod
    def read(cls, dag_id: str, run_key: str) -> Self | None:
        """Return a run as it is now, or None if there is no such run."""
        # Before its steps: a later change of them raises `rev`, which is then known as it was.
        run = read_run(dag_id, run_key)
        if run is None:
            return None
        backfill = None if run.slot_backfill_id is None else read_backfill(run.slot_backfill_id)
        return cls(run, steps_of(run), definition_of(run), read_dag(dag_id), backfill)

    @classmethod
    def read_all(cls, names: Iterable[RunName]) -> list[Self]:
        """Return the runs that can be read, in fewer calls than one by one."""
        malformed: list[Malformed] = []
        runs = read_runs(names, malformed=malformed)
        found = read_dags({run.dag_id for run in runs}, malformed=malformed)
        rows = {row.dag_id: row for row in found}
        unreadable = {key[0] for key, _ in malformed}
        backfills = read_backfills(
            run.slot_backfill_id for run in runs if run.slot_backfill_id is not None
        )
        views = []
        for run in runs:
            if run.dag_id in unreadable:
                continue  # read on its own, it raises what is wrong with it
            with suppress(PermanentError):  # likewise
                dag = definition_of(run)
                backfill = backfills.get(run.slot_backfill_id or "")
                # A copy for each: what one assigns must not look as if the others had read it.
                own = None if backfill is None else backfill.as_stored()
                row = rows[run.dag_id].as_stored() if run.dag_id in rows else None
                views.append(cls(run, steps_of(run), dag, row, own))
        return views

    @property
    def name(self) -> RunName:
        """The run, as messages name it."""
        return self.run.dag_id, self.run.run_key

    @property
    def live(self) -> list[Steps]:
        """The steps for which a job may be running."""
        return [step for step in self.steps.values() if step.state in LIVE]

    @property
    def holds_slot(self) -> bool:
        """Whether the run occupies one of its DAG's slots; without a DAG, none are counted."""
        row, run = self.row, self.run
        return row is None or slots.holds_slot(row, run.run_key, is_running=run.state == RUNNING)

    @property
    def has_given_back(self) -> bool:
        """Whether the run has given its slot back until the run before it is repaired."""
        return self.row is not None and slots.waits_for_past(self.row, self.run.run_key)

    def step(self, task_id: str) -> Steps:
        """Return the step of a task; it gets a row when it is written."""
        if task_id not in self.steps:
            self.steps[task_id] = Steps(
                run_ref(*self.name),
                task_id,
                state=NONE,
                run_created_at=self.run.created_at,
                submission=int(self.run.submission_floor or 0),
                max_try_number=self.dag.tasks[task_id].retries + 1,
            )
        return self.steps[task_id]

    @property
    def size(self) -> int:
        """How many writes the steps and their events need."""
        return len(self.puts) + sum(map(_is_changed, self.steps.values()))

    @property
    def is_changed(self) -> bool:
        """Whether something was assigned that is not written."""
        return bool(self.size) or self.run.is_changed or self.changes_shared_rows

    @property
    def changes_shared_rows(self) -> bool:
        """Whether a row was assigned to that other runs of the same DAG change too."""
        return any(row is not None and row.is_changed for row in (self.row, self.backfill))

    def commit(self) -> None:
        """Write all that was assigned; raise `TransactionCanceled` if the run has moved on."""
        transact(self.writes())

    def writes(self) -> list[Write]:
        """Return what was assigned as writes, which hold only if the run has not moved on."""
        steps = [_write_of(step) for step in self.steps.values() if _is_changed(step)]
        self.run.rev = self.run.stored["rev"] + 1
        writes: list[Write] = [*steps, *self.puts, Change(self.run, ("rev",))]
        if self.row is not None and self.row.is_changed:
            writes.append(dag_write(self.row))
        if self.backfill is not None and self.backfill.is_changed:
            writes.append(backfill_write(self.backfill, now=clock.now()))
        return writes


def _is_changed(step: Steps) -> bool:
    return step.is_changed if step.is_stored else step.state != NONE


def _write_of(step: Steps) -> Put | Change:
    # The run's number guards it; the submission is checked for a mistake of ours. A new one may
    # take the place of a step that has outlived its run.
    return Change(step, ("submission",)) if step.is_stored else Put(step, may_replace=True)
