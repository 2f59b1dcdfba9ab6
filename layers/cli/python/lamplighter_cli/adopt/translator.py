"""The state of one file's translation: what its parts share."""

import ast
import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from lamplighter_cli.adopt import jinja
from lamplighter_cli.adopt.constants import Constants
from lamplighter_cli.adopt.findings import DagReport, FileReport, Finding, Level, TaskReport
from lamplighter_cli.adopt.jobs import JobsModule, identifier
from lamplighter_cli.adopt.source import Edits, Source

# The rest of the line is for its name and indentation.
_LONGEST_LIST = 80


@dataclass(frozen=True)
class Scope:
    """Where a statement stands."""

    dag: DagReport | None = None
    # Before the ids of tasks; None if a group has an id that is only known when the file runs.
    prefix: str | None = ""
    # The statements of the functions around it.
    around: tuple[ast.stmt, ...] = ()
    in_loop: bool = False

    def inside(self, body: list[ast.stmt]) -> "Scope":
        """Return the scope of a function's body."""
        return replace(self, around=(*body, *self.around))


@dataclass(frozen=True)
class TaskRef:
    """A task, as later statements can refer to it."""

    task_id: str | None
    variable: str | None
    is_python: bool


@dataclass(frozen=True)
class TaskFunction:
    """A function that a decorator makes a task."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    kind: str
    options: tuple[ast.keyword, ...]
    scope: Scope


@dataclass
class Statement:
    """The statement that is being translated, and what must stand before and after it."""

    direct: ast.expr | None = None
    target: str | None = None
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    text: str | None = None


class Translator:
    """What has been found in a file, and its edits so far."""

    def __init__(self, source: Source, report: FileReport, root: Path, module: str) -> None:
        self.source = source
        self.report = report
        self.root = root
        self.constants = Constants(source.tree, source.names)
        self.edits = Edits(source)
        self.jobs = JobsModule(source, module, report.file)
        self.imports: set[tuple[str, str]] = set()
        self.scripts: dict[str, str] = {}
        self.tasks: dict[str, TaskRef] = {}
        self.results: dict[int, TaskRef] = {}
        self.task_functions: dict[str, TaskFunction] = {}
        # Definitions that nothing may need any more.
        self.handled: set[str] = set()
        self.statement = Statement()
        self.dag_variables: dict[str, DagReport] = {}
        self._ids: dict[tuple[int, str], int] = {}
        self._taken = {node.id for node in ast.walk(source.tree) if isinstance(node, ast.Name)}
        self.current_task: TaskReport | None = None

    @property
    def airflow(self) -> int:
        """The release of Airflow for which the file was written."""
        assert self.report.airflow is not None
        return self.report.airflow

    # Findings.

    def on_file(self, level: Level, node: ast.AST, message: str) -> None:
        """Say something about the file."""
        self.report.findings.append(Finding(level, getattr(node, "lineno", 1), message))

    def on_dag(self, dag: DagReport | None, level: Level, node: ast.AST, message: str) -> None:
        """Say something about a DAG."""
        findings = self.report.findings if dag is None else dag.findings
        findings.append(Finding(level, getattr(node, "lineno", 1), message))

    def on_task(self, level: Level, node: ast.AST, message: str, snippet: object = None) -> None:
        """Say something about the task that is being translated."""
        line = getattr(node, "lineno", 1)
        task = self.current_task
        if task is None:
            self.report.findings.append(Finding(level, line, message, snippet))
        else:
            said = f"task {task.task_id}: {message}"
            task.findings.append(Finding(level, line, said, snippet))

    # Names.

    def need(self, name: str, module: str = "lamplighter") -> str:
        """Have a name imported, and return it."""
        self.imports.add((module, name))
        return name

    def free_name(self, wanted: str) -> str:
        """Return a name that the file does not use."""
        name, number = identifier(wanted), 2
        while name in self._taken:
            name, number = f"{identifier(wanted)}_{number}", number + 1
        self._taken.add(name)
        return name

    def numbered_id(self, scope: Scope, label: str) -> str:
        """Return the id of a task that is made by calling a function, as Airflow numbers them."""
        key = (id(scope.dag), f"{scope.prefix}{label}")
        self._ids[key] = number = self._ids.get(key, -1) + 1
        return f"{label}__{number}" if number else label

    # Texts.

    def text(self, node: ast.expr) -> str:
        """Return the text of an expression as it is now."""
        return self.edits.node(node)

    def template(self, value: str, node: ast.AST) -> str:
        """Return a text that may be a template as Python, with a finding if it cannot stay."""
        made = jinja.translate(value)
        problem = jinja.problem(made)
        if problem is not None:
            self.on_task(Level.EDIT, node, f"template {value[:80]!r}: {problem}")
            made = jinja.without_problems(made)
        elif made != value:
            self.on_task(Level.CHANGE, node, f"template {value[:80]!r} is written {made[:80]!r}")
        return quoted(made)

    def argument(self, node: ast.expr) -> str:
        """Return an expression as one of a task's arguments, which are texts."""
        value = self.constants.value_or(node)
        if isinstance(value, str):
            return self.template(value, node)
        if isinstance(value, bool | int | float):
            return quoted(str(value))
        text = self.text(node)
        return text if isinstance(node, ast.JoinedStr) else f"str({text})"

    def arguments(self, node: ast.expr | None) -> str | None:
        """Return a list of arguments."""
        node = self.constants.node(node)
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return None
        if isinstance(node, ast.List | ast.Tuple) and not any(
            isinstance(each, ast.Starred) for each in node.elts
        ):
            return list_text([self.argument(each) for each in node.elts])
        return f"[str(each) for each in {self.text(node)}]"


def list_text(items: list[str]) -> str:
    """Return a list, of which each item has a line of its own if they are long."""
    text = f"[{', '.join(items)}]"
    if len(text) < _LONGEST_LIST:
        return text
    return "[\n" + "".join(f"    {item},\n" for item in items) + "]"


def quoted(text: str) -> str:
    """Return a text as Python."""
    return json.dumps(text, ensure_ascii=False)
