"""Registers a push: DAG rows and versions, references to assets, import errors.

DAGs that a push no longer defines are retired. Owns: the order of the writes. A row and its version
change together, so a registration is never seen half done. Every step can be repeated, so an
interrupted registration is simply run again.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lamplighter import clock, queues, settings
from lamplighter.bundles.importer import ImportProblem
from lamplighter.bundles.parsing import CheckedDag, combine
from lamplighter.errors import DefinitionError, PermanentError, TransientError
from lamplighter.registry import assets, import_problems, pushes, watchers
from lamplighter.registry.custom_timetables import NextRuns, has_same_due_runs, query_definitions
from lamplighter.registry.cycles import find_cycles
from lamplighter.registry.definition import (
    Definition,
    define,
    has_new_schedule,
    returns,
    runnable_definitions,
)
from lamplighter.registry.owed import Countdown, count_owed, skip_owed
from lamplighter.registry.pushes import Push
from lamplighter.registry.sandbox import Sandbox, drop_malformed
from lamplighter.scheduler import cursor
from lamplighter.scheduler.pending import ids_of, share_events, waited_for
from lamplighter.scheduler.schedules import own_schedule, precomputed_runs_of
from lamplighter.store.bundles import mark_unreadable
from lamplighter.store.dags import (
    dag_ids_of_bundle,
    dag_write,
    newest_version,
    read_dag,
    read_dags,
)
from lamplighter.store.models import Dags
from lamplighter.store.slots import announcement
from lamplighter.store.transactions import Put, TransactionCanceled, Write, pack, retry_attempts

if TYPE_CHECKING:
    from lamplighter.store.rows import Malformed
    from lamplighter.timetables.base import DagRunInfo

_DAGS_AT_ONCE = 100
# Documents per transaction, which is limited to 4 MB.
_MAX_BYTES = 2_000_000
_INDEX_LAG_SECONDS = 60


@dataclass
class RegisterReport:
    """What a push changed."""

    push: Push
    new: list[str] = field(default_factory=list)  # DAGs that did not exist.
    changed: list[str] = field(default_factory=list)  # DAGs with another definition.
    unchanged: int = 0  # DAGs with the same definition.
    stale: list[str] = field(default_factory=list)  # DAGs that the bundle has no longer.
    broken: list[str] = field(default_factory=list)  # DAGs whose file cannot be imported.
    owed: dict[str, int] = field(default_factory=dict)  # Runs that are due already.
    errors: list[ImportProblem] = field(default_factory=list)  # Import errors.
    warnings: list[ImportProblem] = field(default_factory=list)  # Warnings of the import.


def register(push: Push) -> RegisterReport:
    """Write everything a push defines; refuse it if there is a newer one."""
    return _Registration(push, is_tidy=pushes.begin(push)).run()


@dataclass
class _Member:
    """The writes of one DAG in a transaction."""

    item: Definition
    row: Dags
    writes: list[Write]
    is_changed: bool  # there is a new version
    is_asked: bool

    @property
    def document_bytes(self) -> int:
        """How much of a transaction's room its version takes."""
        return len(self.item.stored) if self.is_changed else 0


class _Registration:
    """One call of `register`."""

    def __init__(self, push: Push, *, is_tidy: bool) -> None:
        self.push = push
        self.is_tidy = is_tidy
        self.sandbox = Sandbox(push.bundle, push.version)
        self.now = clock.now()
        self.report = RegisterReport(push)
        self.has_time_to_count = Countdown()
        self.refused: dict[str, set[str]] = defaultdict(set)
        # Results of custom timetables by DAG.
        self.next_runs: dict[str, NextRuns] = {}
        self.asked_after: dict[str, DagRunInfo | None] = {}

    def run(self) -> RegisterReport:
        try:
            parsed, malformed = drop_malformed(self.sandbox.parse())
        except DefinitionError as error:
            # The bundle is unreadable: what was registered before stays.
            problem = ImportProblem("(the whole bundle)", None, str(error))
            import_problems.add_error(self.push, problem)
            self.report.errors.append(problem)
            # Not as registered: the push after it must know of one before that died half-way.
            mark_unreadable(self.push.bundle, self.push.number)
            return self.report
        found = combine(parsed)
        self.report.errors += [*found.errors, *malformed]
        self.report.warnings += found.warnings
        definitions = list(self._without_cycles(list(self._read(found.dags))))
        assets.register_assets([item.dag for item in definitions], self.push)
        for group in queues.chunks(definitions, _DAGS_AT_ONCE):
            self._write(group)
        import_problems.replace_problems(
            self.push,
            self.report.errors,
            self.report.warnings,
            broken={problem.file for problem in found.errors},
            refused=self.refused,
        )
        self.report.stale, self.report.broken = retire(self.push)
        pushes.end(self.push, errors=len(self.report.errors))
        queues.send_retire(self.push.bundle, self.push.number, delay=_INDEX_LAG_SECONDS)
        return self.report

    def _read(self, dags: Iterable[CheckedDag]) -> Iterator[Definition]:
        refused: dict[str, list[ImportProblem]] = {}
        for found, definition in runnable_definitions(dags, refused):
            for sentence in watchers.unwired(definition.dag, settings.current()):
                self.report.warnings.append(ImportProblem(found.file, found.line, sentence))
            yield definition
        for dag_id, problems in refused.items():
            for problem in problems:
                self._refuse(dag_id, problem)

    def _without_cycles(self, definitions: Sequence[Definition]) -> Iterator[Definition]:
        cycles = find_cycles([item.dag for item in definitions], bundle=self.push.bundle)
        for item in definitions:
            if item.dag_id in cycles:
                self._refuse(item.dag_id, ImportProblem(item.file, None, cycles[item.dag_id]))
            else:
                yield item

    def _refuse(self, dag_id: str, problem: ImportProblem) -> None:
        self.report.errors.append(problem)
        self.refused[problem.file].add(dag_id)

    def _write(self, group: Sequence[Definition]) -> None:
        malformed: list[Malformed] = []
        found = read_dags((item.dag_id for item in group), malformed=malformed)
        rows = {row.dag_id: row for row in found}
        unreadable = {key[0]: problem for key, problem in malformed}
        for item in group:
            if (problem := unreadable.get(item.dag_id)) is not None:
                self._refuse(item.dag_id, ImportProblem(item.file, None, problem))
        readable = [item for item in group if item.dag_id not in unreadable]
        mine = [item for item in readable if self._is_mine(item, rows.get(item.dag_id))]
        wanted = {item.dag_id: ids_of(item.condition) for item in mine}
        assets.add_consumers(wanted, self.push)
        self._query_timetables(mine, rows)
        room = settings.current().transaction_actions - 1  # one for the check of the push
        bulks = pack(
            [self._member(item, rows.get(item.dag_id)) for item in mine],
            (lambda member: len(member.writes), room),
            (lambda member: member.document_bytes, _MAX_BYTES),
        )
        written = [member for bulk in bulks for member in self._commit(bulk)]
        for member in written:
            row, kept = member.row, wanted[member.row.dag_id]
            # On the row, so that a repetition after a crash still knows them; except those of a
            # push that crashed before it wrote the row.
            if (row.referenced_assets or set()) != kept or not self.is_tidy:
                assets.drop_consumers(row.dag_id, kept, self.push)
            if row.watchers:
                watchers.register_watchers(row, member.item.dag, self.push)
        queues.announce_due(entry for member in written for entry in announcement(member.row))

    def _query_timetables(self, items: Sequence[Definition], rows: Mapping[str, Dags]) -> None:
        """Query custom timetables for the runs after their DAGs' positions, where needed."""
        positions = {
            item.dag_id: cursor.position(rows[item.dag_id]) if item.dag_id in rows else None
            for item in items
        }
        new = [
            item
            for item in items
            if item.dag_id not in self.next_runs
            or self.asked_after[item.dag_id] != positions[item.dag_id]
        ]
        self.next_runs |= query_definitions(self.sandbox, new, rows, now=self.now)
        self.asked_after |= positions

    def _is_mine(self, item: Definition, row: Dags | None) -> bool:
        if row is None:
            return True
        if row.bundle != self.push.bundle and not row.is_stale:
            message = (
                f"DAG {row.dag_id!r} belongs to bundle {row.bundle!r}; give this one another id"
            )
            self.report.errors.append(ImportProblem(item.file, None, message))
            return False
        # A newer push was faster. (Numbers of a bundle that gave the DAG up do not count.)
        return row.bundle != self.push.bundle or row.push <= self.push.number

    def _member(self, item: Definition, row: Dags | None) -> _Member:
        """Return what to write for one DAG, given its row as it is now."""
        row = row or item.new_row()
        before = row.hash
        writes = self._first_events(row, ids_of(item.condition))
        must_ask = define(row, item, item.condition, self.push, now=self.now)
        watchers.announce_watchers(row, item.dag)
        is_changed = row.hash != before
        if is_changed:
            writes.append(Put(item.version_of(row, now=self.now)))
        if must_ask or (
            self.push.skip_owed and (row.schedule_switch_at is not None or returns(row))
        ):
            writes += self._next_run(item, row)
        return _Member(item, row, [*writes, dag_write(row)], is_changed, is_asked=must_ask)

    def _next_run(self, item: Definition, row: Dags) -> Sequence[Write]:
        """Assign the next run to a DAG's row; return the other writes."""
        writes: Sequence[Write] = []
        if not item.is_custom:
            cursor.ask_schedule(row, now=self.now)
        else:
            self._keep_other_code(row)
            if row.schedule_switch_at is None:
                writes = [self.next_runs[row.dag_id].apply(row)]
        begins = has_new_schedule(row) or returns(row)
        if self.push.skip_owed and (row.schedule_switch_at is not None or begins):
            # The precomputed runs are replaced by those after the new position.
            writes = skip_owed(row, now=self.now) or writes
        return writes

    def _keep_other_code(self, row: Dags) -> None:
        """Keep the old schedule if the new code of its timetable computes other due runs."""
        before = row.as_stored()
        is_other = not row.is_stored or row.schedule_switch_at is not None or has_new_schedule(row)
        if is_other or before.bundle_version == row.bundle_version or not before.is_custom:
            return
        if cursor.is_owing(before, now=self.now):
            old = precomputed_runs_of([before])[row.dag_id]
            if not has_same_due_runs(old, self.next_runs[row.dag_id], row, now=self.now):
                cursor.keep_previous(row, own_schedule(before), now=self.now)

    def _first_events(self, row: Dags, wanted: set[str]) -> list[Write]:
        """Return the writes that fix the first events of a changed condition."""
        # By condition, not by references: a crashed push may have left some behind.
        new = wanted - waited_for(row)
        # Two for each, and those of the DAG itself.
        has_room = 2 * len(new) + 4 <= settings.current().transaction_actions
        before_and_after = wanted | (row.referenced_assets or set())
        if not new or len(before_and_after) == 1 or not has_room:
            return []
        return assets.begin_now(row.dag_id, new) if share_events(before_and_after) else []

    def _commit(self, bulk: list[_Member]) -> list[_Member]:
        """Commit some DAGs together, or each alone if one conflicts."""
        try:
            pushes.write(self.push, [write for member in bulk for write in member.writes])
        except (TransactionCanceled, PermanentError):
            bulk = [one for member in bulk if (one := self._commit_alone(member.item)) is not None]
        for member in bulk:
            self._count(member)
        return bulk

    def _commit_alone(self, item: Definition) -> _Member | None:
        for _ in retry_attempts():
            row = read_dag(item.dag_id)
            if not self._is_mine(item, row):
                return None
            if row is None:
                row = item.new_row()
                row.version = newest_version(item.dag_id)
            # A claim may have advanced the schedule, so the next runs are queried again.
            self._query_timetables([item], {row.dag_id: row})
            member = self._member(item, row)
            try:
                pushes.write(self.push, member.writes)
            except TransactionCanceled:
                continue
            except PermanentError as error:
                self._refuse(item.dag_id, ImportProblem(item.file, None, str(error)))
                return None
            return member
        raise TransientError(f"DAG {item.dag_id!r} is being changed by too many at once")

    # The report.

    def _count(self, member: _Member) -> None:
        row, report = member.row, self.report
        if row.rev == 1:
            report.new.append(row.dag_id)
        elif member.is_changed:
            report.changed.append(row.dag_id)
        else:
            report.unchanged += 1
        if not member.is_asked:
            return
        found = self.next_runs.get(row.dag_id)
        error = row.schedule_error or (None if found is None else found.error)
        if error is not None:
            report.errors.append(ImportProblem(member.item.file, None, error))
        if owed := self._owed(member):
            report.owed[row.dag_id] = owed

    def _owed(self, member: _Member) -> int:
        row = member.row
        if not cursor.is_owing(row, now=self.now):
            return 0
        if member.item.is_custom and row.schedule_switch_at is None:
            return self.next_runs[row.dag_id].owed
        return count_owed(row, now=self.now, has_time=self.has_time_to_count).known


# Retiring: DAGs leave the index and keep their history.


def retire(push: Push) -> tuple[list[str], list[str]]:
    """Mark the DAGs of a bundle that this push did not write; return the stale and the broken.

    A DAG that was refused, or whose file could not be imported, is broken, not stale.
    """
    broken_files, refused = import_problems.read_broken(push.bundle)
    stale: list[str] = []
    broken: list[str] = []
    # Malformed rows are reported by `doctor`.
    for row in read_dags(dag_ids_of_bundle(push.bundle), malformed=[]):
        is_broken = row.dag_id in refused or row.file in broken_files
        if _mark(row, push, is_broken=is_broken):
            (broken if is_broken else stale).append(row.dag_id)
    return sorted(stale), sorted(broken)


def _mark(row: Dags, push: Push, *, is_broken: bool) -> bool:
    is_marked = False
    if row.watchers and not is_broken and row.bundle == push.bundle and row.push < push.number:
        watchers.drop_watchers(row, frozenset(), push)

    def change(row: Dags) -> Sequence[Write] | None:
        nonlocal is_marked
        is_marked = False
        if row.bundle != push.bundle or row.push >= push.number:
            return None  # written by this push, a newer one, or another bundle
        if row.is_stale or (is_broken and row.has_import_errors):
            return None
        is_marked = True
        row.has_import_errors, row.is_stale = is_broken, not is_broken
        return []

    pushes.change_dag(push, row.dag_id, change, row=row)
    return is_marked
