"""Decides what a claim does with one DAG, from its row alone. Pure; `claim` commits it.

Owns: which candidates get a slot: a waiting run, a due time, an asset condition that is met. They
take turns. Refuses: reading or writing anything.
"""

from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any

from pendulum import DateTime

from lamplighter.errors import UNREADABLE, in_short
from lamplighter.identifiers import run_id, run_key
from lamplighter.scheduler import cursor
from lamplighter.scheduler.asset_bounds import (
    count_run,
    drop_out_of_bounds,
    in_time,
    pause_if_spent,
)
from lamplighter.scheduler.cursor import Due
from lamplighter.scheduler.pending import PendingEvents, is_met
from lamplighter.scheduler.schedules import RunSource, followed_until, schedule_in_force
from lamplighter.store import runs as run_rows
from lamplighter.store.dags import dag_write
from lamplighter.store.models import Dags, Runs
from lamplighter.store.rows import instant_text
from lamplighter.store.slots import (
    by_logical_date,
    free_slots,
    is_open,
    named_runs,
    occupy,
    remember_served,
    run_of,
    slots_for_schedule,
    stop_waiting,
)
from lamplighter.store.transactions import Change, Check, Put, Write
from lamplighter.timetables.base import DagRunInfo

# Runs of one DAG per transaction, so that other DAGs have their turn.
MAX_RUNS = 20
NO_EVENTS = PendingEvents()
# Kinds of candidates for a slot. Manual includes runs that were retried or cleared.
MANUAL, SCHEDULED, ASSET_TRIGGERED = "manual", "scheduled", "asset_triggered"
# After this many failed claims in a row, a DAG is skipped for a while, longer each time.
PATIENT_FAILURES = 3
_FIRST_BACK_OFF_SECONDS, _LONGEST_BACK_OFF_SECONDS = 60, 900
BACKING_OFF = "backing off after claims that failed"


@dataclass(frozen=True)
class Skipped:
    """Why a DAG gets nothing now."""

    reason: str


@dataclass
class ClaimDecision:
    """One DAG's part of a transaction."""

    row: Dags
    claim_id: str
    now: DateTime
    runs: list[Runs] = field(default_factory=list)
    # Entries of `waiting` that get a slot.
    released: list[str] = field(default_factory=list)
    pending: PendingEvents = field(default_factory=PendingEvents)
    is_consuming: bool = False
    # The writes that drop events outside the DAG's start and end date.
    drops: list[Change] = field(default_factory=list)

    def create(self, info: DagRunInfo, **columns: Any) -> None:
        """Create a run."""
        more = {"now": self.now, "claim_id": self.claim_id, **columns}
        self.runs.append(run_rows.new_run(self.row, info, **more))

    @property
    def size(self) -> int:
        """The number of write actions."""
        return len(self.runs) + len(self.released) + len(self._of_events()) + 1

    @cached_property
    def writes(self) -> list[Write]:
        """The writes: those of `keys` first, the DAG's row last."""
        released = [
            run_rows.release(self.row.dag_id, run_of(entry), now=self.now, claim_id=self.claim_id)
            for entry in self.released
        ]
        return [*map(Put, self.runs), *released, *self._of_events(), dag_write(self.row)]

    def _of_events(self) -> Sequence[Change | Check]:
        """Return the writes that drop or consume events, or check that there are still too few."""
        if self.drops:
            return self.drops
        if self.is_consuming:
            return [events.consume() for events in self.pending.events.values()]
        is_forgotten = self.row.asset_condition_met_at is None and self.row.stored.get(
            "asset_condition_met_at"
        )
        # Whoever records the missing event must see that the condition is noted on the row.
        return self.pending.unchanged() if is_forgotten else []

    @property
    def has_more(self) -> bool:
        """Whether the DAG can be claimed again at once."""
        at = self.row.next_run_create_after
        return self.row.due_shard is not None and at is not None and at <= self.now

    @property
    def keys(self) -> list[str]:
        """The keys of runs that get a slot."""
        return [*(run.run_key for run in self.runs), *map(run_of, self.released)]


def decide_claim(
    row: Dags,
    run_source: RunSource | None,
    *,
    now: DateTime,
    claim_id: str,
    limit: int = MAX_RUNS,
    pending: PendingEvents = NO_EVENTS,
    taken: AbstractSet[str] = frozenset(),
) -> ClaimDecision | Skipped:
    """Assign to `row` what a claim changes, and return it with the runs to create.

    `run_source` may be None if no next run is announced, `pending` are the DAG's pending events,
    `taken` are keys of runs known to exist; due runs are created up to the first of them.
    """
    if is_backing_off(row, now):
        return Skipped(BACKING_OFF)
    decision = ClaimDecision(row, claim_id, now, pending=pending)
    is_noted = row.claim_failures is not None or row.claim_error is not None
    if is_noted:
        row.claim_failures = row.claim_failed_at = row.claim_error = None
    decision.drops = drop_out_of_bounds(row, pending.events, now=now)
    if decision.drops:
        # Alone, for want of room in the transaction. If the condition was met, the DAG stays due.
        return decision
    is_noted |= row.asset_start_at != row.stored.get("asset_start_at")
    is_noted |= note_condition(row, pending, now)
    is_noted |= pause_if_spent(row, now)
    slots = min(free_slots(row), limit) if is_open(row) else 0
    if not slots:
        return decision if is_noted else Skipped(_why_closed(row))
    # Keys of runs that exist; manual ones among them may have a date of the schedule's.
    known = {*taken, *named_runs(row)}
    is_moved = _pass_over(row, run_source, known, now=now) or is_noted
    for_schedule = min(slots, slots_for_schedule(row))
    timed = _due_until_known(row, run_source, known, now=now, limit=for_schedule)
    chosen = _take_turns(row, timed.runs, slots)
    infos = [item for item in chosen if isinstance(item, DagRunInfo)]
    if len(infos) < len(timed.runs):
        timed = _due(row, run_source, now=now, limit=len(infos))
    for info in infos:
        decision.create(
            info, run_id=_run_id(row, info), run_type="scheduled", triggered_by="timetable"
        )
    if timed.runs:
        cursor.advance(row, timed, now=now)
    if None in chosen:
        _create_asset_run(decision)
    decision.released = [item for item in chosen if isinstance(item, str)]
    stop_waiting(row, decision.released)
    occupy(row, decision.keys)
    if not (is_moved or decision.keys):
        return Skipped("not due")
    return decision


def is_backing_off(row: Dags, now: DateTime) -> bool:
    """Return whether the DAG is skipped because earlier claims failed."""
    failures = int(row.claim_failures or 0)
    if failures < PATIENT_FAILURES or row.claim_failed_at is None:
        return False
    # The exponent is capped to avoid overflow.
    doubled = _FIRST_BACK_OFF_SECONDS * 2 ** min(failures - PATIENT_FAILURES, 10)
    return now < row.claim_failed_at.add(seconds=min(doubled, _LONGEST_BACK_OFF_SECONDS))


def note_condition(row: Dags, pending: PendingEvents, now: DateTime) -> bool:
    """Note on the row whether its asset condition is met; return whether that is new."""
    before = (row.asset_condition_met_at, row.schedule_error)
    try:
        waits = is_met(row.asset_condition, in_time(row, pending.events))
    except UNREADABLE as error:
        waits = False
        row.schedule_error = in_short(f"the asset condition cannot be read: {error!r}")
    if waits != (row.asset_condition_met_at is not None):
        # The events are in time, even if the claim is not.
        met_at = now if row.latest is None else min(now, row.latest)
        row.asset_condition_met_at = met_at if waits else None
    return (row.asset_condition_met_at, row.schedule_error) != before


def _why_closed(row: Dags) -> str:
    if row.is_paused:
        return "paused"
    if row.is_stale:
        return "stale"
    return "import errors" if row.has_import_errors else "no free slot"


def _take_turns(
    row: Dags, timed: Sequence[DagRunInfo], slots: int
) -> list[DagRunInfo | str | None]:
    """Return what gets a slot: due times, entries of `waiting`, None for the asset condition.

    In each round every kind gets one slot: manual ones first, the others by age. The row records
    whose turn it was, so that a long backlog of one kind never holds up the others.
    """
    waiting = sorted(row.waiting or (), key=by_logical_date)
    met_at = row.asset_condition_met_at if row.asset_start_at is None else None
    lines: dict[str, deque[DagRunInfo | str | None]] = {
        MANUAL: deque(waiting),
        SCHEDULED: deque(timed),
        ASSET_TRIGGERED: deque([] if met_at is None else [None]),
    }
    since = {
        MANUAL: "",  # sorts before all others
        SCHEDULED: instant_text(timed[0].run_after) if timed else "",
        ASSET_TRIGGERED: "" if met_at is None else instant_text(met_at),
    }
    served = set(row.served_run_types or ())
    first: list[DagRunInfo | str | None] = []
    while len(first) < slots and any(lines.values()):
        in_line = {kind for kind, line in lines.items() if line}
        if not in_line - served:
            served = set()
        kind = min(in_line - served, key=since.__getitem__)
        first.append(lines[kind].popleft())
        served.add(kind)
    remember_served(row, served)
    return first


def _create_asset_run(decision: ClaimDecision) -> None:
    pending = decision.pending.events
    events = {asset: found.sequences for asset, found in sorted(pending.items())}
    run_after = max(found.recorded_at for found in pending.values())
    decision.create(
        DagRunInfo(run_after, None),
        run_id=run_id(
            "asset_triggered", run_after=run_after, logical_date=None, content={"events": events}
        ),
        run_type="asset_triggered",
        triggered_by="asset",
        events=events,
    )
    decision.is_consuming = True
    count_run(decision.row, decision.now)
    decision.row.asset_condition_met_at = None


def _due(row: Dags, run_source: RunSource | None, *, now: DateTime, limit: int) -> Due:
    stored = cursor.stored_next(row)
    if stored is None or stored.run_after > now or not limit or cursor.has_switched(row):
        return Due((), stored)
    now = followed_until(row, now)
    if cursor.is_continuous(row):
        info = cursor.continuous_now(row, stored, now=now)
        assert info.data_interval is not None
        return Due((info,), cursor.next_continuous(row, info.data_interval.end, now=now))
    assert run_source is not None
    until = row.catch_up_until
    if until is not None and stored.run_after <= until:
        return cursor.runs_due(run_source, stored, catchup=True, now=min(now, until), limit=limit)
    catchup = schedule_in_force(row).catchup
    return cursor.runs_due(run_source, stored, catchup=catchup, now=now, limit=limit)


def _due_until_known(
    row: Dags, run_source: RunSource | None, known: AbstractSet[str], *, now: DateTime, limit: int
) -> Due:
    due = _due(row, run_source, now=now, limit=limit)
    new = list(takewhile(lambda info: not known or key_of(row, info) not in known, due.runs))
    return due if len(new) == len(due.runs) else _due(row, run_source, now=now, limit=len(new))


def _pass_over(
    row: Dags, run_source: RunSource | None, taken: AbstractSet[str], *, now: DateTime
) -> bool:
    """Move the schedule past due runs that exist; return whether it moved."""
    is_moved = False
    while taken:
        due = _due(row, run_source, now=now, limit=1)
        if not due.runs or key_of(row, due.runs[0]) not in taken:
            break
        is_moved = True
        cursor.advance(row, due, now=now)
    return is_moved


def step_over(
    row: Dags,
    run_source: RunSource | None,
    *,
    taken: AbstractSet[str],
    over: AbstractSet[str],
    now: DateTime,
    claim_id: str,
    pending: PendingEvents = NO_EVENTS,
) -> ClaimDecision | Skipped:
    """Assign to `row` what moves it past existing runs, and create none.

    No other run can conflict with that, so the DAG always makes progress. `taken` are keys of
    existing runs, `over` are entries of `waiting` whose runs need no slot any more.
    """
    known = {*taken, *named_runs(row)}
    gone = over & (row.waiting or set())
    stop_waiting(row, gone)
    if not (_pass_over(row, run_source, known, now=now) or gone):
        return Skipped("not due")
    note_condition(row, pending, now)  # for the claim that follows
    return ClaimDecision(row, claim_id, now, pending=pending)


def _run_id(row: Dags, info: DagRunInfo) -> str:
    return cursor.timetable_of(row).generate_run_id(
        run_type="scheduled",
        run_after=info.run_after,
        data_interval=info.data_interval,
        partition_key=info.partition_key,
    )


def key_of(row: Dags, info: DagRunInfo) -> str:
    """Return the key that a scheduled run would have."""
    return run_key(_run_id(row, info))
