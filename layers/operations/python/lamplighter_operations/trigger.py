"""Creates manual runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from pendulum import DateTime

from lamplighter import clock, identifiers, queues
from lamplighter.dags.params import check_values
from lamplighter.errors import RefusedError
from lamplighter.identifiers import MAX_ID_LENGTH, RUN_TYPES, require_id
from lamplighter.loading import json_mapping
from lamplighter.registry.custom_timetables import custom_manual_interval
from lamplighter.scheduler import cursor
from lamplighter.store import runs as run_rows
from lamplighter.store.dags import change_dag, newest_document, require_dag
from lamplighter.store.models import Dags, Runs
from lamplighter.store.slots import announcement, free_slots, is_open, occupy, wait_for_slot
from lamplighter.store.transactions import Put, TransactionCanceled, Write
from lamplighter.timetables.base import DagRunInfo, DataInterval, is_foreign, manual_interval

MAX_WAITING = 500


def create_manual_run(
    dag_id: str,
    *,
    logical_date: DateTime | None,
    data_interval: DataInterval | None = None,
    conf: dict[str, Any] | None = None,
    run_id: str | None = None,
    triggered_by: str = "cli",
) -> Runs:
    """Create a run for a date, or without one; it starts when there is a free slot.

    Without a data interval, the timetable infers that of the date; a custom timetable does so in
    the sandbox. An existing run of that date is an error. A custom run id requires no date.
    """
    try:
        conf = json_mapping(conf or {})
    except TypeError as error:
        raise RefusedError(f"a run of DAG {dag_id!r}: conf {error}") from error
    row = require_dag(dag_id)
    require_allowed(row, "manual")
    require_usable(row)
    require_params(dag_id, newest_document(row), conf)
    now = clock.now()
    info = _info(row, logical_date, data_interval, now)
    run = run_rows.new_run(
        row,
        info,
        run_id=_run_id(info, logical_date, run_id, conf),
        now=now,
        claim_id=f"manual-{dag_id}",
        run_type="manual",
        triggered_by=triggered_by,
        logical_date=logical_date,
        conf=conf or None,
    )
    is_active = False

    def change(row: Dags) -> Sequence[Write]:
        nonlocal is_active
        require_usable(row)
        is_active = is_open(row) and free_slots(row) > 0 and not row.waiting
        if is_active:
            occupy(row, [run.run_key])
        else:
            wait_for_slot(row, run.run_key, since=now)
        return [Put(run)]

    try:
        written = change_dag(dag_id, change, row=row)
    except TransactionCanceled as cancelled:
        raise RefusedError(
            f"DAG {dag_id!r} already has a run {run.run_key}: clear it, or choose another date"
        ) from cancelled
    if written is None:
        raise RefusedError(f"DAG {dag_id!r} was deleted in the meantime")
    run_rows.log_move(run)
    if is_active:
        queues.send_submits([(dag_id, run.run_key)])
    else:
        queues.announce_due(announcement(written))
    return run


def _info(
    row: Dags, logical_date: DateTime | None, interval: DataInterval | None, now: DateTime
) -> DagRunInfo:
    if logical_date is None:
        if interval is not None:
            raise RefusedError(f"DAG {row.dag_id!r}: a run without a date has no data interval")
        return DagRunInfo(now, None)
    if interval is None:
        interval = _inferred_interval(row, logical_date)
    if interval.end < interval.start:
        raise RefusedError(
            f"DAG {row.dag_id!r}: the data interval ends at {interval.end}, before it begins"
        )
    return DagRunInfo(now, interval)


def _inferred_interval(row: Dags, date: DateTime) -> DataInterval:
    # Of the newest definition, as the run itself is, even while runs of an old schedule are owed.
    timetable = cursor.read_timetable(row.timetable)
    if is_foreign(timetable):
        return custom_manual_interval(row, date)
    return manual_interval(timetable, run_after=date)


def _run_id(
    info: DagRunInfo, logical_date: DateTime | None, chosen: str | None, conf: dict[str, Any]
) -> str:
    if chosen is None:
        return identifiers.run_id(
            "manual", run_after=info.run_after, logical_date=logical_date, content={"conf": conf}
        )
    if logical_date is not None:
        raise RefusedError(f"run id {chosen!r}: a run with a custom id has no logical date")
    if chosen.partition("__")[0] in RUN_TYPES or len(chosen) > MAX_ID_LENGTH:
        raise RefusedError(
            f"run id {chosen!r}: at most {MAX_ID_LENGTH} characters, and no prefix such as"
            " 'scheduled__', which is reserved for another type of run"
        )
    return require_id(chosen, what="run")


def require_allowed(row: Dags, run_type: str) -> None:
    """Refuse a run type that the DAG does not allow."""
    allowed = row.allowed_run_types
    if allowed is not None and run_type not in allowed:
        raise RefusedError(
            f"DAG {row.dag_id!r} allows runs of these types only: {', '.join(allowed) or 'none'};"
            f" add {run_type!r} to its allowed_run_types"
        )


def require_params(dag_id: str, document: Mapping[str, Any], conf: Mapping[str, Any]) -> None:
    """Refuse a run that gives a param of its DAG no value, or one that its schema forbids."""
    values = {**document.get("params", {}), **conf}
    try:
        check_values(values, document.get("param_schemas", {}))
    except ValueError as error:
        raise RefusedError(f"DAG {dag_id!r}: params: {error}") from error


def require_defined(row: Dags) -> None:
    """Refuse a DAG that no bundle defines any more, or whose file has import errors."""
    if row.is_stale:
        raise RefusedError(f"DAG {row.dag_id!r} is no longer in any bundle; push it again first")
    if row.has_import_errors:
        raise RefusedError(
            f"the file of DAG {row.dag_id!r} has import errors; fix it and push again"
        )


def require_usable(row: Dags) -> None:
    """Refuse a run of a DAG that cannot get a slot at present."""
    require_defined(row)
    if len(row.waiting or ()) + len(row.waiting_for_past or ()) >= MAX_WAITING:
        raise RefusedError(
            f"DAG {row.dag_id!r} already has {MAX_WAITING} runs waiting for a slot or for the"
            " previous run"
        )
