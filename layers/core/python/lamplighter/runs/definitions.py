"""The definition that a run is pinned to, whatever has been pushed since."""

import gzip
import json
from functools import lru_cache

from lamplighter.dags.dag import DAG
from lamplighter.errors import PermanentError
from lamplighter.loading import author_code_as_data
from lamplighter.serialization import decode_dag
from lamplighter.store.models import DagVersions, Runs


def definition_of(run: Runs) -> DAG:
    """Return the DAG as it was defined when the run was created."""
    return _definition(DagVersions.Meta.table_name, run.dag_id, run.dag_version)


# A version is never changed. The table is part of the key for tests, which begin again with others.
@lru_cache(maxsize=256)
def _definition(table: str, dag_id: str, version: str) -> DAG:  # noqa: ARG001 - a part of the key
    try:
        row = DagVersions.get(dag_id, version, consistent_read=True)
    except DagVersions.DoesNotExist as error:
        raise PermanentError(f"DAG {dag_id!r} has no version {version}: was it deleted?") from error
    text = row.document if row.document_gzip is None else gzip.decompress(row.document_gzip)
    with author_code_as_data():
        return decode_dag(json.loads(text or ""))


def forget_definitions() -> None:
    """Forget all definitions: for tests, which begin again with other tables."""
    _definition.cache_clear()
