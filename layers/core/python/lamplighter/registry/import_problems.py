"""Import errors and warnings of pushes, one row per file."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from lamplighter.bundles.importer import ImportProblem
from lamplighter.errors import in_short
from lamplighter.registry import pushes
from lamplighter.registry.pushes import Push
from lamplighter.store.bundles import problems_row, read_bundles, read_problems
from lamplighter.store.models import Catalog
from lamplighter.store.transactions import Delete, Put

_MAX_PER_FILE = 20
_MAX_FRAMES = 10


def replace_problems(
    push: Push,
    errors: Sequence[ImportProblem],
    warnings: Sequence[ImportProblem],
    *,
    broken: AbstractSet[str],
    refused: Mapping[str, AbstractSet[str]],
) -> None:
    """Replace the problems of a bundle by those of a push.

    `broken` are files that could not be imported, `refused` are DAGs that could not be stored.
    """
    by_file: dict[str, list[dict[str, object]]] = defaultdict(list)
    for severity, found in (("error", errors), ("warning", warnings)):
        for problem in found:
            by_file[problem.file].append(_as_json(severity, problem))
    faulty = {problem.file for problem in errors}
    for file, items in by_file.items():
        row = _row(push, file, items, has_errors=file in faulty)
        row.is_broken = file in broken
        row.refused = set(refused.get(file, ())) or None
        pushes.write(push, [Put(row, may_replace=True)])
    for row in read_problems(push.bundle):
        if row.id not in by_file:
            pushes.write(push, [Delete(row)])


def add_error(push: Push, error: ImportProblem) -> None:
    """Add an error to the problems of a bundle."""
    row = _row(push, error.file, [_as_json("error", error)], has_errors=True)
    pushes.write(push, [Put(row, may_replace=True)])


def all_problems() -> list[dict[str, Any]]:
    """Return errors and warnings of all bundles with the bundle's name, errors first."""
    found = [
        {"bundle": bundle.id, **problem}
        for bundle in read_bundles(consistent=False)
        for row in read_problems(bundle.id)
        for problem in row.problems or ()
    ]
    return sorted(found, key=lambda problem: bool(problem["severity"] != "error"))


def read_broken(bundle: str) -> tuple[set[str], set[str]]:
    """Return the files of a bundle that could not be imported, and its refused DAGs."""
    rows = read_problems(bundle)
    refused: set[str] = set().union(*(row.refused or () for row in rows))
    return {row.id for row in rows if row.is_broken}, refused


def _as_json(severity: str, problem: ImportProblem) -> dict[str, object]:
    return {
        "severity": severity,
        "file": problem.file,
        "line": problem.line,
        "message": in_short(problem.message),
        "frames": [in_short(frame) for frame in problem.frames[-_MAX_FRAMES:]],
    }


def _row(push: Push, file: str, items: Sequence[dict[str, object]], *, has_errors: bool) -> Catalog:
    some = items[:_MAX_PER_FILE]
    return problems_row(push.bundle, file, push=push.number, problems=some, has_errors=has_errors)
