"""Pushes a bundle: uploads its archive, and announces it to `register`.

The preview of a push says what would change for each DAG: next runs, owed runs, lost events.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pendulum import DateTime

from lamplighter import clock
from lamplighter.bundles.archive import Archive, build_archive
from lamplighter.bundles.parsing import CheckedDag, query_timetables
from lamplighter.dags.upcoming import MAX_OWED_COUNTED
from lamplighter.identifiers import require_id
from lamplighter.registry import pushes
from lamplighter.registry.custom_timetables import NextRuns, query_after
from lamplighter.registry.definition import (
    Definition,
    define,
    has_new_schedule,
    read_definition,
    returns,
)
from lamplighter.registry.owed import Countdown, count_owed, skip_owed
from lamplighter.registry.pushes import Push
from lamplighter.scheduler import cursor
from lamplighter.scheduler.pending import ids_of, pending_of, waited_for
from lamplighter.scheduler.schedules import PrecomputedRunsExhausted
from lamplighter.store.bundles import next_push_number, record_push
from lamplighter.store.dags import dag_ids_of_bundle, read_dags
from lamplighter.store.models import Dags
from lamplighter.timetables.base import DagRunInfo, DataInterval
from lamplighter_operations import bundle_objects as objects
from lamplighter_operations.push_notes import NO_NOTE, Note

_NO_PUSH = Push("", "", 0)


def push_bundle(root: Path, bundle: str, *, skip_owed: bool = False, note: Note = NO_NOTE) -> Push:
    """Upload and announce the bundle at `root`; return the push.

    With `skip_owed`, runs that a new or changed schedule owes at the push are not created.
    """
    require_id(bundle, what="bundle")
    return push_archive(build_archive(root), bundle, skip_owed=skip_owed, note=note)


def push_archive(
    archive: Archive, bundle: str, *, skip_owed: bool = False, note: Note = NO_NOTE
) -> Push:
    """Upload an archive, unless it exists, and announce it.

    Every step can be repeated. One that is broken off before the announcement has only taken a
    number; one that is broken off after it is complete.
    """
    objects.put_archive(bundle, archive)
    if note.dags is not None:
        objects.put_manifest(bundle, archive, note.dags)
    push = Push(bundle, archive.hash, next_push_number(bundle), skip_owed=skip_owed)
    record_push(
        bundle, push.number, push.version, by=note.by, why=note.why, origin=note.origin.as_json()
    )
    pushes.announce(push)
    return push


# Its preview.


@dataclass(frozen=True)
class DagChange:
    """What a push would change for the schedule of one DAG."""

    dag_id: str
    # The timetable's summary; None if the DAG does not exist before or after.
    schedule_before: str | None
    schedule_after: str | None
    # The run-after of its next run, if any.
    next_before: DateTime | None = None
    next_after: DateTime | None = None
    # Runs due at the push, which are created as slots allow, or skipped.
    owed: int = 0
    skipped: int = 0
    # Whether there are more than were counted.
    owes_more: bool = False
    # Pending events of assets that it no longer waits for.
    dropped_events: int = 0
    # The run-after of the first run of the new schedule, if runs of the old one come first.
    switches_to: DateTime | None = None
    # Whether the DAG was removed by an earlier push; runs have become due since.
    returns: bool = False
    # Times that no schedule covers, or both do.
    uncovered: DataInterval | None = None
    repeated: DataInterval | None = None

    @property
    def is_new(self) -> bool:
        """Whether the DAG is new."""
        return self.schedule_before is None

    @property
    def is_none(self) -> bool:
        """Whether nothing changes: a custom timetable was queried and returned the same runs."""
        before = (self.schedule_before, self.next_before)
        if self.returns:
            return False
        return before == (self.schedule_after, self.next_after) and not self.dropped_events

    @property
    def is_leaving(self) -> bool:
        """Whether the DAG is removed."""
        return self.schedule_after is None


@dataclass(frozen=True)
class _Candidate:
    """A DAG whose schedule is new or changed, and its row after the push."""

    definition: Definition
    before: Dags | None
    row: Dags
    # After the last due run of the old schedule, as far as it is known.
    later: Dags
    dropped_events: int


def preview_push(
    root: Path, dags: Sequence[CheckedDag], *, bundle: str | None = None, is_skipping: bool = False
) -> list[DagChange]:
    """Return what a push would change: DAGs whose schedules are new, changed, removed or back.

    Custom timetables run here, in forks: it is the author's machine. With `is_skipping`, owed runs
    are counted but not created.
    """
    now = clock.now()
    candidates = _candidates(dags, now, is_skipping=is_skipping)
    queries = [
        query_after(one.later, one.row.dag_id, one.definition.file, now=now)
        for one in candidates
        if one.definition.is_custom
    ]
    results = query_timetables(root, queries)
    next_runs = {result["dag_id"]: NextRuns.from_json(result) for result in results}
    has_time = Countdown()
    found = [
        _change(
            one,
            next_runs.get(one.row.dag_id),
            now=now,
            is_skipping=is_skipping,
            has_time=has_time,
        )
        for one in candidates
    ]
    found += _leaving(bundle, {dag.dag_id for dag in dags}) if bundle else ()
    return sorted(found, key=lambda change: change.dag_id)


def _change(
    one: _Candidate,
    custom: NextRuns | None,
    *,
    now: DateTime,
    is_skipping: bool,
    has_time: Callable[[], bool],
) -> DagChange:
    """Return the change of one DAG, given the next runs of its custom timetable, if any."""
    row, before, last = one.row, one.before, cursor.position(one.later)
    first = cursor.stored_next(one.later) if custom is None else next(iter(custom.runs), None)
    is_kept = row.schedule_switch_at is not None
    owed = 0 if custom is None else custom.owed
    owes_more = owed >= MAX_OWED_COUNTED
    if is_kept or custom is None:
        counted = count_owed(row, now=now, has_time=has_time)
        owed, owes_more = owed + counted.known, owes_more or not counted.is_all
    is_skipped = is_skipping and (is_kept or has_new_schedule(row) or returns(row))
    if is_skipped:
        following, is_kept = _after_skipping(one.later, custom, now), False
    else:
        following = row.next_run_after if is_kept or first is None else first.run_after
    uncovered, repeated = _seam(one.row, last, first)
    return DagChange(
        row.dag_id,
        None if before is None else before.schedule,
        one.definition.schedule,
        None if before is None else before.next_run_after,
        following,
        owed=0 if is_skipped else owed,
        skipped=owed if is_skipped else 0,
        owes_more=owes_more,
        dropped_events=one.dropped_events,
        returns=before is not None and returns(row),
        switches_to=first.run_after if first is not None and is_kept else None,
        uncovered=uncovered,
        repeated=repeated,
    )


def _after_skipping(later: Dags, custom: NextRuns | None, now: DateTime) -> DateTime | None:
    if custom is not None:
        return next((info.run_after for info in custom.runs if info.run_after > now), None)
    skip_owed(later, now=now)
    return later.next_run_after


def _seam(
    row: Dags, last: DagRunInfo | None, first: DagRunInfo | None
) -> tuple[DataInterval | None, DataInterval | None]:
    """Return the gap and the overlap between the old and the new schedule."""
    if last is None or last.data_interval is None or not has_new_schedule(row):
        return None, None
    if first is None or first.data_interval is None:
        return None, None
    (_, end), (start, stop) = last.data_interval, first.data_interval
    if start == stop:
        return None, None  # no data intervals
    # A run of zero length took the key of its instant, so the other begins just after it.
    hole = DataInterval(end, start) if start > end.add(microseconds=1) else None
    return hole, DataInterval(start, end) if start < end else None


def owed_after_push(root: Path, dags: Sequence[CheckedDag]) -> dict[str, int]:
    """Return the number of owed runs of each DAG whose schedule is new or changed."""
    return {change.dag_id: change.owed for change in preview_push(root, dags) if change.owed}


def _candidates(
    dags: Sequence[CheckedDag], now: DateTime, *, is_skipping: bool
) -> list[_Candidate]:
    rows = {row.dag_id: row for row in read_dags(dag.dag_id for dag in dags)}
    definitions = {dag.dag_id: read_definition(dag) for dag in dags}
    dropped = dict(_dropped(rows.values(), definitions))
    found = []
    for dag_id, definition in definitions.items():
        stored = rows.get(dag_id)
        before = None if stored is None else stored.as_stored()
        row = definition.new_row() if stored is None else stored
        is_changed = define(row, definition, row.asset_condition, _NO_PUSH, now=now)
        lost = dropped.get(dag_id, 0)
        is_skipped = is_skipping and row.schedule_switch_at is not None
        if is_changed or lost or is_skipped or returns(row):
            if not definition.is_custom:
                cursor.ask_schedule(row, now=now)
            found.append(_Candidate(definition, before, row, _after_old(row, now), lost))
    return found


def _after_old(row: Dags, now: DateTime) -> Dags:
    """Return the row after the last due run of the old schedule, if there is one."""
    stored = cursor.stored_next(row)
    if row.schedule_switch_at is None or stored is None:
        return row
    try:
        newest = cursor.newest_missed(row, cursor.run_source_of(row), stored, now=now)
    except PrecomputedRunsExhausted:
        newest = stored  # the rest is unknown
    return cursor.after_previous(row, newest, now=now)


def _dropped(
    rows: Iterable[Dags], definitions: Mapping[str, Definition]
) -> Iterator[tuple[str, int]]:
    """Yield the DAGs with pending events of assets that they will no longer wait for."""
    wanted = {dag_id: ids_of(item.condition) for dag_id, item in definitions.items()}
    losing = [row for row in rows if waited_for(row) - wanted[row.dag_id]]
    for dag_id, pending in (pending_of(losing) if losing else {}).items():
        unwanted = pending.events.keys() - wanted[dag_id]
        ranges = (pending.events[asset].sequences for asset in unwanted)
        if count := sum(last - consumed for consumed, last in ranges):
            yield dag_id, count


def _leaving(bundle: str, staying: set[str]) -> Iterator[DagChange]:
    gone = set(dag_ids_of_bundle(bundle)) - staying
    for row in read_dags(gone):
        if row.bundle == bundle and not row.is_stale:
            yield DagChange(row.dag_id, row.schedule, None, row.next_run_after)
