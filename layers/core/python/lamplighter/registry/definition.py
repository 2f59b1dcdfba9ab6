"""DAGs as a push defines them: read from the sandbox's result and assigned to rows.

Owns: what a push changes on a row. The position of the schedule, the paused state and the slots
belong to the row; a push never changes them. Writes nothing.
"""

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pendulum import DateTime

from lamplighter import executors
from lamplighter.assets.condition import encode_on_ids
from lamplighter.bundles.importer import ImportProblem
from lamplighter.bundles.parsing import BundleReport, CheckedDag
from lamplighter.dags.dag import DAG
from lamplighter.errors import UNREADABLE, DefinitionError, SerializationError, in_short
from lamplighter.loading import author_code_as_data
from lamplighter.registry.cycles import find_cycles
from lamplighter.registry.pushes import Push
from lamplighter.registry.sandbox import MAX_KEY_BYTES
from lamplighter.scheduler import cursor
from lamplighter.scheduler.asset_bounds import set_asset_start
from lamplighter.scheduler.pending import ids_of
from lamplighter.scheduler.schedules import own_schedule
from lamplighter.serialization import MAX_BYTES, content_hash, decode_dag, to_json
from lamplighter.store.assets import leaf_id
from lamplighter.store.models import Dags, DagVersions
from lamplighter.timetables.base import encode_timetable, is_foreign

# Up to this size the document is stored as readable text, beyond it compressed.
_READABLE_BYTES = 16_000
# DynamoDB limits an item to 400 KB.
_MAX_STORED_BYTES = 350_000
# It is on the DAG's row, which every claim reads.
_MAX_TIMETABLE_BYTES = 64_000


@dataclass(frozen=True)
class Definition:
    """One DAG of a push, parsed and checked."""

    dag: DAG
    hash: str
    file: str
    stored: str | bytes  # the document as text, or compressed
    schedule: str  # the timetable's summary

    @property
    def dag_id(self) -> str:
        """The id of the DAG."""
        return self.dag.dag_id

    @property
    def condition(self) -> Any:
        """What the DAG waits for, on the ids of assets, as its row has it; None if nothing."""
        return encode_on_ids(self.dag.timetable.asset_condition, leaf_id)

    @property
    def is_custom(self) -> bool:
        """Whether it has a custom timetable, which only the sandbox can run."""
        return is_foreign(self.dag.timetable)

    def new_row(self) -> Dags:
        """Return the row of a new DAG."""
        return Dags(self.dag_id, is_paused=self.dag.is_paused_upon_creation)

    def version_of(self, row: Dags, *, now: DateTime) -> DagVersions:
        """Return the definition as the version that its DAG's row names."""
        is_text = isinstance(self.stored, str)
        return DagVersions(
            row.dag_id,
            row.version,
            hash=row.hash,
            bundle=row.bundle,
            bundle_version=row.bundle_version,
            created_at=now,
            document=self.stored if is_text else None,
            document_gzip=None if is_text else self.stored,
        )


def read_definition(found: CheckedDag) -> Definition:
    """Return a DAG that can be stored, or raise a `DefinitionError`."""
    document = {**found.document, "dag_id": found.dag_id}
    try:
        with author_code_as_data():
            dag = decode_dag(document)
        dag.check_limits()
        text = to_json(document)
        definition = Definition(
            dag=dag,
            hash=content_hash(document),
            file=found.file,
            stored=_stored(found.dag_id, text),
            # A custom timetable is only data here; its summary comes from the sandbox.
            schedule=in_short(found.schedule)
            if is_foreign(dag.timetable)
            else dag.timetable.summary,
        )
        timetable = len(to_json(document["timetable"]).encode())
    except DefinitionError:
        raise
    except UNREADABLE as error:
        raise SerializationError(f"DAG {found.dag_id!r} cannot be read: {error!r}") from error
    if len(f"{found.file}#{found.dag_id}".encode()) > MAX_KEY_BYTES:
        raise DefinitionError(f"DAG {found.dag_id!r}: its file name and id are too long together")
    if timetable > _MAX_TIMETABLE_BYTES:
        raise DefinitionError(
            f"DAG {found.dag_id!r}: schedule: it has {timetable:,} bytes when serialized, at most"
            f" {_MAX_TIMETABLE_BYTES:,} are allowed: list fewer events, or compute them"
        )
    return definition


def runnable_definitions(
    dags: Iterable[CheckedDag], refused: dict[str, list[ImportProblem]]
) -> Iterator[tuple[CheckedDag, Definition]]:
    """Yield the DAGs that can be stored and run; add to `refused`, by DAG, why others cannot."""
    for found in dags:
        try:
            definition = read_definition(found)
            problems = [
                f"DAG {found.dag_id!r}: task {task.task_id!r}: {problem}"
                for task in definition.dag.tasks.values()
                for problem in executors.for_task(task).check(task)
            ]
        except DefinitionError as error:
            problems = [str(error)]
        if not problems:
            yield found, definition
            continue
        refused[found.dag_id] = [ImportProblem(found.file, found.line, text) for text in problems]


def without_refused(report: BundleReport) -> BundleReport:
    """Return what a bundle defines, with DAGs that a registration would refuse as errors.

    Templates are tried with sample values; what goes wrong with them is a warning.
    """
    refused: dict[str, list[ImportProblem]] = {}
    runnable = list(runnable_definitions(report.dags, refused))
    errors = [problem for problems in refused.values() for problem in problems]
    cycles = find_cycles([definition.dag for _, definition in runnable])
    errors += [
        ImportProblem(found.file, found.line, cycles[found.dag_id])
        for found, _ in runnable
        if found.dag_id in cycles
    ]
    warnings = [
        ImportProblem(found.file, found.line, problem)
        for found, definition in runnable
        for problem in definition.dag.try_templates()
    ]
    return replace(
        report,
        dags=tuple(found for found, _ in runnable if found.dag_id not in cycles),
        errors=(*report.errors, *errors),
        warnings=(*report.warnings, *warnings),
    )


def _stored(dag_id: str, text: str) -> str | bytes:
    data = text.encode()
    if len(data) <= _READABLE_BYTES:
        return text
    packed = gzip.compress(data, mtime=0)
    if len(data) > MAX_BYTES or len(packed) > _MAX_STORED_BYTES:
        raise SerializationError(
            f"DAG {dag_id!r}: its document has {len(data):,} bytes, {len(packed):,} compressed; at"
            f" most {MAX_BYTES:,} and {_MAX_STORED_BYTES:,} can be stored: split the DAG"
        )
    return packed


def define(row: Dags, definition: Definition, condition: Any, push: Push, *, now: DateTime) -> bool:
    """Assign a definition and its `condition` on asset ids to a row.

    Returns whether the next run must be computed anew.
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
    row.referenced_assets = (row.referenced_assets or set()) | ids_of(condition) or None
    if condition != row.asset_condition or row.schedule_error is not None:
        # Pending events may satisfy the new condition, an unreadable one has missed some, and a new
        # DAG had references before its row: the claim checks.
        row.asset_condition_met_at = now if condition else None
        row.asset_condition = condition
    set_asset_start(row, now=now)
    if row.hash != definition.hash:
        row.version = f"{int(row.version or 0) + 1:06}"
        row.hash = definition.hash
    row.bundle, row.bundle_version, row.push = push.bundle, push.version, push.number
    row.source_key = f"{definition.file}#{dag.dag_id}"
    row.is_stale = row.has_import_errors = False
    if row.next_run_after is None:
        cursor.drop_previous(row)  # an old schedule that failed cannot be followed
    elif old is not None and _schedule(row) != before:
        cursor.keep_previous_if_due(row, old, now=now)
    return is_changed or definition.is_custom


def has_new_schedule(row: Dags) -> bool:
    """Return whether the assigned definition has a new schedule."""
    return not row.is_stored or _schedule(row) != _schedule(row.as_stored())


def returns(row: Dags) -> bool:
    """Return whether the DAG was in no bundle before the assigned definition."""
    return bool(row.stored.get("is_stale"))


def _schedule(row: Dags) -> tuple[object, ...]:
    return (row.timetable, row.earliest, row.latest, row.catchup)
