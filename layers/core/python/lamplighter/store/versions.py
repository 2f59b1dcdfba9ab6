"""The versions of DAGs: every definition that one ever had."""

from lamplighter.store.models import DagVersions


def newest_version(dag_id: str) -> str | None:
    """Return the number of a DAG's newest version; they outlive a row that someone deleted."""
    newest = DagVersions.query(dag_id, scan_index_forward=False, limit=1, consistent_read=True)
    return next((version.version for version in newest), None)
