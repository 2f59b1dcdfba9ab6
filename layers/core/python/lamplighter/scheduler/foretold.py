"""What authors' timetables said in the sandbox about the coming runs of their DAGs.

Owns: the Catalog rows of kind `runs`. The claim reads them instead of running author code.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from lamplighter import clock, queues
from lamplighter.errors import UNREADABLE, MalformedRowError
from lamplighter.scheduler.cursor import PrecomputedRuns, RunSource
from lamplighter.scheduler.schedules import Schedule, is_custom, schedule_in_force
from lamplighter.store.models import Catalog, Dags
from lamplighter.store.rows import Malformed
from lamplighter.store.transactions import TransactionCanceled, Put, Update, transact_with_retry
from lamplighter.timetables.base import DagRunInfo, DataInterval
from lamplighter.zones import iso, parse_instant

log = logging.getLogger(__name__)

KIND = "runs"
COUNT = 64
_ASK_AGAIN_SECONDS = 300


def precomputed_runs_of(rows: Iterable[Dags]) -> dict[str, RunSource]:
    """Return what is precomputed for each of the DAGs that have an author's timetable."""
    custom = dict(_custom_schedules(rows))
    outlooks: dict[str, RunSource] = {dag_id: PrecomputedRuns((), is_last=False) for dag_id in custom}
    malformed: list[Malformed] = []
    keys = [(KIND, dag_id) for dag_id in custom]
    for found in Catalog.batch_get(keys, consistent_read=True, malformed=malformed):
        # Written for another definition: what it says about this one is unknown.
        if (found.version, found.bundle, found.bundle_version) == custom[found.id].source:
            try:
                runs = tuple(run_from_json(run) for run in found.runs)
            except UNREADABLE as error:
                malformed.append(Malformed((KIND, found.id), str(error)))
            else:
                outlooks[found.id] = PrecomputedRuns(runs, is_last=bool(found.is_last))
    # They can be worked out again: the claim finds none, and asks for more.
    for (_, dag_id), problem in malformed:
        log.error("precomputed runs are malformed: %s", problem, extra={"dag_id": dag_id})
    return outlooks


def _custom_schedules(rows: Iterable[Dags]) -> Iterator[tuple[str, Schedule]]:
    for row in rows:
        # One whose old schedule cannot be read gets its error when it is planned.
        with suppress(*UNREADABLE):
            if is_custom(row):
                yield row.dag_id, schedule_in_force(row)


def ask_for_more(dag_ids: Iterable[str]) -> None:
    """Have timetables asked again, unless that is on its way already."""
    queues.send_refill(dag_id for dag_id in sorted(set(dag_ids)) if _note_asked(dag_id))


def _note_asked(dag_id: str) -> bool:
    """Note that a timetable is being asked; return False if it was a moment ago."""
    now = clock.now()
    recently = now.subtract(seconds=_ASK_AGAIN_SECONDS)
    is_malformed = ~Catalog.asked_at.is_type()  # type: ignore[no-untyped-call] # PynamoDB's
    is_time = Catalog.asked_at.does_not_exist() | is_malformed | (Catalog.asked_at < recently)
    try:
        # As a transaction, which does not read the row back: it may be malformed.
        transact_with_retry([Update(Catalog(KIND, dag_id), [Catalog.asked_at.set(now)], is_time)])
    except (TransactionCanceled, MalformedRowError):
        return False
    return True


def run_from_json(data: dict[str, Any]) -> DagRunInfo:
    """Return a run as it was precomputed."""
    start, end = data["data_interval_start"], data["data_interval_end"]
    interval = None if start is None else DataInterval(parse_instant(start), parse_instant(end))
    key = data["partition_key"]
    if not isinstance(key, str | None):
        raise TypeError(f"partition key {key!r} is no text")
    return DagRunInfo(parse_instant(data["run_after"]), interval, partition_key=key)


def run_as_json(info: DagRunInfo) -> dict[str, str | None]:
    """Return a run as it is stored."""
    start, end = info.data_interval or (None, None)
    return {
        "run_after": iso(info.run_after),
        "data_interval_start": None if start is None else iso(start),
        "data_interval_end": None if end is None else iso(end),
        "partition_key": info.partition_key,
    }


def replace(
    dag_id: str, schedule: Schedule, runs: list[dict[str, str | None]], *, is_last: bool
) -> Put:
    """Return the write that replaces what is precomputed for a DAG by the answers of a schedule."""
    row = Catalog(
        KIND,
        dag_id,
        version=schedule.version,
        bundle=schedule.bundle,
        bundle_version=schedule.bundle_version,
        runs=runs,
        is_last=is_last,
        updated_at=clock.now(),
    )
    return Put(row, may_replace=True)
