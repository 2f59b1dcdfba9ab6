"""Definitions as they are stored: the one that a run is pinned to, and the newest of a DAG."""

import gzip
import json
from collections.abc import Iterable
from typing import Any

from lamplighter import runtime
from lamplighter.dags.dag import DAG
from lamplighter.errors import PermanentError
from lamplighter.loading import author_code_as_data
from lamplighter.serialization import decode_dag, upgrade
from lamplighter.store.models import Dags, DagVersions, Runs


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
    """Return the document of a DAG as it was last pushed, or an empty one if it was deleted."""
    return newest_documents([dag]).get(dag.dag_id, {})


def newest_documents(dags: Iterable[Dags]) -> dict[str, dict[str, Any]]:
    """Return the documents of DAGs as they were last pushed, by id."""
    keys = [(dag.dag_id, dag.version) for dag in dags]
    rows = DagVersions.batch_get(keys) if keys else ()
    return {row.dag_id: upgrade(_document(row)) for row in rows}


def _document(row: DagVersions) -> dict[str, Any]:
    text = row.document if row.document_gzip is None else gzip.decompress(row.document_gzip)
    document: dict[str, Any] = json.loads(text or "")
    return document


def newest_version(dag_id: str) -> str | None:
    """Return the number of a DAG's newest version; they outlive a row that someone deleted."""
    newest = DagVersions.query(dag_id, scan_index_forward=False, limit=1, consistent_read=True)
    return next((version.version for version in newest), None)
