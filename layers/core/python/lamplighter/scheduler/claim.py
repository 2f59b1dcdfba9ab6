"""Claims due DAGs: moves each schedule on and creates its runs in one transaction.

Owns: which due times become runs, exactly once. Refuses: deciding what is due, starting anything.
DAG ids are hints from an index that lags or a message that may be old; the row decides. Losing a
race for a row is normal and never an error.
"""

import logging
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import TypeAlias

from pendulum import DateTime

from lamplighter import clock, queues, settings
from lamplighter.errors import (
    UNREADABLE,
    MalformedRowError,
    PermanentError,
    TransientError,
    in_short,
)
from lamplighter.scheduler import cursor, schedules
from lamplighter.scheduler.claim_decision import (
    BACKING_OFF,
    MAX_RUNS,
    ClaimDecision,
    Skipped,
    decide_claim,
    note_condition,
    step_over,
)
from lamplighter.scheduler.pending import PendingEvents, pending_of
from lamplighter.scheduler.schedules import PrecomputedRuns, PrecomputedRunsExhausted, RunSource
from lamplighter.store.dags import note_failed_claim, read_dags
from lamplighter.store.models import Dags, Runs
from lamplighter.store.rows import Malformed
from lamplighter.store.runs import log_move
from lamplighter.store.slots import announcement, run_of
from lamplighter.store.transactions import (
    CancellationReason,
    Cause,
    TransactionCanceled,
    pack,
    retry_attempts,
    transact,
)

log = logging.getLogger(__name__)

_Decide: TypeAlias = Callable[[Dags, RunSource | None, PendingEvents], ClaimDecision | Skipped]

# The clock is read again after this many DAGs.
_AT_ONCE = 500
# Clocks differ: a message that arrives up to this much too early waits.
_PATIENCE_SECONDS = 1.0


@dataclass
class ClaimReport:
    """What the claims of some DAGs did."""

    considered: int = 0  # DAGs whose rows were read.
    claimed_dags: int = 0  # DAGs that got runs.
    claimed_runs: int = 0  # Runs that were created.
    released_runs: int = 0  # Waiting runs that got a slot.
    lost_claims: int = 0  # Claims that another invocation had made before.
    skipped: Counter[str] = field(default_factory=Counter)  # DAGs without a claim, by reason.
    # DAGs whose rows kept changing; try again soon.
    contended_dags: set[str] = field(default_factory=set)
    failed: int = 0  # Claims that failed, with an error in the log.
    # Rows with content that no version of this library writes.
    malformed_rows: int = 0
    # DAGs that were not claimed: contended, failed, unreadable, or out of time. The caller must
    # claim them again.
    unclaimed: set[str] = field(default_factory=set)
    # For each DAG without a backlog: from the due time of its newest run to its creation.
    lateness_seconds: list[float] = field(default_factory=list)

    def add(self, other: "ClaimReport") -> None:
        """Add the counts of another report."""
        for each in fields(other):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            setattr(self, each.name, mine | theirs if isinstance(mine, set) else mine + theirs)


def claim_all(
    dag_ids: Iterable[str], *, has_time: Callable[[], bool] = lambda: True, sends_rest: bool = True
) -> ClaimReport:
    """Create every run that is due among the named DAGs, each exactly once.

    Every DAG has its turn before any backlog continues. Whatever is left when time is up is sent as
    messages; without `sends_rest`, DAGs that had no turn are only reported.
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
    """Claim each DAG once, `limit` runs at most; return also the DAGs that have more."""
    malformed: list[Malformed] = []
    rows = read_dags(dag_ids, malformed=malformed)
    _wait_for_the_second(rows)
    this = _Claim(limit, schedules.precomputed_runs_of(rows))
    this.skip(malformed)
    pending = pending_of(rows)
    this.report.considered = len(rows)
    found = (this.decide(row, pending.get(row.dag_id)) for row in rows)
    decisions = [decision for decision in found if decision is not None]
    # After each bulk: if this call ends early, follow-ups of committed claims are already sent.
    unfinished = this.tell()
    for bulk in _bulks(decisions):
        this.commit(bulk)
        unfinished += this.tell()
    return this.report, unfinished


def _wait_for_the_second(rows: Sequence[Dags]) -> None:
    now = clock.now()
    instants = [row.next_run_create_after for row in rows if row.next_run_create_after is not None]
    ahead = [(instant - now).total_seconds() for instant in instants]
    if short := [seconds for seconds in ahead if 0 < seconds <= _PATIENCE_SECONDS]:
        clock.sleep(max(short))


def _bulks(decisions: Sequence[ClaimDecision]) -> Iterator[list[ClaimDecision]]:
    return pack(decisions, (lambda decision: decision.size, settings.current().transaction_actions))


@dataclass
class _Claim:
    """One call of `claim`: what it has read and done so far."""

    limit: int
    precomputed: dict[str, PrecomputedRuns]
    now: DateTime = field(default_factory=clock.now)
    # Identifies this call's own writes after a lost response.
    claim_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    report: ClaimReport = field(default_factory=ClaimReport)
    won: list[ClaimDecision] = field(default_factory=list)
    refills: list[str] = field(default_factory=list)
    # By DAG, learned from refused commits: keys of runs that exist, and entries of `waiting` whose
    # runs need no slot any more. A decision that forgot one would be refused again.
    taken: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    over: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def skip(self, malformed: Iterable[Malformed]) -> None:
        """Mark and count malformed rows; the other DAGs go on."""
        for (dag_id,), problem in malformed:
            self.report.malformed_rows += 1
            self._give_up(dag_id, problem)

    def decide(self, row: Dags, pending: PendingEvents | None) -> ClaimDecision | None:
        """Return what to do with a DAG, or count why there is nothing to do."""
        decision = self._try(self._decide, row, pending)
        if isinstance(decision, Skipped):
            self.report.skipped[decision.reason] += 1
            if decision.reason == BACKING_OFF:
                self.report.unclaimed.add(row.dag_id)
            return None
        return decision

    def _decide(
        self, row: Dags, run_source: RunSource | None, pending: PendingEvents
    ) -> ClaimDecision | Skipped:
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

    def _decide_again(
        self, row: Dags, run_source: RunSource | None, pending: PendingEvents
    ) -> ClaimDecision | Skipped:
        """Return what to do when runs already exist; always makes progress."""
        taken, over = self.taken[row.dag_id], self.over[row.dag_id]
        if taken or over:
            moved = step_over(
                row,
                run_source,
                taken=taken,
                over=over,
                now=self.now,
                claim_id=self.claim_id,
                pending=pending,
            )
            if isinstance(moved, ClaimDecision):
                return moved
        # If it is not the first that exists, the runs before it are still to be created.
        return self._decide(row, run_source, pending)

    def _try(
        self, decide: _Decide, row: Dags, pending: PendingEvents | None
    ) -> ClaimDecision | Skipped | None:
        """Return what `decide` returns; a schedule that fails affects no other DAG.

        Its own asset condition is still noted, and fires with the next claim.
        """
        if pending is None:
            self._give_up(row.dag_id, "its assets cannot be read", is_busy=True)
            return None
        # Without a next run it is not needed; the timetable may be the unreadable part.
        source: RunSource | None = None
        try:
            if row.next_run_after is not None:
                source = self.precomputed.get(row.dag_id) or cursor.timetable_runs(row)
            return _written(decide(row, source, pending))
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
        """Remove a DAG whose schedule fails from the index, and store the error on its row."""
        try:
            broken = row.as_stored()
            note_condition(broken, pending, self.now)
            broken.schedule_error = error
            cursor.set_next(broken, None)
            return _written(ClaimDecision(broken, self.claim_id, self.now, pending=pending))
        except UNREADABLE:  # the row as a whole is unreadable, not only its schedule
            self.report.malformed_rows += 1
            self._give_up(row.dag_id, error)
            return Skipped("malformed")

    # Committing.

    def commit(self, bulk: list[ClaimDecision], *, is_second: bool = False) -> None:
        """Commit decisions together; without those that conflict, the rest is tried again."""
        try:
            transact([write for decision in bulk for write in decision.writes])
        except TransactionCanceled as cancelled:
            again, alone = self._sort_out(bulk, cancelled)
        except (TransientError, PermanentError):
            # It may have been committed after all, or one is at fault: commit each alone.
            again, alone = [], bulk
        else:
            self.won += bulk
            return
        if is_second:
            again, alone = [], [*alone, *again]
        for part in _bulks(again):
            self.commit(part, is_second=True)
        for decision in alone:
            self._commit_alone(decision)

    def _sort_out(
        self, bulk: list[ClaimDecision], cancelled: TransactionCanceled
    ) -> tuple[list[ClaimDecision], list[ClaimDecision]]:
        """Return the decisions that may be tried together, and those whose rows are contended."""
        again: list[ClaimDecision] = []
        alone: list[ClaimDecision] = []
        reasons = iter(cancelled.reasons)
        for decision in bulk:
            own = [next(reasons) for _ in range(decision.size)]
            causes = {reason.cause for reason in own}
            if Cause.CONDITION_FAILED in causes:
                revised = self._learn(decision, own)
                again += [revised] if revised else []
            else:
                (alone if Cause.BUSY in causes else again).append(decision)
        return again, alone

    def _commit_alone(self, decision: ClaimDecision) -> None:
        for _ in retry_attempts():
            try:
                transact(decision.writes)
            except TransactionCanceled as cancelled:
                if any(reason.cause is Cause.CONDITION_FAILED for reason in cancelled.reasons):
                    revised = self._learn(decision, cancelled.reasons)
                    if revised is None:
                        return
                    decision = revised
            except TransientError:
                log.warning("claim failed; will retry", extra={"dag_id": decision.row.dag_id})
            except PermanentError as error:
                log.exception("claim failed", extra={"dag_id": decision.row.dag_id})
                self.report.malformed_rows += isinstance(error, MalformedRowError)
                self._give_up(decision.row.dag_id, str(error))
                return
            else:
                self.won.append(decision)
                return
        self._give_up(decision.row.dag_id, "its row or its runs kept changing", is_busy=True)

    def _give_up(self, dag_id: str, problem: str, *, is_busy: bool = False) -> None:
        """Leave a DAG to a later claim, and record the failure on its row."""
        self.report.unclaimed.add(dag_id)
        if is_busy:
            self.report.contended_dags.add(dag_id)
        else:
            self.report.failed += 1
        try:
            note_failed_claim(dag_id, in_short(problem), now=self.now)
        # A failure to record must not stop other claims.
        except (TransactionCanceled, TransientError, PermanentError) as error:
            about = {"dag_id": dag_id, "error": str(error)}
            log.warning("failed claim could not be recorded", extra=about)

    def _learn(
        self, decision: ClaimDecision, reasons: Sequence[CancellationReason]
    ) -> ClaimDecision | None:
        """Return a new decision for a DAG whose conditions did not hold, if there is more to do.

        Everything is read again: the schedule may have been pushed in the meantime.
        """
        dag = reasons[-1]
        refused = {
            key: reason.row
            for key, reason in zip(decision.keys, reasons, strict=False)
            if reason.cause is Cause.CONDITION_FAILED
        }
        # Runs first: if they are this claim's own, an earlier try was committed after all, which
        # is why the DAG's row has changed.
        if any(isinstance(run, Runs) and run.claim_id == self.claim_id for run in refused.values()):
            self.won.append(decision)
            return None
        row = decision.row.as_stored() if dag.cause is not Cause.CONDITION_FAILED else dag.row
        if row is None:  # the DAG was deleted
            self.report.lost_claims += 1
            return None
        created = {run.run_key for run in decision.runs}
        self.taken[row.dag_id] |= created & refused.keys()
        self.over[row.dag_id] |= {each for each in decision.released if run_of(each) in refused}
        self.precomputed.pop(row.dag_id, None)
        self.precomputed |= schedules.precomputed_runs_of([row])
        revised = self._try(self._decide_again, row, pending_of([row]).get(row.dag_id))
        if isinstance(revised, Skipped):
            self.report.lost_claims += 1
            return None
        return revised

    # Follow-ups.

    def tell(self) -> list[str]:
        """Send the follow-up messages; return the DAGs that have more to claim."""
        report = self.report
        unfinished: list[str] = []
        announced: list[tuple[str, DateTime]] = []
        submits: list[tuple[str, str]] = []
        for decision in self.won:
            row = decision.row
            report.claimed_dags += bool(decision.runs)
            report.claimed_runs += len(decision.runs)
            report.released_runs += len(decision.released)
            for run in decision.runs:
                log_move(run)
            if decision.runs and not decision.has_more:
                # Of the newest run: the age of a backlog says nothing about the scheduler.
                lateness = self.now.timestamp() - decision.runs[-1].run_after.timestamp()
                report.lateness_seconds.append(lateness)
            if row.is_paused and not row.stored.get("is_paused"):
                about = {"dag_id": row.dag_id, "reason": row.pause_reason}
                log.warning("DAG paused", extra=about)
            submits += [(row.dag_id, key) for key in decision.keys]
            if decision.has_more:
                unfinished.append(row.dag_id)
            else:
                announced += announcement(row)
            precomputed = self.precomputed.get(row.dag_id)
            if precomputed is not None and precomputed.is_short_after(cursor.position(row)):
                self.refills.append(row.dag_id)
        queues.send_submits(submits)
        queues.announce_due(announced)
        schedules.request_refill(self.refills)
        self.won, self.refills = [], []
        return unfinished


def _written(decision: ClaimDecision | Skipped) -> ClaimDecision | Skipped:
    """Build the writes of a decision now, so that errors in its row are raised here."""
    if isinstance(decision, ClaimDecision):
        _ = decision.writes
    return decision
