"""What to do about an import of Airflow in a bundle, from the table of `adopt`."""

import ast
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from lamplighter.bundles.importer import ImportProblem
from lamplighter_cli.adopt.names import advice_on
from lamplighter_cli.adopt.source import Source, UnreadableError, is_airflow

_NO_AIRFLOW = "No module named 'airflow"
_HOW = "`lamplighter adopt` translates Airflow files"
_MOST = 3


def with_advice(root: Path, problems: Iterable[ImportProblem]) -> tuple[ImportProblem, ...]:
    """Return problems, each that is an import of Airflow with what to write instead."""
    return tuple(
        _with_advice(root, problem) if _NO_AIRFLOW in problem.message else problem
        for problem in problems
    )


def _with_advice(root: Path, problem: ImportProblem) -> ImportProblem:
    file, line = problem.file, problem.line
    if problem.frames:  # the import may be in a module of the bundle that the file imports
        file, _, rest = problem.frames[-1].partition(":")
        line = int(rest.partition(" ")[0])
    said = [f"{name}: {advice_on(path)}" for name, path in _imported(root / file, line)]
    more = [f"and {len(said) - _MOST} more"] if len(said) > _MOST else []
    advice = "; ".join([*said[:_MOST], *more, _HOW])
    return replace(problem, message=f"{problem.message}; {advice}")


def _imported(path: Path, line: int | None) -> list[tuple[str, str]]:
    """Return what the statement in a line imports from Airflow: names and paths."""
    try:
        tree = Source(path).tree
    except (UnreadableError, OSError):
        return []
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(lineno=at, module=str(module)) if at == line and is_airflow(module):
                return [(alias.name, f"{module}.{alias.name}") for alias in node.names]
    return []
