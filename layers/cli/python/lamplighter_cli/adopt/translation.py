"""Reads one Airflow file, reports on it, and makes its translation."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pendulum import DateTime

from lamplighter_cli.adopt.cleanup import Leftover, clean, names_used, third_party
from lamplighter_cli.adopt.findings import FileReport, Finding, Level
from lamplighter_cli.adopt.jobs import identifier
from lamplighter_cli.adopt.names import KEPT, last_part
from lamplighter_cli.adopt.schedules import AIRFLOW_3
from lamplighter_cli.adopt.source import (
    Names,
    Source,
    UnreadableError,
    is_airflow,
    silent_about_escapes,
)
from lamplighter_cli.adopt.translator import Translator
from lamplighter_cli.adopt.walk import Walk

AIRFLOW_2 = 2
_OLD_MODULES = re.compile(
    r"airflow\.(operators|sensors|contrib|hooks|datasets|executors|macros|utils\.dates"
    r"|operators\.\w+|models\.baseoperator|utils\.task_group|decorators\.base)\b"
)


@dataclass
class Translation:
    """A file's report, and the files of the bundle that are made of it, by path."""

    report: FileReport
    files: dict[str, str] = field(default_factory=dict)
    local_modules: set[str] = field(default_factory=set)


@silent_about_escapes()
def translate(
    path: Path, label: str, root: Path, *, airflow: int | None, at: DateTime
) -> Translation | None:
    """Return what becomes of a file; None if it has nothing to do with Airflow."""
    report = FileReport(label)
    try:
        source = Source(path)
    except UnreadableError as error:
        report.findings.append(Finding(Level.CANNOT, error.line, str(error)))
        return Translation(report)
    except OSError as error:
        report.findings.append(Finding(Level.CANNOT, 1, f"it cannot be read: {error.strerror}"))
        return Translation(report)
    paths = [*source.names.imported.values(), *source.names.starred]
    if not any(map(is_airflow, paths)):
        return None
    report.airflow, report.airflow_reason = airflow or 0, "as --airflow says"
    if airflow is None:
        report.airflow, report.airflow_reason = release_of(source)
    try:
        return _translate(source, report, label, root, at)
    except RecursionError:
        report.findings.append(Finding(Level.CANNOT, 1, "it is nested too deeply to be translated"))
        report.is_translated = False
        return Translation(report)


def release_of(source: Source) -> tuple[int, str]:
    """Return the major release of Airflow that a file is written for, and how that is known."""
    paths = _imported_modules(source)
    for path in paths:
        if path == "airflow.sdk" or path.startswith("airflow.sdk."):
            return AIRFLOW_3, "it imports airflow.sdk"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.keyword) and node.arg == "schedule_interval":
            return AIRFLOW_2, "it has the argument schedule_interval"
        if not isinstance(node, ast.Call) or last_part(source.names.path(node.func) or "") != "DAG":
            continue
        if any(each.arg == "timetable" for each in node.keywords):
            return AIRFLOW_2, "it has the argument timetable"
    for path in paths:
        if _OLD_MODULES.match(path):
            return AIRFLOW_2, f"it imports {path}"
    return AIRFLOW_3, "assumed: nothing in it says which; --airflow 2 chooses the other"


def _imported_modules(source: Source) -> list[str]:
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append(node.module)
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return found


def _translate(
    source: Source, report: FileReport, label: str, root: Path, at: DateTime
) -> Translation:
    placed = re.sub(r"^(dags|plugins)/", "", label)
    module = identifier(placed.removesuffix(".py"))
    translator = Translator(source, report, root, module)
    _resolve_stars(translator)
    before = names_used(source.tree)
    walk = Walk(translator)
    walk.run()
    for dag in walk.dags:
        dag.compare_runs(at)
    made = Translation(report)
    if "" in translator.handled:
        return made
    text = _clean(translator, before, label)
    if text is None:
        return made
    made.local_modules = set(_local_modules(source.tree))
    folder = "dags" if report.dags else _folder_of(source)
    made.files[f"{folder}/{placed}"] = text
    if translator.jobs:
        made.files[f"jobs/{module}.py"] = translator.jobs.render()
    made.files |= translator.scripts
    beside = _modules_beside(source.path, root)
    for place, made_text in (
        ("DAG files are read", text),
        ("Python tasks run", _jobs_text(translator)),
    ):
        for name in third_party(made_text, beside):
            message = f"{name} is not there where {place}: put it into lib/ if it is pure Python"
            line = _line_of_import(source.tree, name)
            report.findings.append(Finding(Level.EDIT, line, message))
    report.findings += _lost_comments(source, made.files.values())
    report.is_translated = True
    return made


def _clean(translator: Translator, before: set[str], label: str) -> str | None:
    try:
        return clean(translator.edits.text(), translator.imports, translator.handled, before, label)
    except Leftover as left:
        line = _line_of(translator.source, str(left).partition(" ")[0]) or left.line
        translator.report.findings.append(Finding(Level.EDIT, line, str(left)))
    except (SyntaxError, ValueError) as error:
        message = f"its translation would not be Python ({error}): please report this file"
        translator.report.findings.append(Finding(Level.CANNOT, 1, message))
    return None


def _jobs_text(translator: Translator) -> str:
    return translator.jobs.render() if translator.jobs else ""


def _line_of_import(tree: ast.Module, name: str) -> int:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == name:
            return node.lineno
        if isinstance(node, ast.Import) and any(alias.name == name for alias in node.names):
            return node.lineno
    return 1


def _lost_comments(source: Source, texts: Iterable[str]) -> Iterator[Finding]:
    """Yield a finding for the comments that stood inside of what was written anew."""
    kept = "\n".join(texts)
    lost = [(line, text) for line, text in source.comments() if text not in kept]
    if lost:
        more = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
        message = f"the comment {lost[0][1][:60]!r}{more} is lost: it was inside a call"
        yield Finding(Level.CHANGE, lost[0][0], message)


def _line_of(source: Source, path: str) -> int | None:
    """Return the first line of the original that uses a name."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name | ast.Attribute) and source.names.path(node) == path:
            return node.lineno
    return None


def _resolve_stars(translator: Translator) -> None:
    """Take the names of the table for imported where a star imports from Airflow."""
    names: Names = translator.source.names
    starred = [module for module in names.starred if is_airflow(module)]
    if not starred:
        return
    for node in ast.walk(translator.source.tree):
        if not isinstance(node, ast.Name) or node.id in names.imported:
            continue
        if node.id in KEPT or node.id.endswith(("Operator", "Sensor")):
            names.imported[node.id] = f"{starred[0]}.{node.id}"


def _folder_of(source: Source) -> str:
    """Return where a file without DAGs belongs."""
    classes = [node for node in source.tree.body if isinstance(node, ast.ClassDef)]
    for node in classes:
        for base in node.bases:
            path = source.names.airflow_path(base) or ""
            if last_part(path).endswith("Timetable"):
                return "timetables"
            if last_part(path).endswith("Trigger"):
                return "triggers"
    return "lib"


def _local_modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _modules_beside(path: Path, root: Path) -> set[str]:
    found = set()
    for module in _local_modules(ast.parse(path.read_bytes())):
        if find_module(module, path, root) is not None:
            found.add(module)
    return found


def find_module(module: str, path: Path, root: Path) -> Path | None:
    """Return the file of a module that stands beside a file, or in a folder of plugins."""
    relative = Path(*module.split("."))
    for folder in (root, path.parent, root / "plugins", root.parent / "plugins", root / "dags"):
        for candidate in (folder / relative.with_suffix(".py"), folder / relative / "__init__.py"):
            if candidate.is_file() and candidate.resolve().is_relative_to(root.parent.resolve()):
                return candidate
    return None
