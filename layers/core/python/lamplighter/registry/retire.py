"""What a push no longer defines: its DAGs leave the index and keep their history."""

from collections.abc import Sequence

from lamplighter.registry import bundles, problems, watchers
from lamplighter.registry.definition import Source
from lamplighter.store.dags import change_dag, read_dags
from lamplighter.store.models import Dags
from lamplighter.store.transactions import TransactionCanceled, Write


def retire(source: Source) -> tuple[list[str], list[str]]:
    """Mark the DAGs of a bundle that this push did not write; return the stale and the broken.

    A DAG whose file could not be imported, or which was refused, is not gone: it waits for its
    author.
    """
    broken_files, refused = problems.broken(source.bundle)
    stale: list[str] = []
    broken: list[str] = []
    # A row that cannot be read is named by `doctor`; the others are retired.
    rows = read_dags((row.dag_id for row in Dags.by_file.query(source.bundle)), malformed=[])
    for row in rows:
        is_broken = row.dag_id in refused or row.place.rpartition("#")[0] in broken_files
        if _mark(row, source, is_broken=is_broken):
            (broken if is_broken else stale).append(row.dag_id)
    return sorted(stale), sorted(broken)


def _mark(row: Dags, source: Source, *, is_broken: bool) -> bool:
    is_marked = False
    if row.watchers and not is_broken and row.bundle == source.bundle and row.push < source.push:
        watchers.drop_watchers(row, frozenset(), source)

    def change(row: Dags) -> Sequence[Write] | None:
        nonlocal is_marked
        is_marked = False
        if row.bundle != source.bundle or row.push >= source.push:
            return None  # written by this push, a newer one, or another bundle
        if row.is_stale or (is_broken and row.has_import_errors):
            return None
        is_marked = True
        row.has_import_errors, row.is_stale = is_broken, not is_broken
        return [bundles.is_newest(source)]

    try:
        change_dag(row.dag_id, change, row=row)
    except TransactionCanceled as cancelled:
        bundles.require_newest(source, cancelled)
        raise
    return is_marked
