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
    for file, items in by_file.items():
        refused_here = set(refused.get(file, ())) or None
        _put(push, file, items, is_broken=file in broken, refused=refused_here)
    for row in read_problems(push.bundle):
        if row.id not in by_file:
            pushes.write(push, [Delete(row)])


def add_error(push: Push, error: ImportProblem) -> None:
    """Add an error to the problems of a bundle."""
    _put(push, error.file, [_as_json("error", error)])


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


def _put(push: Push, file: str, items: Sequence[dict[str, object]], **columns: Any) -> None:
    row = problems_row(
        push.bundle,
        file,
        push=push.number,
        problems=items[:_MAX_PER_FILE],  # errors come first
        has_errors=any(item["severity"] == "error" for item in items),
        **columns,
    )
    pushes.write(push, [Put(row, may_replace=True)])
