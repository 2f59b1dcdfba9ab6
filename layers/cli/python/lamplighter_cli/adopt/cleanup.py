"""The last step of a translation: imports, and what nothing needs any more.

Works on the translated text, which it parses again: what is left of Airflow there is what was not
understood.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterator

from lamplighter_cli.adopt.names import advice_on
from lamplighter_cli.adopt.source import CODING, is_airflow

# What the function that reads DAG files has besides the standard library.
_PACKAGES = frozenset(
    {
        "lamplighter_job",
        "pendulum",
        "dateutil",
        "boto3",
        "botocore",
        "jinja2",
        "croniter",
        "cron_descriptor",
    }
    | {"tzdata", "lamplighter", "pynamodb", "aws_lambda_powertools"}
)


class Leftover(Exception):
    """A name of Airflow's that the translation still uses."""

    def __init__(self, path: str, line: int) -> None:
        super().__init__(f"{path} is not translated: {advice_on(path)}")
        self.line = line


def clean(
    text: str, imports: set[tuple[str, str]], handled: set[str], before: set[str], label: str
) -> str:
    """Return the final text of a DAG file; raise `Leftover`, or `SyntaxError`.

    `before` has the names that the original file used: an import that nothing uses now, and that
    something used then, is removed.
    """
    text = _without_unused(text, handled, before)
    tree = ast.parse(text)
    _check_leftovers(tree, {name for _, name in imports})
    lines = text.split("\n")
    for number, line in enumerate(lines[:2]):
        if CODING.match(line):  # what is written is UTF-8
            lines[number] = ""
    wanted = [line for line in _import_lines(imports) if line not in lines]
    removed = _airflow_import_lines(tree)
    at = min((first for first, _ in removed), default=None)
    if at is None:
        at = _after_docstring(tree)
    for first, last in sorted(removed, reverse=True):
        lines[first:last] = _rest_of_lines(tree, first, last)
    lines[at:at] = wanted
    cleaned = _without_triple_blanks("\n".join(lines)).strip("\n")
    cleaned = _with_pass(cleaned)
    return f"# Translated by `lamplighter adopt` from {label}\n{cleaned}\n"


def third_party(text: str, local: set[str]) -> Iterator[str]:
    """Yield the modules that the top of a file imports and that are in no function."""
    for node in ast.parse(text).body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names = [node.module]
        for name in names:
            root = name.partition(".")[0]
            if root not in sys.stdlib_module_names | _PACKAGES and name not in local:
                yield name


def names_used(tree: ast.AST) -> set[str]:
    """Return the names that are read somewhere."""
    return set(_count_names(tree))


def _count_names(tree: ast.AST) -> Counter[str]:
    return Counter(
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    )


def _without_unused(text: str, handled: set[str], before: set[str]) -> str:
    """Take out functions that have moved, and imports that only they used, until all are used."""
    while True:
        tree = ast.parse(text)
        used = _count_names(tree)
        spans = list(_unused(tree, used, handled, before))
        if not spans:
            return text
        lines = text.split("\n")
        for first, last, instead in sorted(spans, reverse=True):
            before_it = lines[first - 1].strip() if first else ""
            while not instead and last < len(lines) and not lines[last].strip():
                if before_it and not before_it.endswith(":"):
                    break
                last += 1  # noqa: PLW2901 - blank lines go with what they followed
            lines[first:last] = instead
        text = "\n".join(lines)


def _unused(
    tree: ast.Module, used: Counter[str], handled: set[str], before: set[str]
) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the lines of the first definition or import that nothing uses, and what to write."""
    for parent, body in _bodies(tree):
        for node in body:
            instead = _instead(node, used, handled, before)
            if instead is None:
                continue
            if not instead and len(body) == 1 and not isinstance(parent, ast.Module):
                instead = [" " * node.col_offset + "pass"]
            decorators = getattr(node, "decorator_list", [])
            first = min([node.lineno, *(each.lineno for each in decorators)]) - 1
            assert node.end_lineno is not None
            yield first, node.end_lineno, instead
            return  # one at a time: positions change


def _instead(
    node: ast.stmt, used: Counter[str], handled: set[str], before: set[str]
) -> list[str] | None:
    """Return the lines that take the place of a statement; None if it stays as it is."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            is_used = name not in handled | before or used[name] > _count_names(node)[name]
            return None if is_used else []
        case ast.ClassDef(name=name):
            return None if name not in handled | before or name in used else []
        case ast.Import() | ast.ImportFrom():
            if _is_future(node) or _is_airflow_import(node):
                return None
            kept = [
                alias
                for alias in node.names
                if _bound(alias) in used or _bound(alias) not in before or alias.name == "*"
            ]
            if len(kept) == len(node.names):
                return None
            return [" " * node.col_offset + ast.unparse(_with_names(node, kept))] if kept else []
    return None


def _bodies(tree: ast.AST) -> Iterator[tuple[ast.AST, list[ast.stmt]]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield node, body


def _bound(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _with_names(node: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> ast.stmt:
    if isinstance(node, ast.Import):
        return ast.Import(names)
    return ast.ImportFrom(node.module, names, node.level)


def _is_airflow_import(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import):
        return any(is_airflow(alias.name) for alias in node.names)
    return isinstance(node, ast.ImportFrom) and not node.level and is_airflow(node.module or "")


def _check_leftovers(tree: ast.Module, ours: set[str]) -> None:
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and _is_airflow_import(node):
            for alias in node.names:
                if is_airflow(alias.name):
                    imported[_bound(alias)] = alias.name if alias.asname else "airflow"
        elif isinstance(node, ast.ImportFrom) and _is_airflow_import(node):
            imported |= {_bound(each): f"{node.module}.{each.name}" for each in node.names}
    own = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            path = imported.get(node.id)
            if path is not None and node.id not in own | ours:
                raise Leftover(path, node.lineno)


def _airflow_import_lines(tree: ast.Module) -> set[tuple[int, int]]:
    """Return the lines of all imports of Airflow at the top level."""
    return {
        (node.lineno - 1, node.end_lineno or node.lineno)
        for node in tree.body
        if _is_airflow_import(node)
    }


def _rest_of_lines(tree: ast.Module, first: int, last: int) -> list[str]:
    """Return the other statements that begin in some lines."""
    return [
        ast.unparse(node)
        for node in tree.body
        if first < node.lineno <= last and not _is_airflow_import(node)
    ]


def _after_docstring(tree: ast.Module) -> int:
    at = 0
    for node in tree.body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not (is_text or _is_future(node)):
            break
        at = node.end_lineno or at
    return at


def _import_lines(imports: set[tuple[str, str]]) -> list[str]:
    by_module: dict[str, list[str]] = {}
    for module, name in sorted(imports):
        by_module.setdefault(module, []).append(name)
    lines = []
    for module, names in by_module.items():
        if not module:
            lines += [f"import {name}" for name in names]
            continue
        line = f"from {module} import {', '.join(names)}"
        if len(line) > 100:  # noqa: PLR2004 - the length of a line
            line = f"from {module} import (\n    " + ",\n    ".join(names) + ",\n)"
        lines.append(line)
    return lines


def _without_triple_blanks(text: str) -> str:
    """Leave at most two blank lines in a row, outside texts of several lines."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno is not None:
            inside |= set(range(node.lineno, node.end_lineno))
    kept: list[str] = []
    blanks = 0
    for number, line in enumerate(text.split("\n"), start=1):
        blanks = 0 if line.strip() or number in inside else blanks + 1
        if blanks <= 2:  # noqa: PLR2004 - as PEP 8 has it
            kept.append(line)
    return "\n".join(kept)


def _with_pass(text: str) -> str:
    """Replace the imports of Airflow inside blocks, which may be all that is in them."""
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom) and _is_airflow_import(node):
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            lines[first:last] = [" " * node.col_offset + "pass", *([""] * (last - first - 1))]
    return "\n".join(lines)
