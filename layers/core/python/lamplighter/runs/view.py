"""A run with its steps, read and written together.

Owns: the lock of a run. Every decision about a run or its steps raises the run's `rev` and is only
written if it is unchanged. So decisions are never based on stale rows, and two steps that end at
the same time cannot miss each other.
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
from lamplighter.runs.outputs import outputs_of
from lamplighter.runs.states import LIVE, NONE, RUNNING, SUBMITTED
from lamplighter.store import slots
from lamplighter.store.backfills import backfill_write, read_backfill, read_backfills
from lamplighter.store.catalog import read_variables
from lamplighter.store.dags import dag_write, definition_of, read_dag, read_dags
from lamplighter.store.limits import STARTS, Amounts, LimitChange
from lamplighter.store.models import Backfills, Dags, Runs, Steps
from lamplighter.store.runs import read_run, read_runs, read_step, run_ref, runs_before, steps_of
from lamplighter.store.transactions import Change, Put, Write, transact

if TYPE_CHECKING:
    from lamplighter.store.rows import Malformed


def seconds_since(instant: DateTime | None, now: DateTime) -> float:
    """Return the seconds since an instant; 0 if it is None."""
    return 0.0 if instant is None else (now - instant).total_seconds()


class RunReader:
    """Reads what a decision needs beside its run's own rows, on demand."""

    runs_before = staticmethod(runs_before)
    read_step = staticmethod(read_step)
    definition_of = staticmethod(definition_of)
    triggering_events = staticmethod(triggering_asset_events)
    read_backfill = staticmethod(read_backfill)
    variables = staticmethod(read_variables)
    outputs_of = staticmethod(outputs_of)


@dataclass
class RunView:
    """The rows of a run at one moment, and the changes since."""

    run: Runs
    steps: dict[str, Steps]
    dag: DAG
    # None if the DAG was deleted.
    row: Dags | None
    # The backfill whose slot it holds, if any.
    backfill: Backfills | None = None
    # The backfill whose slot it held, if late costs are added to it.
    past_backfill: Backfills | None = None
    puts: list[Put] = field(default_factory=list)
    # What steps lack that have to wait for a counter; None if others come first.
    waits: dict[str, Amounts | None] = field(default_factory=dict)
    # Tasks with a report that their job has not written.
    refused_reports: list[str] = field(default_factory=list)
    reader: RunReader = field(default_factory=RunReader)

    @classmethod
    def read(cls, dag_id: str, run_key: str) -> Self | None:
        """Return a run, or None if it does not exist."""
        # Before its steps: if they change afterwards, `rev` has changed too.
        run = read_run(dag_id, run_key)
        if run is None:
            return None
        backfill = None if run.slot_backfill_id is None else read_backfill(run.slot_backfill_id)
        return cls(run, steps_of(run), definition_of(run), read_dag(dag_id), backfill)

    @classmethod
    def read_all(cls, names: Iterable[RunName]) -> list[Self]:
        """Return the readable runs, in fewer calls than one by one."""
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
                continue  # its error is raised when it is read alone
            with suppress(PermanentError):  # likewise
                dag = definition_of(run)
                backfill = backfills.get(run.slot_backfill_id or "")
                # A copy each, so that changes of one run do not look stored to the others.
                own = None if backfill is None else backfill.as_stored()
                row = rows[run.dag_id].as_stored() if run.dag_id in rows else None
                views.append(cls(run, steps_of(run), dag, row, own))
        return views

    @property
    def name(self) -> RunName:
        """The name of the run in messages."""
        return self.run.dag_id, self.run.run_key

    @property
    def live(self) -> list[Steps]:
        """The steps that may have a running job."""
        return [step for step in self.steps.values() if step.state in LIVE]

    @property
    def holds_slot(self) -> bool:
        """Whether the run holds one of its DAG's slots; False without a DAG."""
        row, run = self.row, self.run
        return row is None or slots.holds_slot(row, run.run_key, is_running=run.state == RUNNING)

    @property
    def has_given_back(self) -> bool:
        """Whether the run gave its slot back until the previous run is repaired."""
        return self.row is not None and slots.waits_for_past(self.row, self.run.run_key)

    def step(self, task_id: str) -> Steps:
        """Return the step of a task; a new one is stored with the next commit."""
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

    def read_past_backfill(self, backfill_id: str) -> Backfills | None:
        """Return a backfill whose slot the run held; changes are written with those of the run."""
        if self.past_backfill is None:
            self.past_backfill = self.reader.read_backfill(backfill_id)
        return self.past_backfill

    @property
    def changed_backfills(self) -> list[Backfills]:
        """The backfills with changes to write."""
        found = (self.backfill, self.past_backfill)
        return [each for each in found if each is not None and each.is_changed]

    @property
    def size(self) -> int:
        """The number of writes for steps, their events and their limits."""
        changed = sum(map(_is_changed, self.steps.values()))
        return len(self.puts) + changed + len(self.limit_changes())

    @property
    def is_changed(self) -> bool:
        """Whether there are changes to write."""
        return bool(self.size) or self.run.is_changed or self.changes_shared_rows

    @property
    def changes_shared_rows(self) -> bool:
        """Whether rows change that other runs change too."""
        shared = (self.row, self.backfill, self.past_backfill)
        changed = any(row is not None and row.is_changed for row in shared)
        return changed or bool(self.limit_changes())

    def limit_changes(self) -> list[LimitChange]:
        """Return what the steps take from counters and give back."""
        changes: dict[str, LimitChange] = {}
        for step in self.steps.values():
            for held, sign in ((step.stored.get("holds"), -1), (step.holds, 1)):
                for limit_id, amounts in (held or {}).items():
                    change = changes.setdefault(limit_id, LimitChange(limit_id))
                    change.take(amounts, sign=sign)
        for limit_id, lacks in self.waits.items():
            change = changes.setdefault(limit_id, LimitChange(limit_id))
            change.has_to_wait, change.lacks = True, lacks
        return [change for change in changes.values() if change.is_change]

    def left_limits(self) -> set[str]:
        """Return the counters that steps waited for which do so no longer, and did not start."""
        return {
            before
            for step in self.steps.values()
            if (before := step.stored.get("waits_for")) is not None
            and before != step.waits_for
            and step.state != SUBMITTED
            and not before.startswith(STARTS)
        }

    def commit(self) -> None:
        """Write all changes; raise `TransactionCanceled` if the run has changed."""
        transact(self.writes())

    def writes(self) -> list[Write]:
        """Return the writes of all changes, conditional on the run's `rev`."""
        steps = [_write_of(step) for step in self.steps.values() if _is_changed(step)]
        self.run.rev = self.run.stored["rev"] + 1
        writes: list[Write] = [*steps, *self.puts, Change(self.run, ("rev",))]
        if self.row is not None and self.row.is_changed:
            writes.append(dag_write(self.row))
        now = clock.now()
        writes += [backfill_write(each, now=now) for each in self.changed_backfills]
        return [*writes, *(change.write(now) for change in self.limit_changes())]


def _is_changed(step: Steps) -> bool:
    return step.is_changed if step.is_stored else step.state != NONE


def _write_of(step: Steps) -> Put | Change:
    # `rev` guards it; checking the submission only detects bugs. A new step may replace one that
    # has outlived its run.
    return Change(step, ("submission",)) if step.is_stored else Put(step, may_replace=True)
