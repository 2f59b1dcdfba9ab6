"""Rows of DAGs and their versions: reading, finding due ones, conditional changes."""

import gzip
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from pendulum import DateTime

from lamplighter import runtime, settings
from lamplighter.dags.dag import DAG
from lamplighter.errors import (
    UNREADABLE,
    MalformedRowError,
    NewerFormError,
    PermanentError,
    RefusedError,
    TransientError,
)
from lamplighter.loading import author_code_as_data
from lamplighter.serialization import decode_dag, upgrade
from lamplighter.store import wire
from lamplighter.store.models import Dags, DagVersions, Runs
from lamplighter.store.rows import Malformed
from lamplighter.store.slots import index_entry
from lamplighter.store.transactions import (
    Cause,
    Change,
    Put,
    TransactionCanceled,
    Update,
    Write,
    sleep_with_jitter,
    transact,
    transact_with_retry,
)

_TRIES = 24
_FIRST_PAUSE = 0.02


def read_dag(dag_id: str) -> Dags | None:
    """Return the row of a DAG, or None."""
    try:
        return Dags.get(dag_id, consistent_read=True)
    except Dags.DoesNotExist:
        return None


def read_dags(dag_ids: Iterable[str], *, malformed: list[Malformed] | None = None) -> list[Dags]:
    """Return the rows of the DAGs that exist, in the order of the ids.

    Malformed ones are left out and added to `malformed`.
    """
    order = {dag_id: at for at, dag_id in enumerate(dag_ids)}
    rows = Dags.batch_get(order, consistent_read=True, malformed=malformed)
    return sorted(rows, key=lambda row: order[row.dag_id])


def require_dag(dag_id: str) -> Dags:
    """Return the row of a DAG, or raise `RefusedError`."""
    row = read_dag(dag_id)
    if row is None:
        raise RefusedError(f"there is no DAG {dag_id!r}; push its bundle first")
    return row


def due_keys(shard: int, until: DateTime) -> Iterator[tuple[str, str]]:
    """Yield the due instants as text and the DAG ids of one shard."""
    items = wire.query_shard(Dags, "due", ("due_shard", "next_run_create_after"), shard, until)
    return ((item["next_run_create_after"]["S"], item["dag_id"]["S"]) for item in items)


def dag_write(row: Dags) -> Put | Change:
    """Return the write of everything assigned to a DAG's row, on condition that it is unchanged.

    The index entry is derived here, in the same write.
    """
    row.next_run_create_after, row.due_shard = index_entry(
        row, shards=settings.current().due_shards
    )
    if not row.is_stored:
        row.rev = 1
        return Put(row)
    row.rev = row.stored["rev"] + 1
    # `rev` is enough for our own writers; the flags also stop a claim after a manual edit in the
    # console, which does not raise `rev`.
    return Change(row, ("rev", "is_paused", "is_stale", "has_import_errors"))


def change_dag(
    dag_id: str, change: Callable[[Dags], Sequence[Write] | None], *, row: Dags | None = None
) -> Dags | None:
    """Change a DAG's row and others in one transaction; return the new row, None if there is none.

    `change` assigns to the row and returns the other writes, or None if there is nothing to do; it
    is called again if the row has changed. If another write is refused, `TransactionCanceled` is
    raised.
    """
    row = row or read_dag(dag_id)
    for _ in range(_TRIES):
        if row is None:
            return None
        others = change(row)
        if others is None:
            return row
        if not row.is_changed and not others:
            return row
        writes = [*others, dag_write(row)]
        try:
            transact_with_retry(writes)
        except TransactionCanceled as cancelled:
            *reasons, own = cancelled.reasons
            if any(reason.cause is Cause.CONDITION_FAILED for reason in reasons):
                raise
            row = own.row
            sleep_with_jitter(_FIRST_PAUSE)
        else:
            return row
    raise TransientError(f"DAG {dag_id!r} is contended; try again")


def note_failed_claim(dag_id: str, error: str, *, now: DateTime) -> None:
    """Record on a DAG's row that a claim failed, and why."""
    actions = [
        # Not `rev`: this must not conflict with a concurrent claim.
        Dags.claim_failures.set((Dags.claim_failures | 0) + 1),
        Dags.claim_failed_at.set(now),
        Dags.claim_error.set(error),
    ]
    # As a transaction, which does not read the row back: it may be malformed.
    transact([Update(Dags(dag_id), actions, Dags.dag_id.exists())])


def all_dags(
    *,
    with_backfills: bool = False,
    consistent: bool = True,
    malformed: list[MalformedRowError] | None = None,
) -> list[Dags]:
    """Return all DAGs, or those that have had a backfill; malformed ones go to `malformed`."""
    wanted = Dags.backfill.exists() if with_backfills else None
    return list(Dags.scan(wanted, consistent_read=consistent, malformed=malformed))


def all_dag_ids() -> list[str]:
    """Return the ids of all DAGs."""
    return [row.dag_id for row in Dags.scan(attributes_to_get=["dag_id"])]


def dags_with_schedule_errors() -> list[Dags]:
    """Return the DAGs whose schedules have errors."""
    return list(Dags.scan(Dags.schedule_error.exists()))


def dags_in_use() -> list[Dags]:
    """Return all DAGs that are in a bundle."""
    return list(Dags.scan(Dags.is_stale != True))  # noqa: E712 - an expression, not a comparison


def dag_ids_of_bundle(bundle: str) -> list[str]:
    """Return the DAGs of a bundle from the index, which may lag behind."""
    return [row.dag_id for row in Dags.by_file.query(bundle)]


# Definitions: the one that a run is pinned to, and the newest of a DAG.


def definition_of(run: Runs) -> DAG:
    """Return the DAG as it was defined when the run was created."""
    return _definition(run.dag_id, run.dag_version)


# A version is never changed.
@runtime.cached(maxsize=256)
def _definition(dag_id: str, version: str) -> DAG:
    try:
        row = DagVersions.get(dag_id, version, consistent_read=True)
    except DagVersions.DoesNotExist as error:
        raise PermanentError(f"DAG {dag_id!r} has no version {version}: was it deleted?") from error
    with author_code_as_data():
        return decode_dag(_document(row))


def newest_document(dag: Dags) -> dict[str, Any]:
    """Return the newest document of a DAG, or an empty one if it was deleted."""
    return newest_documents([dag]).get(dag.dag_id, {})


def newest_documents(
    dags: Iterable[Dags], *, skips_unreadable: bool = False
) -> dict[str, dict[str, Any]]:
    """Return the newest documents of DAGs by id."""
    keys = [(dag.dag_id, dag.version) for dag in dags]
    return _documents(keys, skips_unreadable=skips_unreadable)


def document_of_run(run: Runs) -> dict[str, Any]:
    """Return the document that a run was created from, or an empty one if it cannot be read."""
    key = (run.dag_id, run.dag_version)
    return _documents([key], skips_unreadable=True).get(run.dag_id, {})


def _documents(
    keys: Collection[tuple[str, str]], *, skips_unreadable: bool
) -> dict[str, dict[str, Any]]:
    malformed: list[Malformed] | None = [] if skips_unreadable else None
    documents: dict[str, dict[str, Any]] = {}
    for row in DagVersions.batch_get(keys, malformed=malformed) if keys else ():
        try:
            documents[row.dag_id] = upgrade(_document(row))
        except (*UNREADABLE, NewerFormError):
            if not skips_unreadable:
                raise
    return documents


def _document(row: DagVersions) -> dict[str, Any]:
    text = row.document if row.document_gzip is None else gzip.decompress(row.document_gzip)
    document: dict[str, Any] = json.loads(text or "")
    return document


def newest_version(dag_id: str) -> str | None:
    """Return a DAG's newest version; versions outlive a deleted row."""
    newest = DagVersions.query(dag_id, scan_index_forward=False, limit=1, consistent_read=True)
    return next((version.version for version in newest), None)
