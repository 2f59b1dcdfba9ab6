"""Finds timetables that read the clock, in their text: nothing is imported.

A schedule is computed ahead, again after a failure, and at other times in a simulation. One that
looks at the present gives other runs each time.

Owns: what counts as a timetable and as reading the clock. A helper in another file is not followed.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from lamplighter.bundles.importer import ImportProblem
from lamplighter.bundles.layout import IMPORT_FOLDERS

_READS = {
    *(f"datetime.datetime.{name}" for name in ("now", "today", "utcnow")),
    "datetime.date.today",
    "time.time",
    "time.time_ns",
    *(f"pendulum.{name}" for name in ("now", "today", "tomorrow", "yesterday")),
    *(f"pendulum.DateTime.{name}" for name in ("now", "today", "utcnow")),
    "pendulum.Date.today",
}


def clock_reads(root: Path) -> list[ImportProblem]:
    """Return a warning for each line of a timetable, or of its functions, that reads the clock."""
    files = sorted(path for folder in IMPORT_FOLDERS for path in (root / folder).rglob("*.py"))
    trees = {path.relative_to(root).as_posix(): _parsed(path) for path in files}
    names = _timetables(trees.values())
    return [
        ImportProblem(
            file,
            line,
            f"timetable {timetable.name!r} reads the clock ({read}): a schedule must depend only on"
            " its arguments; lamplighter.clock.now() is the instant that it is asked about",
        )
        for file, tree in trees.items()
        for timetable in _classes(tree)
        if timetable.name in names
        for line, read in sorted(_reads(timetable, tree))
    ]


def _parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return ast.Module([], [])  # importing it says what is wrong


def _classes(tree: ast.Module) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def _timetables(trees: Iterable[ast.Module]) -> set[str]:
    """Return the names of classes that derive from a timetable, perhaps of another file."""
    bases: dict[str, set[str]] = defaultdict(set)
    for node in chain.from_iterable(map(_classes, trees)):
        bases[node.name].update(map(_last_name, node.bases))
    found: set[str] = set()
    while new := {
        name
        for name, of in bases.items()
        if name not in found and any(base in found or base.endswith("Timetable") for base in of)
    }:
        found |= new
    return found


def _last_name(base: ast.expr) -> str:
    return ast.unparse(base).rpartition(".")[2]


def _reads(timetable: ast.ClassDef, tree: ast.Module) -> set[tuple[int, str]]:
    """Return the lines at which a timetable, or a function that it uses, reads the clock."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    aliases = _aliases(tree)
    found: set[tuple[int, str]] = set()
    waiting: list[ast.AST] = [timetable]
    while waiting:
        for node in ast.walk(waiting.pop()):
            if isinstance(node, ast.Name) and node.id in functions:
                waiting.append(functions.pop(node.id))
            elif isinstance(node, ast.Name | ast.Attribute):
                name = _full_name(node, aliases)
                if name in _READS:
                    found.add((node.lineno, name))
    return found


def _aliases(tree: ast.Module) -> dict[str, str]:
    """Return what the imported names of a file stand for."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                found[each.asname or each.name] = each.name
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                found[each.asname or each.name] = f"{node.module}.{each.name}"
    return found


def _full_name(node: ast.expr, aliases: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_full_name(node.value, aliases)}.{node.attr}"
    return aliases.get(node.id, "") if isinstance(node, ast.Name) else ""
