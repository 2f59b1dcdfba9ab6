"""Import errors and warnings as rows, one for each file that has any."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict

from lamplighter import clock
from lamplighter.bundles.importer import Problem
from lamplighter.registry.definition import Source
from lamplighter.store.models import Catalog

_MOST_PER_FILE = 20


def store(source: Source, errors: Sequence[Problem], warnings: Sequence[Problem]) -> None:
    """Let the rows of a bundle be what a push found; files that are fine now lose theirs."""
    by_file: dict[str, list[dict[str, object]]] = defaultdict(list)
    for kind, found in (("error", errors), ("warning", warnings)):
        for problem in found:
            by_file[problem.file].append({"kind": kind, **asdict(problem)})
    kind = _kind(source.bundle)
    broken = {problem.file for problem in errors}
    for file, items in by_file.items():
        Catalog(
            kind,
            file,
            push=source.push,
            has_errors=file in broken,
            problems=items[:_MOST_PER_FILE],
            updated_at=clock.now(),
        ).save()
    for row in Catalog.query(kind, consistent_read=True):
        if row.id not in by_file and (row.push or 0) <= source.push:
            row.delete()


def broken_files(bundle: str) -> set[str]:
    """Return the files of a bundle that could not be imported."""
    return {row.id for row in Catalog.query(_kind(bundle), consistent_read=True) if row.has_errors}


def _kind(bundle: str) -> str:
    return f"problems#{bundle}"
