"""Lets a backfill create the runs that it has slots for, each exactly once.

Owns: the position among the planned dates. It moves in the transaction that creates the runs, and
only if nobody else has moved it; so whoever dies anywhere, or comes twice, changes nothing.
Refuses: waiting. A run that ends frees its slot in its own transaction and sends a message that
leads here; should that be lost, the row is in the due index, where the sweep finds it.
"""

import logging
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from pendulum import DateTime

from lamplighter import clock, queues, settings
from lamplighter.backfill.estimates import affordable
from lamplighter.backfill.plan import act_on, key_of, run_id_of
from lamplighter.errors import TransientError
from lamplighter.scheduler.schedules import run_from_json
from lamplighter.store import runs as run_rows
from lamplighter.store.backfills import (
    CANCELLED,
    PAUSED,
    RUNNING,
    awaits_bills,
    backfill_write,
    due_backfills,
    left,
    occupy,
    pass_over,
    planned_dates,
    read_backfill,
)
from lamplighter.store.dags import read_dag
from lamplighter.store.models import Backfills, Dags, Runs
from lamplighter.store.slots import is_open
from lamplighter.store.transactions import (
    Change,
    Put,
    TransactionCanceled,
    Write,
    retry_attempts,
    transact,
)

log = logging.getLogger(__name__)

# So many runs are created in one transaction, for others to have their turn.
_MAX_RUNS = 20


@dataclass
class AdvanceReport:
    """What became of the backfills that were named."""

    backfill_runs: int = 0  # Runs that backfills created or started again.
    passed_dates: int = 0  # Dates that needed no run.
    failed_backfills: int = 0  # Backfills that could not be advanced, and are retried.

    def add(self, other: "AdvanceReport") -> None:
        """Count in what another one did."""
        for each in fields(other):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


def advance_backfills(
    backfill_ids: Iterable[str], *, has_time: Callable[[], bool] = lambda: True
) -> AdvanceReport:
    """Let each backfill be as far as it can be now; what is left when time is up is sent on.

    Each has a turn of one transaction before any has its second.
    """
    report = AdvanceReport()
    todo = list(dict.fromkeys(backfill_ids))
    while todo and has_time():
        backfill_id = todo.pop(0)
        try:
            has_more = _advance(backfill_id, report)
        except Exception:  # the sweep tries again; the others must not wait for it
            log.exception("backfill could not be advanced", extra={"backfill_id": backfill_id})
            report.failed_backfills += 1
            continue
        if has_more:
            todo.append(backfill_id)
    queues.send_backfills(todo)
    return report


def sweep_backfills(*, has_time: Callable[[], bool]) -> AdvanceReport:
    """Let all backfills go on that have slots and more to do, and have had no news for a while."""
    until = clock.now().subtract(seconds=settings.current().resend_after_seconds)
    report = AdvanceReport()
    for shard in range(settings.current().run_shards):
        for backfill_id in list(due_backfills(shard, until)):
            report.add(advance_backfills([backfill_id], has_time=has_time))
            if not has_time():
                return report
    return report


def _advance(backfill_id: str, report: AdvanceReport) -> bool:
    """Move a backfill on by one transaction; return whether there may be more to do at once."""
    for _ in retry_attempts():
        row = read_backfill(backfill_id)
        if row is None or row.state != RUNNING:
            return False
        dag = read_dag(row.dag_id)
        if dag is not None and not is_open(dag):
            return False  # un-pausing sends a message; whatever else it is, the sweep looks again
        now = clock.now()
        decision = _decide(row, dag, now=now)
        if decision is None:
            return False
        try:
            transact([*decision.others, backfill_write(row, now=now)])
        except TransactionCanceled:
            continue  # it has moved, or a run has come between: all is read again
        for run in decision.runs:
            run_rows.log_move(run)
        queues.send_submits((run.dag_id, run.run_key) for run in decision.runs)
        report.backfill_runs += len(decision.runs)
        report.passed_dates += decision.passed
        return row.due_shard is not None and affordable(row) > 0
    raise TransientError(f"backfill {backfill_id!r} is contended; try again")


@dataclass
class _Decision:
    """What one transaction changes beside the backfill's row."""

    runs: list[Runs] = field(default_factory=list)
    others: list[Write] = field(default_factory=list)
    passed: int = 0


def _decide(row: Backfills, dag: Dags | None, *, now: DateTime) -> _Decision | None:
    """Assign what comes next; return None if nothing does."""
    decision = _Decision()
    if dag is None:
        row.state, row.ended_at = CANCELLED, now
        row.reason = f"DAG {row.dag_id!r} is gone"
        return decision
    if not left(row):
        return decision if row.active is None else None  # the write notes that it is over
    room = min(affordable(row), _MAX_RUNS, settings.current().transaction_actions - 1)
    if not room:
        # Bills that are still to come may leave room for more; the sweep looks again until then.
        if row.max_cost is None or row.active or awaits_bills(row, now):
            return None
        row.state, row.reason = PAUSED, _why_paused(row)
        return decision
    first = int(row.position)
    # No more than there is room for: few have a run by now, and each that is read costs.
    dates = [run_from_json(each) for each in planned_dates(row, first=first, limit=room)]
    keys = [(dag.dag_id, key_of(info)) for info in dates]
    existing = {run.run_key: run for run in run_rows.read_runs(keys)}
    passed: list[tuple[str, str]] = []
    for ordinal, info in enumerate(dates, start=first + 1):
        key = key_of(info)
        before = existing.get(key)
        act = act_on(None if before is None else before.state, row.reprocess)
        if act.needs_a_run:
            run = run_rows.new_run(
                dag,
                info,
                run_id=run_id_of(info),
                now=now,
                claim_id=uuid.uuid4().hex,
                run_type="backfill",
                triggered_by="backfill",
                conf=row.conf or None,
                backfill_id=row.backfill_id,
                backfill_ordinal=ordinal,
                slot_backfill_id=row.backfill_id,
            )
            decision.others.append(_begin(run, before))
            decision.runs.append(run)
        else:
            passed.append((key, act.value))
    row.position = first + len(dates)
    occupy(row, [run.run_key for run in decision.runs])
    pass_over(row, passed)
    decision.passed = len(passed)
    return decision


def _why_paused(row: Backfills) -> str:
    unbilled = f" and {row.unbilled_runs:.0f} runs of unknown cost" if row.unbilled_runs else ""
    return (
        f"it has spent ${row.cost or 0:.2f}{unbilled} of ${row.max_cost:.2f}, and the next run may"
        " cost more than is left"
    )


def _begin(run: Runs, before: Runs | None) -> Write:
    """Return the write that lets a run begin; one that was over begins anew, under its old id.

    It is a new run in all but its name: of the newest version, with steps and costs of its own. The
    names of its jobs, and which steps are its own, follow from when it was created.
    """
    if before is None:
        return Put(run)
    again = before.as_stored()
    fresh: dict[str, Any] = dict(run.attribute_values)
    fresh["run_id"] = before.run_id
    fresh["conf"] = run.conf or before.conf
    fresh["created_at"] = max(run.created_at, before.created_at.add(microseconds=1))
    for name in type(again).get_attributes():
        setattr(again, name, fresh.get(name))
    again.rev = before.rev + 1
    run.run_id = before.run_id
    return Change(again, ("rev", "state"))
