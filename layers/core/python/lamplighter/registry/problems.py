"""Import errors and warnings as rows, one for each file that has any."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from lamplighter import clock
from lamplighter.bundles.importer import Problem
from lamplighter.errors import in_short
from lamplighter.registry import bundles
from lamplighter.registry.definition import Source
from lamplighter.store.models import Catalog
from lamplighter.store.transactions import Delete, Put

_MAX_PER_FILE = 20
_MAX_FRAMES = 10


def store(
    source: Source,
    errors: Sequence[Problem],
    warnings: Sequence[Problem],
    *,
    broken: AbstractSet[str],
    refused: Mapping[str, AbstractSet[str]],
) -> None:
    """Let the rows of a bundle be what a push found; files that are fine now lose theirs.

    `broken` are the files that could not be imported, `refused` the DAGs of other files that are
    defined in a way that cannot be stored.
    """
    by_file: dict[str, list[dict[str, object]]] = defaultdict(list)
    for severity, found in (("error", errors), ("warning", warnings)):
        for problem in found:
            by_file[problem.file].append(_as_json(severity, problem))
    faulty = {problem.file for problem in errors}
    for file, items in by_file.items():
        row = _row(source, file, items)
        row.has_errors, row.is_broken = file in faulty, file in broken
        row.refused = set(refused.get(file, ())) or None
        bundles.write(source, [Put(row, may_replace=True)])
    for row in list(Catalog.query(_kind(source.bundle), consistent_read=True)):
        if row.id not in by_file:
            bundles.write(source, [Delete(row)])


def note(source: Source, error: Problem) -> None:
    """Add an error to what is known about a bundle."""
    items = [_as_json("error", error)]
    row = _row(source, error.file, items)
    row.has_errors = True
    bundles.write(source, [Put(row, may_replace=True)])


def all_problems() -> list[dict[str, Any]]:
    """Return errors and warnings of all bundles, each with the bundle's name; errors first."""
    found = [
        {"bundle": bundle.id, **problem}
        for bundle in Catalog.query(bundles.KIND)
        for row in Catalog.query(_kind(bundle.id), consistent_read=True)
        for problem in row.problems or ()
    ]
    return sorted(found, key=lambda problem: bool(problem["severity"] != "error"))


def broken(bundle: str) -> tuple[set[str], set[str]]:
    """Return the files of a bundle that could not be imported, and the DAGs that were refused."""
    rows = list(Catalog.query(_kind(bundle), consistent_read=True))
    refused: set[str] = set().union(*(row.refused or () for row in rows))
    return {row.id for row in rows if row.is_broken}, refused


def _as_json(severity: str, problem: Problem) -> dict[str, object]:
    return {
        "severity": severity,
        "file": problem.file,
        "line": problem.line,
        "message": in_short(problem.message),
        "frames": [in_short(frame) for frame in problem.frames[-_MAX_FRAMES:]],
    }


def _row(source: Source, file: str, items: list[dict[str, object]]) -> Catalog:
    return Catalog(
        _kind(source.bundle),
        file,
        push=source.push,
        problems=items[:_MAX_PER_FILE],
        updated_at=clock.now(),
    )


def _kind(bundle: str) -> str:
    return f"problems#{bundle}"
