"""A DAG's row and version as its definition wants them. Assigns, writes nothing.

Owns: what a push changes on a row and what it leaves alone. The position of the schedule, the
paused state and the occupied slots belong to the row; a push never touches them.
"""

from dataclasses import dataclass
from typing import Any

from pendulum import DateTime

from lamplighter.dags.dag import DAG
from lamplighter.scheduler import cursor
from lamplighter.scheduler.cursor import Due
from lamplighter.scheduler.pending import ids_of
from lamplighter.scheduler.schedules import (
    RunSource,
    followed_until,
    own_schedule,
    schedule_in_force,
)
from lamplighter.serialization import to_json
from lamplighter.store.models import Dags, DagVersions
from lamplighter.timetables.codec import encode_timetable, is_foreign


@dataclass(frozen=True)
class Source:
    """The push that brings a definition."""

    bundle: str
    version: str
    push: int
    skip_owed: bool = False  # runs that are due at this moment are not created


@dataclass(frozen=True)
class Definition:
    """One DAG that a push defines, read and checked."""

    dag: DAG
    hash: str
    file: str
    stored: str | bytes  # the document as text, or compressed
    schedule: str  # in the timetable's own words

    @property
    def is_custom(self) -> bool:
        """Whether only the sandbox can say when it runs."""
        return is_foreign(self.dag.timetable)


def new_row(definition: Definition) -> Dags:
    """Return the row of a DAG that has never been seen."""
    return Dags(definition.dag.dag_id, is_paused=definition.dag.is_paused_upon_creation)


def newest_version(dag_id: str) -> str | None:
    """Return the number of a DAG's newest version; they outlive a row that someone deleted."""
    newest = DagVersions.query(dag_id, scan_index_forward=False, limit=1, consistent_read=True)
    return next((version.version for version in newest), None)


def define(
    row: Dags, definition: Definition, condition: Any, source: Source, *, now: DateTime
) -> bool:
    """Assign a definition to its row; return whether the schedule has to be asked anew.

    `condition` is what the DAG waits for, on the ids of assets.
    """
    dag = definition.dag
    before = _schedule(row)
    old = own_schedule(row) if row.is_stored else None
    bounds = dag.restriction()
    row.timetable = to_json(encode_timetable(dag.timetable))
    row.earliest, row.latest, row.catchup = bounds.earliest, bounds.latest, dag.catchup
    is_changed = _schedule(row) != before or row.schedule_error is not None
    row.schedule = definition.schedule
    row.is_custom = definition.is_custom or None
    row.max_active_runs = dag.max_active_runs
    row.max_consecutive_failed_runs = dag.max_consecutive_failed_dag_runs or None
    allowed = dag.allowed_run_types
    row.allowed_run_types = None if allowed is None else list(allowed)
    row.referenced_assets = (row.referenced_assets or set()) | set(ids_of(condition)) or None
    if condition != row.asset_condition or row.schedule_error is not None:
        # Events that wait for the old condition may fulfil the new one, one that could not be read
        # has missed some, and a new DAG has had its references for a moment before it has a row:
        # the claim looks.
        row.asset_condition_met_at = now if condition else None
        row.asset_condition = condition
    if row.hash != definition.hash:
        row.version = f"{int(row.version or 0) + 1:06}"
        row.hash = definition.hash
    row.bundle, row.bundle_version, row.push = source.bundle, source.version, source.push
    row.place = f"{definition.file}#{dag.dag_id}"
    row.is_stale = row.has_import_errors = False
    if row.next_run_after is None:
        cursor.drop_previous(row)  # an old schedule that failed cannot be followed any further
    elif old is not None and _schedule(row) != before:
        cursor.keep_previous_if_due(row, old, now=now)
    return is_changed or definition.is_custom


def has_new_schedule(row: Dags) -> bool:
    """Return whether a definition that was assigned brings a schedule of its own."""
    return not row.is_stored or _schedule(row) != _schedule(row.as_stored())


def _schedule(row: Dags) -> tuple[object, ...]:
    return (row.timetable, row.earliest, row.latest, row.catchup)


def owed_of(row: Dags, run_source: RunSource, *, now: DateTime, stop_at: int) -> int:
    """Return how many runs a row owes, those of an old schedule first; counting stops somewhere.

    `run_source` is that of the schedule in force.
    """
    stored = cursor.stored_next(row)
    if stored is None or stored.run_after > now or stop_at < 1:
        return 0
    due = _due(row, run_source, now=now, limit=stop_at)
    count = len(due.runs)
    if row.schedule_switch_at is None or (
        due.then is not None and due.then.run_after <= row.schedule_switch_at
    ):
        return count
    later = cursor.after_previous(row, due.runs[-1], now=now)
    if later.is_custom:
        return count  # its timetable is asked when its turn comes
    return count + owed_of(later, cursor.timetable_runs(later), now=now, stop_at=stop_at - count)


def _due(row: Dags, run_source: RunSource, *, now: DateTime, limit: int) -> Due:
    stored = cursor.stored_next(row)
    assert stored is not None
    until = followed_until(row, now)
    if cursor.is_continuous(row):
        return Due((cursor.continuous_now(row, stored, now=until),), None)
    catchup = schedule_in_force(row).catchup
    return cursor.runs_due(run_source, stored, catchup=catchup, now=until, limit=limit)


def version_row(row: Dags, definition: Definition, *, now: DateTime) -> DagVersions:
    """Return the definition as a version of its DAG."""
    is_text = isinstance(definition.stored, str)
    return DagVersions(
        row.dag_id,
        row.version,
        hash=row.hash,
        bundle=row.bundle,
        bundle_version=row.bundle_version,
        created_at=now,
        document=definition.stored if is_text else None,
        document_gzip=None if is_text else definition.stored,
    )
