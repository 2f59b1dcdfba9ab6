"""Imports one DAG file and returns what it defines, or what went wrong, as data.

This runs author code: only ever in a process of its own (see `worker`).
"""

import ast
import importlib.util
import sys
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path
from typing import Any

from lamplighter import clock, runtime
from lamplighter.bundles.layout import DAGS, IMPORT_FOLDERS, add_to_import_path
from lamplighter.dags.dag import DAG, Definitions, collect_definitions
from lamplighter.dags.kinds import PythonTask, SparkTask
from lamplighter.dags.task import Task
from lamplighter.errors import DefinitionError
from lamplighter.loading import author_code_allowed
from lamplighter.serialization import content_hash, decode_dag, encode_dag


@dataclass(frozen=True)
class ImportProblem:
    """An import error or warning: where, and what, in words for the author."""

    file: str
    line: int | None
    message: str
    frames: tuple[str, ...] = ()


@dataclass
class ParsedFile:
    """What one file defines. A file with a problem defines nothing."""

    file: str
    dags: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[ImportProblem] = field(default_factory=list)
    errors: list[ImportProblem] = field(default_factory=list)
    output: str = ""
    """The beginning of what the file printed while it was imported."""

    @classmethod
    def failed(cls, file: str, message: str) -> "ParsedFile":
        """Return a file that could not be imported at all."""
        return cls(file, errors=[ImportProblem(file, None, message)])

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ParsedFile":
        """Read what `asdict` returned, also after it was JSON."""
        warnings, errors = (
            [ImportProblem(p["file"], p["line"], p["message"], tuple(p["frames"])) for p in found]
            for found in (data["warnings"], data["errors"])
        )
        return cls(data["file"], data["dags"], warnings, errors, data["output"])


def import_file(root: Path, file: str) -> tuple[ParsedFile, list[DAG]]:
    """Return what `file` defines, as documents and as objects; an author's error is data."""
    parsed = ParsedFile(file)
    _make_importable(root)
    with warnings.catch_warnings(record=True) as caught, collect_definitions() as definitions:
        warnings.simplefilter("always", UserWarning)
        try:
            _run(root, file)
            dags = _dags_of(root, file, definitions)
            parsed.dags = [_document(root, dag) for dag in dags]
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - author code
            parsed.errors = [problem_of(root, file, error)]
            dags, parsed.dags = [], []
    for item in caught:
        path = _below(root, item.filename)
        if path is not None or issubclass(item.category, UserWarning):
            line = item.lineno if path == file else None
            parsed.warnings.append(ImportProblem(file, line, str(item.message)))
    for factory in definitions.factories:
        if not factory.was_called:
            message = f"@dag function {factory.dag_id!r} is never called, so there is no such DAG"
            parsed.warnings.append(ImportProblem(file, None, message))
    return parsed, dags


def load_dags(root: Path, file: str) -> list[DAG]:
    """Return the DAGs that `file` defines, their schedules untried; an author's error is raised."""
    _make_importable(root)
    with collect_definitions() as definitions:
        _run(root, file)
        return _dags_of(root, file, definitions)


class _SourceLoader(SourceFileLoader):
    """Loads what the file says now.

    Python takes compiled code for current if the source has the same size and was written in the
    same second: an edit of one digit, as of a schedule, would not be seen.
    """

    def path_stats(self, path: Any) -> Any:
        """Refuse: without the time of the source, compiled code is neither read nor written."""
        raise OSError(f"{path!r} is always compiled")


def _make_importable(root: Path) -> None:
    """Make the bundle importable, each module from its source."""
    find_below = FileFinder.path_hook((_SourceLoader, SOURCE_SUFFIXES))

    def hook(path: str) -> Any:
        if not Path(path).is_relative_to(root):
            raise ImportError("not a folder of the bundle", path=path)
        return find_below(path)

    sys.path_hooks.insert(0, hook)
    add_to_import_path(root)


def _run(root: Path, file: str) -> None:
    # The name under which the file is importable from the root, so that a timetable defined in it
    # is written down as `dags.orders.MyTimetable` and found again.
    name = file.removesuffix(".py").replace("/", ".")
    path = root / file
    spec = importlib.util.spec_from_file_location(name, path, loader=_SourceLoader(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def _dags_of(root: Path, file: str, definitions: Definitions) -> list[DAG]:
    """Return the DAGs that belong to this file, and not to another DAG file that it imports."""
    mine: dict[str, DAG] = {}
    for dag in definitions.dags:
        path = _below(root, dag.location.file) if dag.location else None
        if path is not None and path != file and path.startswith(f"{DAGS}/"):
            continue
        if dag.dag_id in mine:
            raise DefinitionError(f"DAG {dag.dag_id!r} is defined twice in this file")
        mine[dag.dag_id] = dag
    return list(mine.values())


def _document(root: Path, dag: DAG) -> dict[str, Any]:
    document = encode_dag(dag)
    _try_schedule(dag, document)
    for task in dag.tasks.values():
        problem = _missing_program(root, task)
        if problem:
            raise DefinitionError(f"DAG {dag.dag_id!r}: task {task.task_id!r}: {problem}")
    return {
        "dag_id": dag.dag_id,
        "line": dag.location.line if dag.location else None,
        "hash": content_hash(document),
        "schedule": dag.timetable.summary,
        "description": dag.timetable.description,
        "document": document,
    }


def _try_schedule(dag: DAG, document: dict[str, Any]) -> None:
    """Raise if the schedule fails, or gives other runs after it was serialized and read back."""
    with author_code_allowed(), runtime.using(clock=clock.FixedClock(clock.now())):
        copy, first = decode_dag(document), dag.next_dagrun_info()
        # One that reads the clock differs from itself too; `check` warns of it.
        if copy.next_dagrun_info() != first and dag.next_dagrun_info() == first:
            raise DefinitionError(
                f"DAG {dag.dag_id!r}: schedule: {dag.timetable.type_name} returns other runs after"
                " it is stored and read back: serialize and deserialize must keep its arguments"
            )


def problem_of(root: Path, file: str, error: BaseException) -> ImportProblem:
    """Return what an exception of author code means to its author: their frames only."""
    places = [
        (path, frame.lineno, frame.name)
        for frame in traceback.extract_tb(error.__traceback__)
        if (path := _below(root, frame.filename)) is not None
    ]
    if isinstance(error, SyntaxError) and error.filename:
        path = _below(root, error.filename)
        if path is not None:
            places.append((path, error.lineno, "<module>"))
    message = _sentence(error)
    line = next((number for path, number, _ in reversed(places) if path == file), None)
    if places and places[-1][0] != file:
        message += f" (in {places[-1][0]}, line {places[-1][1]})"
    return ImportProblem(file, line, message, tuple(f"{p}:{n} in {name}" for p, n, name in places))


def _sentence(error: BaseException) -> str:
    match error:
        case DefinitionError():
            return str(error)
        case SystemExit():
            return f"the file called sys.exit({error.code!r}); a DAG file only defines"
        case MemoryError():
            return "the file needs more memory than a DAG file may use"
        case ModuleNotFoundError(name=str(name)) if name.partition(".")[0] == "airflow":
            return f"{error}: change the import root from 'airflow' to 'lamplighter'"
        case SyntaxError():
            return f"{type(error).__name__}: {error.msg}"
    return f"{type(error).__name__}: {error}"


@cache  # asked once for each DAG, about the same few files
def _below(root: Path, filename: str) -> str | None:
    if filename.startswith("<"):  # code that is in no file
        return None
    try:
        return Path(filename).resolve().relative_to(root).as_posix()
    except ValueError:
        return None


# The programs that tasks name, looked for without importing any of them.


def _missing_program(root: Path, task: Task) -> str | None:
    """Return what is wrong with the task's `entry_point` or `job`, or None."""
    if not isinstance(task, SparkTask | PythonTask):
        return None
    if isinstance(task, SparkTask) and task.entry_point is not None:
        if not (root / task.entry_point).is_file():
            return f"entry_point: there is no file {task.entry_point!r} in the bundle"
        return None
    assert task.job is not None
    module, _, function = task.job.partition(":")
    source = _source_of(root, module)
    if source is None:
        if isinstance(task, SparkTask) and (task.py_files or task.archives):
            return None  # the module comes with the job, where nobody can look before it runs
        return f"job: there is no module {module!r} in the bundle"
    path = source.relative_to(root).as_posix()
    try:
        names = set(_names_in(ast.parse(source.read_bytes()).body))
    except SyntaxError as error:
        return f"job: {path}, line {error.lineno}: {error.msg}"
    if function not in names and "*" not in names:
        return f"job: {path} does not define {function!r}"
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
