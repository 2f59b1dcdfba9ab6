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
    for severity, found in (("error", errors), ("warning", warnings)):
        for problem in found:
            by_file[problem.file].append({"severity": severity, **asdict(problem)})
    broken = {problem.file for problem in errors}
    for file, items in by_file.items():
        _row(source, file, items, has_errors=file in broken).save()
    for row in Catalog.query(_kind(source.bundle), consistent_read=True):
        if row.id not in by_file and (row.push or 0) <= source.push:
            row.delete()


def note(source: Source, error: Problem) -> None:
    """Add an error to what is known about a bundle."""
    items: list[dict[str, object]] = [{"severity": "error", **asdict(error)}]
    _row(source, error.file, items, has_errors=True).save()


def _row(source: Source, file: str, items: list[dict[str, object]], *, has_errors: bool) -> Catalog:
    return Catalog(
        _kind(source.bundle),
        file,
        push=source.push,
        has_errors=has_errors,
        problems=items[:_MOST_PER_FILE],
        updated_at=clock.now(),
    )


def broken_files(bundle: str) -> set[str]:
    """Return the files of a bundle that could not be imported."""
    return {row.id for row in Catalog.query(_kind(bundle), consistent_read=True) if row.has_errors}


def _kind(bundle: str) -> str:
    return f"problems#{bundle}"
