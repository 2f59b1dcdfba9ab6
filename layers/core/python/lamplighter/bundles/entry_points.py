"""Looks whether the programs that tasks name are in the bundle, without importing any of them."""

import ast
from collections.abc import Iterator
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
    place = source.relative_to(root).as_posix()
    try:
        names = set(_names_in(ast.parse(source.read_bytes()).body))
    except SyntaxError as error:
        return f"job: {place}, line {error.lineno}: {error.msg}"
    if function not in names and "*" not in names:
        return f"job: {place} does not define {function!r}"
    return None


def _source_of(root: Path, module: str) -> Path | None:
    relative = Path(*module.split("."))
    for folder in (root, *(root / name for name in IMPORT_FOLDERS)):
        for candidate in (folder / relative.with_suffix(".py"), folder / relative / "__init__.py"):
            if candidate.is_file():
                return candidate
    return None


def _names_in(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements of a module define, without looking into functions."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.ImportFrom() | ast.Import():
                yield from (alias.asname or alias.name for alias in node.names)
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.If() | ast.Try() | ast.With():
                for part in ("body", "orelse", "finalbody"):
                    yield from _names_in(getattr(node, part, []))
                for handler in getattr(node, "handlers", []):
                    yield from _names_in(handler.body)
