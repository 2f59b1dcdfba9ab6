"""Plans, creates, pauses, resumes and cancels backfills.

Owns: what is refused, in Airflow's order. The planned dates are stored with the request in one
transaction, so a later push does not change them. Runs read their backfill's row before they start
anything, so a lost message only delays.
"""

import uuid
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from pendulum import DateTime

from lamplighter import clock, queues
from lamplighter.backfill.estimates import Expected, expect
from lamplighter.backfill.plan import (
    MAX_RUNS,
    NONE,
    REPROCESS,
    Act,
    Plan,
    Request,
    key_of,
    make_plan,
    require_limits,
    runs_between,
)
from lamplighter.errors import RefusedError, TransientError
from lamplighter.loading import json_mapping
from lamplighter.registry.custom_timetables import custom_runs_between
from lamplighter.scheduler import cursor
from lamplighter.scheduler.schedules import run_as_json
from lamplighter.store.backfills import (
    CANCELLED,
    OPEN,
    PAUSED,
    RUNNING,
    backfill_write,
    change_backfill,
    date_rows,
    newest_of,
    next_id,
)
from lamplighter.store.dags import change_dag, newest_document, read_dag, require_dag
from lamplighter.store.models import Backfills, Dags
from lamplighter.store.runs import run_states
from lamplighter.store.transactions import Put, TransactionCanceled, Write
from lamplighter.timetables.base import DagRunInfo, is_foreign
from lamplighter_operations.trigger import require_allowed, require_defined, require_params

# Numbers to try.
_MAX_TAKEN = 100


# Reasons for refusal, with Airflow's names.


class DagNotFound(RefusedError):
    """The DAG does not exist, is no longer in any bundle, or has import errors."""


class DagRunTypeNotAllowed(RefusedError):
    """The DAG's `allowed_run_types` exclude backfills."""


class DagNonPeriodicScheduleException(RefusedError):
    """The schedule has no periodic dates: none, once, continuous, assets."""


class AlreadyRunningBackfill(RefusedError):
    """Another backfill of the DAG is not over."""


class InvalidBackfillDateRange(RefusedError):
    """The range ends before it begins."""


class InvalidBackfillDate(RefusedError):
    """The whole range is in the future."""


class InvalidBackfillDirection(RefusedError):
    """A task that depends on the past cannot run backwards."""


class InvalidReprocessBehavior(RefusedError):
    """Unknown value; or a task depends on the past, which may not be run again."""


class InvalidBackfillConf(RefusedError):
    """The conf is not JSON, or has a value that a param does not allow."""


class NoBackfillRunsToCreate(RefusedError):
    """No date in the range needs a run."""


# Planning and creating.


def plan_backfill(request: Request) -> Plan:
    """Return what a backfill would do, or raise why it is refused; read-only."""
    return _plan(request)[0]


def create_backfill(request: Request) -> Backfills:
    """Store and start a backfill, or raise why it is refused."""
    plan, expected = _plan(request)
    if not plan.todo:
        raise NoBackfillRunsToCreate(_why_none(plan))
    made = _store(plan, expected)
    queues.send_backfills([made.backfill_id])
    return made


def _store(plan: Plan, expected: Expected) -> Backfills:
    now, mark = clock.now(), uuid.uuid4().hex
    dates = [run_as_json(each.info) for each in plan.todo]
    dag_id, taken = plan.request.dag_id, 0

    def change(row: Dags) -> Sequence[Write]:
        _require_none_open(row)
        for _ in range(taken + 1):
            row.backfill = next_id(row)
        assert row.backfill is not None
        columns = vars(plan.request) | {"conf": dict(plan.request.conf or {}) or None}
        made = Backfills(
            row.backfill,
            **columns,
            created_at=now,
            created_by=mark,
            expected_cost=expected.cost,
            expected_seconds=expected.seconds,
            state=RUNNING,
            total=len(dates),
        )
        return [*map(Put, date_rows(row.backfill, dates)), backfill_write(made, now=now)]

    for _ in range(_MAX_TAKEN):
        try:
            row = change_dag(dag_id, change)
        except TransactionCanceled:
            taken += 1  # used by a deleted DAG of the same id
            continue
        except TransientError:
            row = read_dag(dag_id)  # it may have been written and only the response lost
            found = None if row is None else newest_of(row)
            if found is None or found.created_by != mark:
                raise
            return found
        if row is None:
            raise DagNotFound(f"DAG {dag_id!r} was deleted in the meantime")
        found = newest_of(row)
        assert found is not None
        return found
    raise TransientError(f"the backfills of DAG {dag_id!r} could not be numbered; try again")


# What is refused.


def _plan(request: Request) -> tuple[Plan, Expected]:
    dag_id = request.dag_id
    try:
        dag = require_dag(dag_id)
        require_defined(dag)
    except RefusedError as refused:
        raise DagNotFound(str(refused)) from refused
    now = clock.now()
    document = newest_document(dag)
    try:
        require_allowed(dag, "backfill")
    except RefusedError as refused:
        raise DagRunTypeNotAllowed(str(refused)) from refused
    # The newest schedule, even while runs of an old one are owed.
    timetable = cursor.read_timetable(dag.timetable)
    if not (timetable.periodic or is_foreign(timetable)):
        raise DagNonPeriodicScheduleException(
            f"DAG {dag_id!r} has no dates to backfill: its schedule is {dag.schedule}"
        )
    _require_none_open(dag)
    _require_range(request, now)
    _require_order(request, document)
    _require_conf(request, document)
    require_limits(request.max_active_runs, request.max_cost)
    dates = _dates(request, dag, now)
    keys = sorted(key_of(info) for info in (dates[0], dates[-1])) if dates else ()
    states = run_states(dag_id, *keys) if keys else {}
    return make_plan(request, dates, states), expect(dag_id)


def _require_conf(request: Request, document: dict[str, Any]) -> None:
    try:
        conf = json_mapping(dict(request.conf or {}))
        require_params(request.dag_id, document, conf)
    except TypeError as error:
        raise InvalidBackfillConf(f"a backfill of DAG {request.dag_id!r}: conf {error}") from error
    except RefusedError as refused:
        raise InvalidBackfillConf(str(refused)) from refused


def _require_none_open(dag: Dags) -> None:
    # One that is over stays over, so this still holds when the DAG's row is written.
    newest = newest_of(dag)
    if newest is not None and newest.state in OPEN:
        raise AlreadyRunningBackfill(
            f"backfill {newest.backfill_id} of DAG {dag.dag_id!r} is {newest.state}: wait for it,"
            f" or cancel it with `lamplighter backfill cancel {newest.backfill_id}`"
        )


def _require_range(request: Request, now: DateTime) -> None:
    start, end = request.start, request.end
    if end < start:
        raise InvalidBackfillDateRange(f"the range ends at {end}, before it begins at {start}")
    if start > now and end > now:
        raise InvalidBackfillDate(
            f"the range from {start} to {end} lies in the future; the schedule will run it"
        )


def _require_order(request: Request, document: dict[str, object]) -> None:
    if request.reprocess not in REPROCESS:
        raise InvalidReprocessBehavior(
            f"reprocess={request.reprocess!r}: choose one of {', '.join(REPROCESS)}"
        )
    tasks: Iterable[dict[str, object]] = document.get("tasks", ())  # type: ignore[assignment] # JSON
    waiting = [task["task_id"] for task in tasks if task.get("depends_on_past")]
    if waiting and request.run_backwards:
        raise InvalidBackfillDirection(
            f"task {waiting[0]!r} of DAG {request.dag_id!r} depends on the past: it cannot run"
            " backwards"
        )
    if waiting and request.reprocess == NONE:
        raise InvalidReprocessBehavior(
            f"task {waiting[0]!r} of DAG {request.dag_id!r} depends on the past, and would wait for"
            " runs that failed: use reprocess 'failed' or 'completed'"
        )


def _dates(request: Request, dag: Dags, now: DateTime) -> list[DagRunInfo]:
    timetable = cursor.read_timetable(dag.timetable)
    found: Iterable[DagRunInfo]
    if is_foreign(timetable):
        found = custom_runs_between(dag, request.start, request.end)
    else:
        found = runs_between(timetable, request.start, request.end, now=now, anchor=dag.earliest)
    dates = list(islice(found, MAX_RUNS + 1))
    if len(dates) > MAX_RUNS:
        raise RefusedError(
            f"the range has more than {MAX_RUNS:,} runs of DAG {request.dag_id!r}: choose a"
            " shorter one, and run the rest after it"
        )
    return dates


def _why_none(plan: Plan) -> str:
    request = plan.request
    where = f"from {request.start} (included) to {request.end} (not included)"
    if not plan.dates:
        return f"DAG {request.dag_id!r} has no complete run {where}"
    words = {Act.EXISTS: "over", Act.IN_FLIGHT: "under way"}
    counts = ", ".join(f"{count} {words[act]}" for act, count in plan.counts().items())
    return (
        f"every date of DAG {request.dag_id!r} {where} has a run ({counts}): use reprocess"
        " 'failed' or 'completed' to run them again"
    )


# Pausing, resuming, cancelling.


def pause_backfill(backfill_id: str, *, reason: str = "someone asked for it") -> Backfills:
    """Stop new runs from starting; runs that have started continue."""

    def change(row: Backfills) -> Sequence[Write] | None:
        _require_open(row)
        if row.state == PAUSED:
            return None
        row.state, row.reason = PAUSED, reason
        return []

    return change_backfill(backfill_id, change, now=clock.now())


def resume_backfill(
    backfill_id: str, *, max_active_runs: int | None = None, max_cost: float | None = None
) -> Backfills:
    """Continue a backfill, with new limits if given."""
    require_limits(max_active_runs, max_cost)

    def change(row: Backfills) -> Sequence[Write] | None:
        _require_open(row)
        row.state, row.reason = RUNNING, None
        row.max_active_runs = max_active_runs or row.max_active_runs
        row.max_cost = max_cost or row.max_cost
        return []

    row = change_backfill(backfill_id, change, now=clock.now())
    queues.send_backfills([backfill_id])
    queues.send_submits((row.dag_id, key) for key in sorted(row.active or ()))
    return row


def cancel_backfill(backfill_id: str, *, cancels_running_runs: bool = False) -> Backfills:
    """Cancel a backfill: no more runs are created or started.

    Running runs continue, unless `cancels_running_runs`: then their jobs are cancelled.
    """

    def change(row: Backfills) -> Sequence[Write] | None:
        # A second call may also cancel what the first left running.
        if row.state != CANCELLED:
            _require_open(row)
            row.state, row.ended_at = CANCELLED, clock.now()
            row.reason = "someone asked for it"
        row.cancels_running_runs = row.cancels_running_runs or cancels_running_runs or None
        return []

    row = change_backfill(backfill_id, change, now=clock.now())
    # They check their backfill themselves; this only speeds it up.
    queues.send_settles((row.dag_id, key) for key in sorted(row.active or ()))
    return row


def _require_open(row: Backfills) -> None:
    if row.state not in OPEN:
        raise RefusedError(f"backfill {row.backfill_id!r} is {row.state}")
