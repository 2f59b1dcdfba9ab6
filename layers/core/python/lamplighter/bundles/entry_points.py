"""Looks whether the programs that tasks name are in the bundle, without importing any of them."""

import ast
from pathlib import Path

from lamplighter.bundles.layout import IMPORT_FOLDERS
from lamplighter.dags.task import SparkTask


def missing_program(root: Path, task: SparkTask) -> str | None:
    """Return what is wrong with the task's `entry_point` or `job`, or None."""
    if task.entry_point is not None:
        if not (root / task.entry_point).is_file():
            return f"entry_point: there is no file {task.entry_point!r} in the bundle"
        return None
    assert task.job is not None
    module, _, function = task.job.partition(":")
    source = _source_of(root, module)
    if source is None:
        if task.py_files or task.archives:
            return None  # the module comes with the job, where nobody can look before it runs
        return f"job: there is no module {module!r} in the bundle"
    if not _defines(source, function):
        return f"job: {source.relative_to(root).as_posix()} does not define {function!r}"
    return None


def _source_of(root: Path, module: str) -> Path | None:
    relative = Path(*module.split("."))
    for folder in (root, *(root / name for name in IMPORT_FOLDERS)):
        for candidate in (folder / relative.with_suffix(".py"), folder / relative / "__init__.py"):
            if candidate.is_file():
                return candidate
    return None


def _defines(source: Path, name: str) -> bool:
    try:
        tree = ast.parse(source.read_bytes())
    except SyntaxError:
        return False
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.ImportFrom():
                names.update(alias.asname or alias.name for alias in node.names)
    return name in names or "*" in names
