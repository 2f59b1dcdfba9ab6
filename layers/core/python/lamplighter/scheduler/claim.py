"""Claims due DAGs: moves each schedule on and creates its runs in one transaction.

Owns: which due times become runs, exactly once. Refuses: deciding what is due, starting anything.
DAG ids are hints, from an index that lags or a message that may be old; the row decides. Whoever
finds it changed has lost, which is normal and never an error.
"""

import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pendulum import DateTime

from lamplighter import clock, queues, settings
from lamplighter.errors import (
    UNREADABLE,
    MalformedRowError,
    PermanentError,
    TransientError,
    in_short,
)
from lamplighter.scheduler import cursor
from lamplighter.scheduler import schedules
from lamplighter.scheduler.cursor import PrecomputedRuns, PrecomputedRunsExhausted, RunSource
from lamplighter.scheduler.pending import PendingEvents, pending_of
from lamplighter.scheduler.claim_decision import (
    BACKING_OFF,
    MAX_RUNS,
    ClaimDecision,
    Skipped,
    note_condition,
    decide_claim,
    step_over,
)
from lamplighter.scheduler.report import ClaimReport
from lamplighter.store.due import announcement, run_of
from lamplighter.store.models import Dags, Runs
from lamplighter.store.rows import Malformed
from lamplighter.store.runs import log_move
from lamplighter.store.dags import read_dags
from lamplighter.store.transactions import (
    TransactionCanceled,
    CancellationReason,
    Update,
    Cause,
    pack,
    retry_attempts,
    
    transact,
)

log = logging.getLogger(__name__)

# So many DAGs are read and claimed before the clock is looked at again.
_AT_ONCE = 500
# The clocks of two machines differ: a message may come this much too early, and waits.
_PATIENCE_SECONDS = 1.0


def claim_all(
    dag_ids: Iterable[str],
    *,
    has_time: Callable[[], bool] = lambda: True,
    sends_rest: bool = True,
) -> ClaimReport:
    """Create every run that is due among the named DAGs, each exactly once.

    Every DAG has its turn before one with a backlog has its second. What is left when time is up is
    sent on as messages; without `sends_rest`, DAGs that had no turn are only reported.
    """
    report = ClaimReport()
    todo, limit = list(dict.fromkeys(dag_ids)), 1
    later: list[str] = []
    while todo:
        some, todo = todo[:_AT_ONCE], todo[_AT_ONCE:]
        more, left = claim(some, limit=limit)
        report.add(more)
        later += left
        if not has_time():
            break
        if not todo:
            todo, later, limit = later, [], MAX_RUNS
    now = clock.now()
    rest = [*todo, *later] if sends_rest else later
    queues.send_claims((dag_id, now) for dag_id in rest)
    report.unclaimed |= set(todo)
    return report


def claim(dag_ids: Iterable[str], *, limit: int = MAX_RUNS) -> tuple[ClaimReport, list[str]]:
    """Claim each DAG once, at most so many runs of each; return also those that could have more."""
    malformed: list[Malformed] = []
    rows = read_dags(dag_ids, malformed=malformed)
    _wait_for_the_second(rows)
    this = _Claim(limit, schedules.precomputed_runs_of(rows))
    this.skip(malformed)
    pending = pending_of(rows)
    this.report.considered = len(rows)
    found = [this.plan(row, pending.get(row.dag_id)) for row in rows]
    plans = [plan for plan in found if plan is not None]
    # Told bulk by bulk: whatever ends this call early, what is committed has been handed on.
    unfinished = this.tell()
    for bulk in _bulks(plans):
        this.commit(bulk)
        unfinished += this.tell()
    return this.report, unfinished


def _wait_for_the_second(rows: Sequence[Dags]) -> None:
    now = clock.now()
    instants = [row.next_run_create_after for row in rows if row.next_run_create_after is not None]
    ahead = [(instant - now).total_seconds() for instant in instants if instant > now]
    short = [seconds for seconds in ahead if seconds <= _PATIENCE_SECONDS]
    if short:
        clock.sleep(max(short))


def _bulks(plans: Sequence[ClaimDecision]) -> Iterator[list[ClaimDecision]]:
    return pack(plans, (lambda plan: plan.size, settings.current().transaction_actions))


@dataclass
class _Claim:
    """One call of `claim`: what it knows, and what it has done so far."""

    limit: int
    outlooks: dict[str, RunSource]
    now: DateTime = field(default_factory=clock.now)
    # How this call knows its own work again after an answer was lost.
    claim_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    report: ClaimReport = field(default_factory=ClaimReport)
    won: list[ClaimDecision] = field(default_factory=list)
    refills: list[str] = field(default_factory=list)
    # By DAG, what refused commits have taught: keys of runs that exist, and entries of `waiting`
    # whose runs need no slot any more. A replan that forgot one would try it again, and so on.
    taken: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    over: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def skip(self, malformed: Iterable[Malformed]) -> None:
        """Mark and count rows that cannot be read; nobody else is held up by them."""
        for (dag_id,), problem in malformed:
            self.report.malformed += 1
            self._give_up(dag_id, problem)

    def plan(self, row: Dags, pending: PendingEvents | None) -> ClaimDecision | None:
        """Return what to do with a DAG, or count why there is nothing to do."""
        if pending is None:
            self._give_up(row.dag_id, "its assets cannot be read", is_busy=True)
            return None
        plan = self._try(lambda run_source: self._plan(row, run_source, pending), row, pending)
        if isinstance(plan, Skipped):
            self.report.skipped[plan.reason] += 1
            if plan.reason == BACKING_OFF:
                self.report.unclaimed.add(row.dag_id)
            return None
        return plan

    def _plan(self, row: Dags, run_source: RunSource | None, pending: PendingEvents) -> ClaimDecision | Skipped:
        room = settings.current().transaction_actions - len(pending.assets) - 1
        return decide_claim(
            row,
            run_source,
            now=self.now,
            claim_id=self.claim_id,
            limit=max(1, min(self.limit, room)),
            pending=pending,
            taken=self.taken[row.dag_id],
        )

    def _replan(self, row: Dags, run_source: RunSource | None, pending: PendingEvents) -> ClaimDecision | Skipped:
        """Return what to do when runs stood in the way; it always gets the DAG on."""
        taken, over = self.taken[row.dag_id], self.over[row.dag_id]
        if not taken and not over:
            return self._plan(row, run_source, pending)
        moved = step_over(
            row,
            run_source,
            taken=taken,
            over=over,
            now=self.now,
            claim_id=self.claim_id,
            pending=pending,
        )
        # If it is not the first that exists, those before it do not, and are created.
        return self._plan(row, run_source, pending) if isinstance(moved, Skipped) else moved

    def _try(
        self, plan: Callable[[RunSource | None], ClaimDecision | Skipped], row: Dags, pending: PendingEvents
    ) -> ClaimDecision | Skipped:
        """Return what `plan` says; a schedule that cannot answer holds up nobody else.

        Nor does it hold up its own asset condition: that is noted, and fires with the next claim.
        """
        try:
            return _written(plan(self._outlook(row)))
        except PrecomputedRunsExhausted:
            self.refills.append(row.dag_id)
            waiting = row.as_stored()
            if note_condition(waiting, pending, self.now):
                return ClaimDecision(waiting, self.claim_id, self.now, pending=pending)
            return Skipped("waits for its timetable")
        except UNREADABLE as error:
            log.exception("DAG cannot be claimed", extra={"dag_id": row.dag_id})
            return self._note_error(row, pending, in_short(error))

    def _note_error(self, row: Dags, pending: PendingEvents, error: str) -> ClaimDecision | Skipped:
        """Return the plan that takes a DAG whose schedule fails out of the index, and says why."""
        try:
            broken = row.as_stored()
            note_condition(broken, pending, self.now)
            broken.schedule_error = error
            cursor.set_next(broken, None)
            return _written(ClaimDecision(broken, self.claim_id, self.now, pending=pending))
        except UNREADABLE:  # not only its schedule: nothing can be made of the row
            self.report.malformed += 1
            self._give_up(row.dag_id, error)
            return Skipped("malformed")

    def _outlook(self, row: Dags) -> RunSource | None:
        if row.next_run_after is None:
            return None  # nothing is asked; its timetable may be the one that could not be read
        return self.outlooks.get(row.dag_id) or cursor.timetable_runs(row)

    # Committing.

    def commit(self, bulk: list[ClaimDecision], *, is_second: bool = False) -> None:
        """Commit plans together. Whoever stands in the way is taken out, and the rest go again."""
        try:
            transact([write for plan in bulk for write in plan.writes])
        except TransactionCanceled as cancelled:
            again, alone = self._sort_out(bulk, cancelled)
        except (TransientError, PermanentError):
            # It may have been committed all the same, or one of them is at fault: each finds out.
            again, alone = [], bulk
        else:
            self.won += bulk
            return
        if is_second:
            again, alone = [], [*alone, *again]
        for part in _bulks(again):
            self.commit(part, is_second=True)
        for plan in alone:
            self._commit_alone(plan)

    def _sort_out(self, bulk: list[ClaimDecision], cancelled: TransactionCanceled) -> tuple[list[ClaimDecision], list[ClaimDecision]]:
        """Return the plans that may go again together, and those whose rows are busy."""
        again: list[ClaimDecision] = []
        alone: list[ClaimDecision] = []
        reasons = iter(cancelled.reasons)
        for plan in bulk:
            own = [next(reasons) for _ in range(plan.size)]
            causes = {reason.cause for reason in own}
            if Cause.CONDITION_FAILED in causes:
                replanned = self._learn(plan, own)
                again += [replanned] if replanned else []
            else:
                (alone if Cause.BUSY in causes else again).append(plan)
        return again, alone

    def _commit_alone(self, plan: ClaimDecision) -> None:
        for _ in retry_attempts():
            try:
                transact(plan.writes)
            except TransactionCanceled as cancelled:
                if any(reason.cause is Cause.CONDITION_FAILED for reason in cancelled.reasons):
                    replanned = self._learn(plan, cancelled.reasons)
                    if replanned is None:
                        return
                    plan = replanned
            except TransientError:
                log.warning("claim is repeated", extra={"dag_id": plan.row.dag_id})
            except PermanentError as error:
                log.exception("claim is not possible", extra={"dag_id": plan.row.dag_id})
                self.report.malformed += isinstance(error, MalformedRowError)
                self._give_up(plan.row.dag_id, str(error))
                return
            else:
                self.won.append(plan)
                return
        self._give_up(plan.row.dag_id, "its row or its runs kept changing", is_busy=True)

    def _give_up(self, dag_id: str, problem: str, *, is_busy: bool = False) -> None:
        """Leave a DAG to a later claim, and note that this one got nowhere."""
        self.report.unclaimed.add(dag_id)
        if is_busy:
            self.report.left_busy.add(dag_id)
        else:
            self.report.failed += 1
        actions = [
            # Not `rev`: whoever is moving the row at this moment must not be held up by a note.
            Dags.claim_failures.set((Dags.claim_failures | 0) + 1),
            Dags.claim_failed_at.set(self.now),
            Dags.claim_error.set(in_short(problem)),
        ]
        try:
            # As a transaction, which does not read the row back: it may be malformed.
            transact([Update(Dags(dag_id), actions, Dags.dag_id.exists())])
        # A note that cannot be written must not keep others from their claims.
        except (TransactionCanceled, TransientError, PermanentError) as error:
            log.warning("failed claim was not noted: %s", error, extra={"dag_id": dag_id})

    def _learn(self, plan: ClaimDecision, reasons: Sequence[CancellationReason]) -> ClaimDecision | None:
        """Return what is left to do for a DAG whose conditions did not hold, if anything.

        All that the new plan uses is read again: the schedule may have been pushed anew.
        """
        dag = reasons[-1]
        refused = {
            key: reason.row
            for key, reason in zip(plan.keys, reasons, strict=False)
            if reason.cause is Cause.CONDITION_FAILED
        }
        # The runs first: if they are this claim's own, an earlier try was committed after all, and
        # then the DAG's row has moved because of it.
        if any(isinstance(run, Runs) and run.claim_id == self.claim_id for run in refused.values()):
            self.won.append(plan)
            return None
        row = plan.row.as_stored() if dag.cause is not Cause.CONDITION_FAILED else dag.row
        if row is None:  # the DAG is gone
            self.report.lost += 1
            return None
        created = {run.run_key for run in plan.runs}
        self.taken[row.dag_id] |= created & refused.keys()
        self.over[row.dag_id] |= {each for each in plan.released if run_of(each) in refused}
        self.outlooks.pop(row.dag_id, None)
        self.outlooks |= schedules.precomputed_runs_of([row])
        pending = pending_of([row]).get(row.dag_id)
        if pending is None:
            self._give_up(row.dag_id, "its assets cannot be read", is_busy=True)
            return None
        replanned = self._try(lambda run_source: self._replan(row, run_source, pending), row, pending)
        if isinstance(replanned, Skipped):
            self.report.lost += 1
            return None
        return replanned

    # Telling others.

    def tell(self) -> list[str]:
        """Send what follows from the claims; return the DAGs that could have more at once."""
        report = self.report
        unfinished: list[str] = []
        announced: list[tuple[str, DateTime]] = []
        submits: list[tuple[str, str]] = []
        for plan in self.won:
            row = plan.row
            report.claimed_dags += bool(plan.runs)
            report.claimed_runs += len(plan.runs)
            report.released_runs += len(plan.released)
            for run in plan.runs:
                log_move(run)
            if plan.runs and not plan.has_more:
                # Of the newest run: how late a backlog is says nothing about the scheduler.
                lateness = self.now.timestamp() - plan.runs[-1].run_after.timestamp()
                report.lateness_seconds.append(lateness)
            submits += [(row.dag_id, key) for key in plan.keys]
            if plan.has_more:
                unfinished.append(row.dag_id)
            else:
                announced += announcement(row)
            run_source = self.outlooks.get(row.dag_id)
            if isinstance(run_source, PrecomputedRuns) and run_source.is_short_after(cursor.position(row)):
                self.refills.append(row.dag_id)
        queues.send_submits(submits)
        queues.announce_due(announced)
        schedules.request_refill(self.refills)
        self.won, self.refills = [], []
        return unfinished


def _written(plan: ClaimDecision | Skipped) -> ClaimDecision | Skipped:
    """Return a plan whose writes have been made, so that what is wrong with its row shows here."""
    if isinstance(plan, ClaimDecision):
        _ = plan.writes
    return plan
