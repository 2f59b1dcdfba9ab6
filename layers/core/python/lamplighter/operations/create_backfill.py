"""Plans a backfill, and creates it: the request, its dates and its number in one transaction.

Owns: what is refused, in Airflow's order. What was planned is what happens: the dates are stored,
so that a later push of another schedule changes nothing about them.
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from pendulum import DateTime

from lamplighter import clock, queues
from lamplighter.operations import backfills
from lamplighter.backfill.plan import runs_between
from lamplighter.backfill.expect import Expected, expect
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
)
from lamplighter.errors import RefusedError, TransientError
from lamplighter.json_values import json_mapping
from lamplighter.operations.trigger import require_allowed
from lamplighter.store.versions import newest_document
from lamplighter.scheduler import cursor
from lamplighter.scheduler.schedules import run_as_json
from lamplighter.store.backfills import (
    OPEN,
    RUNNING,
    backfill_write,
    date_rows,
    newest_of,
    next_id,
)
from lamplighter.store.models import Backfills, Dags, Runs
from lamplighter.store.dags import read_dag
from lamplighter.store.dags import change_dag
from lamplighter.store.transactions import TransactionCanceled, Put, Write
from lamplighter.timetables.base import DagRunInfo
from lamplighter.timetables.codec import is_foreign

# Numbers that are tried.
_MAX_TAKEN = 100
# Who can say which runs an author's timetable has in a range: it is never asked in this process.
AskAuthor = Callable[[Dags, DateTime, DateTime], Iterable[DagRunInfo]]


def plan_backfill(request: Request, *, ask_author: AskAuthor | None = None) -> Plan:
    """Return what a backfill would do, or raise why it is refused. Writes nothing."""
    plan, _ = _plan(request, _find_dag(request.dag_id), ask_author)
    return plan


def create_backfill(request: Request, *, ask_author: AskAuthor | None = None) -> Backfills:
    """Store a backfill and let it begin, or raise why it is refused."""
    dag = _find_dag(request.dag_id)
    plan, expected = _plan(request, dag, ask_author)
    if not plan.todo:
        raise backfills.NoBackfillRunsToCreate(_why_none(plan))
    made = _store(plan, expected)
    queues.send_backfills([made.backfill_id])
    return made


def _store(plan: Plan, expected: Expected) -> Backfills:
    """Write a backfill under the next number of its DAG; return it."""
    now, mark = clock.now(), uuid.uuid4().hex
    dates = [run_as_json(each.info) for each in plan.todo]
    dag_id, taken = plan.request.dag_id, 0

    def change(row: Dags) -> Sequence[Write]:
        _require_none_open(row)
        for _ in range(taken + 1):
            row.backfill = next_id(row)
        assert row.backfill is not None
        made = _new_row(plan, row.backfill, expected, now=now, mark=mark)
        return [*map(Put, date_rows(row.backfill, dates)), backfill_write(made, now=now)]

    for _ in range(_MAX_TAKEN):
        try:
            row = change_dag(dag_id, change)
        except TransactionCanceled:
            taken += 1  # by one of a DAG that was deleted and came again
            continue
        except TransientError:
            row = read_dag(dag_id)  # it may have been written, and only the answer lost
            found = None if row is None else newest_of(row)
            if found is None or found.created_by != mark:
                raise
            return found
        if row is None:
            raise backfills.DagNotFound(f"DAG {dag_id!r} was deleted meanwhile")
        found = newest_of(row)
        assert found is not None
        return found
    raise TransientError(f"the backfills of DAG {dag_id!r} could not be numbered; try again")


def _new_row(
    plan: Plan, backfill_id: str, expected: Expected, *, now: DateTime, mark: str
) -> Backfills:
    request = plan.request
    return Backfills(
        backfill_id,
        dag_id=request.dag_id,
        created_at=now,
        created_by=mark,
        start=request.start,
        end=request.end,
        reprocess=request.reprocess,
        run_backwards=request.run_backwards,
        max_active_runs=request.max_active_runs,
        conf=dict(request.conf) if request.conf else None,
        max_cost=request.max_cost,
        expected_cost=expected.cost,
        expected_seconds=expected.seconds,
        state=RUNNING,
        total=len(plan.todo),
    )


# What is refused.


def _find_dag(dag_id: str) -> Dags:
    row = read_dag(dag_id)
    if row is None:
        raise backfills.DagNotFound(f"there is no DAG {dag_id!r}; push its bundle first")
    if row.is_stale:
        raise backfills.DagNotFound(f"DAG {dag_id!r} is in no bundle any more; push it again first")
    if row.has_import_errors:
        raise backfills.DagNotFound(
            f"the file of DAG {dag_id!r} has import errors; mend and push it"
        )
    return row


def _plan(request: Request, dag: Dags, ask_author: AskAuthor | None) -> tuple[Plan, Expected]:
    dag_id, now = request.dag_id, clock.now()
    document = newest_document(dag)
    try:
        require_allowed(dag, "backfill")
    except RefusedError as refused:
        raise backfills.DagRunTypeNotAllowed(str(refused)) from refused
    # The newest schedule, also while runs of an old one are still owed.
    timetable = cursor.read_timetable(dag.timetable)
    is_custom = is_foreign(timetable)
    if not is_custom and not timetable.periodic:
        raise backfills.DagNonPeriodicScheduleException(
            f"DAG {dag_id!r} has no dates to backfill: its schedule is {dag.schedule}"
        )
    _require_none_open(dag)
    _require_range(request, now)
    _require_order(request, document)
    _require_conf(request)
    require_limits(request.max_active_runs, request.max_cost)
    dates = _dates(request, dag, now, ask_author if is_custom else None)
    return make_plan(request, dates, _states(dag_id, dates)), expect(dag_id)


def _require_none_open(dag: Dags) -> None:
    # One that is over stays so: what was read of it holds when the DAG's row is written.
    newest = newest_of(dag)
    if newest is not None and newest.state in OPEN:
        raise backfills.AlreadyRunningBackfill(
            f"backfill {newest.backfill_id} of DAG {dag.dag_id!r} is {newest.state}: wait for it,"
            f" or cancel it with `lamplighter backfill cancel {newest.backfill_id}`"
        )


def _require_range(request: Request, now: DateTime) -> None:
    start, end = request.start, request.end
    if end < start:
        raise backfills.InvalidBackfillDateRange(
            f"the range ends at {end}, before it begins at {start}"
        )
    if start > now and end > now:
        raise backfills.InvalidBackfillDate(
            f"the range from {start} to {end} lies in the future; the schedule will run it"
        )


def _require_order(request: Request, document: dict[str, object]) -> None:
    if request.reprocess not in REPROCESS:
        raise backfills.InvalidReprocessBehavior(
            f"reprocess={request.reprocess!r}: take one of {', '.join(REPROCESS)}"
        )
    tasks: Iterable[dict[str, object]] = document.get("tasks", ())  # type: ignore[assignment] # JSON
    waiting = [task["task_id"] for task in tasks if task.get("depends_on_past")]
    if waiting and request.run_backwards:
        raise backfills.InvalidBackfillDirection(
            f"task {waiting[0]!r} of DAG {request.dag_id!r} depends on the past: it cannot run"
            " backwards"
        )
    if waiting and request.reprocess == NONE:
        raise backfills.InvalidReprocessBehavior(
            f"task {waiting[0]!r} of DAG {request.dag_id!r} depends on the past, and would wait for"
            " runs that failed: take reprocess 'failed' or 'completed'"
        )


def _require_conf(request: Request) -> None:
    try:
        json_mapping(dict(request.conf or {}))
    except TypeError as error:
        raise backfills.InvalidBackfillConf(
            f"a backfill of DAG {request.dag_id!r}: conf {error}"
        ) from error


def _dates(
    request: Request, dag: Dags, now: DateTime, ask_author: AskAuthor | None
) -> list[DagRunInfo]:
    timetable = cursor.read_timetable(dag.timetable)
    if ask_author is not None:
        found = iter(ask_author(dag, request.start, request.end))
    elif is_foreign(timetable):
        raise RefusedError(
            f"DAG {request.dag_id!r} has a timetable of its author's, which cannot be asked here"
        )
    else:
        found = runs_between(timetable, request.start, request.end, now=now, anchor=dag.earliest)
    dates = list(islice(found, MAX_RUNS + 1))
    if len(dates) > MAX_RUNS:
        raise RefusedError(
            f"the range has more than {MAX_RUNS:,} runs of DAG {request.dag_id!r}: take a shorter"
            " one, and the rest after it"
        )
    return dates


def _states(dag_id: str, dates: Sequence[DagRunInfo]) -> dict[str, str]:
    """Return the states of the runs between the first and the last date, by their keys."""
    if not dates:
        return {}
    keys = sorted(key_of(info) for info in (dates[0], dates[-1]))
    found = Runs.query(
        dag_id,
        Runs.run_key.between(*keys),
        attributes_to_get=["run_key", "state"],
        consistent_read=True,
    )
    return {run.run_key: run.state for run in found}


def _why_none(plan: Plan) -> str:
    request = plan.request
    where = f"from {request.start} (included) to {request.end} (not included)"
    if not plan.dates:
        return f"DAG {request.dag_id!r} has no complete run {where}"
    words = {Act.EXISTS: "over", Act.IN_FLIGHT: "under way"}
    counts = ", ".join(f"{count} {words[act]}" for act, count in plan.counts().items())
    return (
        f"every date of DAG {request.dag_id!r} {where} has a run ({counts}): take reprocess"
        " 'failed' or 'completed' to run them again"
    )
