"""What a bundle looks like on disk: `dags/`, and what goes with them, below one root."""

import sys
from pathlib import Path

from lamplighter.errors import DefinitionError

DAGS = "dags"
IMPORT_FOLDERS = (DAGS, "timetables", "triggers", "jobs", "lib")


def require_bundle(root: Path) -> Path:
    """Return the absolute root, or say what is missing below it."""
    if not (root / DAGS).is_dir():
        raise DefinitionError(
            f"{root} is not a bundle: there is no folder {root / DAGS}. A bundle has dags/, and"
            " beside it timetables/, triggers/, jobs/ and lib/ as needed"
        )
    return root.resolve()


def dag_files(root: Path) -> list[str]:
    """Return the DAG files below `root` by path, relative to it."""
    found = (path.relative_to(root) for path in (root / DAGS).rglob("*.py"))
    return sorted(path.as_posix() for path in found if not _is_hidden(path))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "__")) for part in path.parts)


def add_to_import_path(root: Path) -> None:
    """Make the bundle importable: `timetables.workday` and `workday` both work."""
    # The root comes first, so that the bundle's `jobs` package is the one that is found; its
    # folders come last, so that a file named like a standard module cannot take its place.
    sys.path.insert(0, str(root))
    sys.path.extend(str(root / folder) for folder in IMPORT_FOLDERS if (root / folder).is_dir())
