"""What `adopt` says about a file: findings about DAGs and tasks, and how much of them moves.

A DAG or a task is as far as its worst finding allows.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class Level(IntEnum):
    """How something moves."""

    MOVES = 0
    """As it is: at most its import changes."""
    CHANGE = 1
    """With a change that `--write` makes."""
    EDIT = 2
    """After an edit that a person makes."""
    CANNOT = 3
    """Not at all; the finding says what to do instead."""

    @property
    def label(self) -> str:
        """The level in a report."""
        return _LABELS[self]


_LABELS = {
    Level.MOVES: "moves",
    Level.CHANGE: "changes",
    Level.EDIT: "edit",
    Level.CANNOT: "cannot move",
}


@dataclass(frozen=True)
class Finding:
    """One sentence about one line."""

    level: Level
    line: int
    message: str
    snippet: Any = None
    """JSON to copy, such as the state of a state machine."""


@dataclass
class TaskReport:
    """One task, or the place where a loop makes several."""

    task_id: str
    operator: str
    line: int
    findings: list[Finding] = field(default_factory=list)

    @property
    def level(self) -> Level:
        """How the task moves."""
        return worst(self.findings)


@dataclass
class RunsComparison:
    """The next runs of a schedule in Airflow and here."""

    airflow: list[str]
    translated: list[str]
    unchanged: list[str]
    """If only the import changed."""
    first_difference: str | None
    reason: str | None


@dataclass
class DagReport:
    """One DAG, or the place where a loop or a function makes several."""

    dag_id: str
    line: int
    schedule: str = "None"
    findings: list[Finding] = field(default_factory=list)
    tasks: list[TaskReport] = field(default_factory=list)
    runs: RunsComparison | None = None
    no_runs_because: str | None = None

    @property
    def level(self) -> Level:
        """How the DAG moves: it cannot if none of its tasks can."""
        levels = [task.level for task in self.tasks]
        if levels and all(level is Level.CANNOT for level in levels):
            return Level.CANNOT
        return max([worst(self.findings), *(min(level, Level.EDIT) for level in levels)])


@dataclass
class FileReport:
    """One file."""

    file: str
    airflow: int | None = None
    airflow_reason: str = ""
    findings: list[Finding] = field(default_factory=list)
    dags: list[DagReport] = field(default_factory=list)
    is_translated: bool = False
    written: list[str] = field(default_factory=list)

    @property
    def all_findings(self) -> list[Finding]:
        """Everything that is said about the file, by line."""
        found = list(self.findings)
        for dag in self.dags:
            found += dag.findings
            for task in dag.tasks:
                found += task.findings
        return sorted(found, key=lambda finding: (finding.line, -finding.level, finding.message))

    def dag_level(self, dag: DagReport) -> Level:
        """Return how a DAG moves: what its file needs, it needs, too."""
        if self.is_translated:
            return max(dag.level, min(worst(self.findings), Level.EDIT))
        return max(dag.level, self._level)

    def task_level(self, task: TaskReport) -> Level:
        """Return how a task moves; a file that is not translated needs an edit at least."""
        return task.level if self.is_translated else max(task.level, self._level)

    @property
    def _level(self) -> Level:
        return max(Level.EDIT, worst(self.findings))


@dataclass(frozen=True)
class Yield:
    """How many of something move, move after edits, and do not."""

    moved: int
    after_edits: int
    not_moved: int

    @property
    def total(self) -> int:
        """How many there are."""
        return self.moved + self.after_edits + self.not_moved


def worst(findings: Iterable[Finding]) -> Level:
    """Return the level of what stands most in the way."""
    return max((finding.level for finding in findings), default=Level.MOVES)


def yields(reports: Iterable[FileReport]) -> tuple[Yield, Yield]:
    """Return the yield of all DAGs and of all tasks."""
    dags, tasks = Counter[Level](), Counter[Level]()
    for report in reports:
        for dag in report.dags:
            dags[report.dag_level(dag)] += 1
            for task in dag.tasks:
                tasks[report.task_level(task)] += 1
    return _yield(dags), _yield(tasks)


def _yield(counted: Counter[Level]) -> Yield:
    return Yield(
        counted[Level.MOVES] + counted[Level.CHANGE], counted[Level.EDIT], counted[Level.CANNOT]
    )
