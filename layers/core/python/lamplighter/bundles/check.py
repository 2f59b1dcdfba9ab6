"""Checks a bundle: parses every DAG file in isolation and puts the answers together."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lamplighter.bundles.fork import DEFAULT_LIMITS, Limits
from lamplighter.bundles.importer import ParsedFile, Problem
from lamplighter.bundles.layout import dag_files, require_bundle
from lamplighter.bundles.worker import ParseRequest, Upcoming
from lamplighter.bundles.workers import ask_workers
from lamplighter.errors import DefinitionError


@dataclass(frozen=True)
class CheckedDag:
    """A DAG that a bundle defines, and where."""

    dag_id: str
    file: str
    line: int | None
    schedule: str
    description: str
    hash: str
    document: dict[str, Any]


@dataclass(frozen=True)
class BundleReport:
    """Everything a bundle defines, and everything that is wrong with it."""

    dags: tuple[CheckedDag, ...]
    warnings: tuple[Problem, ...]
    errors: tuple[Problem, ...]
    outputs: dict[str, str]
    """What each file with an error printed before it."""


def check_bundle(
    root: Path, *, limits: Limits = DEFAULT_LIMITS, on_file: Callable[[str], None] = lambda _: None
) -> BundleReport:
    """Return what the bundle at `root` defines; `on_file` is told of each file that is done."""
    root = require_bundle(root)
    parsed = []
    for answer in _ask_all(root, limits, parse_later_again=True):
        parsed.append(ParsedFile.from_json(answer))
        on_file(answer["file"])
    return combine(parsed)


def find_coming_runs(
    root: Path, question: Upcoming, *, limits: Limits = DEFAULT_LIMITS
) -> tuple[CheckedDag, list[dict[str, Any]]]:
    """Return the DAG that the question is about, and its coming runs."""
    root = require_bundle(root)
    answers = list(_ask_all(root, limits, upcoming=question))
    report = combine([ParsedFile.from_json(answer) for answer in answers])
    by_file = {answer["file"]: answer for answer in answers}
    for dag in report.dags:
        if dag.dag_id == question["dag_id"]:
            answer = by_file[dag.file]
            if "runs_error" in answer:
                raise DefinitionError(f"{dag.file}: {answer['runs_error']}")
            return dag, answer["runs"]
    raise DefinitionError(_no_such_dag(question["dag_id"], report))


def _no_such_dag(dag_id: str, report: BundleReport) -> str:
    names = ", ".join(dag.dag_id for dag in report.dags[:10]) or "none"
    # The file that should define it may be the one that fails: errors that name it come first.
    errors = sorted(report.errors, key=lambda problem: repr(dag_id) not in problem.message)
    broken = "".join(f"; {problem.file}: {problem.message}" for problem in errors[:3])
    return f"there is no DAG {dag_id!r} in this bundle (there are: {names}){broken}"


def combine(parsed: list[ParsedFile]) -> BundleReport:
    """Return what all files define together; of two DAGs with one id the first by path is used."""
    dags: dict[str, CheckedDag] = {}
    warnings: list[Problem] = []
    errors: list[Problem] = []
    for file in sorted(parsed, key=lambda item: item.file):
        errors += file.errors
        warnings += file.warnings
        for found in file.dags if not file.errors else []:
            dag = CheckedDag(file=file.file, **found)
            first = dags.setdefault(dag.dag_id, dag)
            if first is not dag:
                message = (
                    f"DAG {dag.dag_id!r} is already defined in {first.file}: that one is used, this"
                    " one is ignored; give it another id"
                )
                warnings.append(Problem(dag.file, dag.line, message))
    outputs = {file.file: file.output for file in parsed if file.errors and file.output}
    return BundleReport(tuple(dags.values()), tuple(warnings), tuple(errors), outputs)


def _ask_all(
    root: Path,
    limits: Limits,
    *,
    parse_later_again: bool = False,
    upcoming: Upcoming | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the answer for each DAG file, as they come."""
    return ask_workers(
        [
            ParseRequest(
                root=str(root),
                file=file,
                seconds=limits.seconds,
                memory_bytes=limits.memory_bytes,
                parse_later_again=parse_later_again,
                upcoming=upcoming,
            )
            for file in dag_files(root)
        ],
        at_once=limits.at_once,
    )
