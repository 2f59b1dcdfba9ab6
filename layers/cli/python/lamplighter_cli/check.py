"""`lamplighter check`: imports a bundle and lists its DAGs, warnings and errors."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lamplighter.bundles.fork import DEFAULT_LIMITS, Limits
from lamplighter.bundles.importer import ImportProblem
from lamplighter.bundles.layout import dag_files, require_bundle
from lamplighter.bundles.parsing import BundleReport, check_bundle
from lamplighter.registry.definition import without_refused
from lamplighter_cli import console
from lamplighter_cli.adopt.advice import with_advice
from lamplighter_cli.clock_reads import clock_reads
from lamplighter_cli.definitions import task_groups, task_ids
from lamplighter_cli.options import AsJson, BundleDir

_LINES_OF_OUTPUT = 5


def check(
    path: BundleDir = Path(),
    *,
    as_json: AsJson = False,
    seconds: Annotated[
        float, typer.Option("--time-limit", help="Maximum seconds for one file.", min=0.1)
    ] = DEFAULT_LIMITS.seconds,
) -> None:
    """Import every DAG file in isolation; list DAGs, warnings and errors. Exit code 1 on errors."""
    root = require_bundle(path)
    files = dag_files(root)
    with console.progress() as progress:
        bar = progress.add_task("Checking", total=len(files))
        report = check_bundle(
            root, limits=Limits(seconds=seconds), on_file=lambda _: progress.advance(bar)
        )
    report = without_refused(report)
    report = replace(
        report,
        warnings=(*report.warnings, *clock_reads(root)),
        errors=with_advice(root, report.errors),
    )
    if as_json:
        console.print_json(_as_json(report))
    else:
        _show(report, len(files))
    if report.errors:
        raise typer.Exit(1)


def _as_json(report: BundleReport) -> dict[str, object]:
    return {
        "dags": [
            {
                "dag_id": dag.dag_id,
                "file": dag.file,
                "line": dag.line,
                "schedule": dag.schedule,
                "description": dag.description,
                "timezone": dag.document["timezone"],
                "catchup": dag.document["catchup"],
                "tasks": task_ids(dag.document),
                "task_groups": task_groups(dag.document),
                "hash": dag.hash,
            }
            for dag in report.dags
        ],
        "warnings": [_problem_as_json(problem) for problem in report.warnings],
        "errors": [_problem_as_json(problem) for problem in report.errors],
    }


def _problem_as_json(problem: ImportProblem) -> dict[str, object]:
    return {"file": problem.file, "line": problem.line, "message": problem.message}


def _show(report: BundleReport, files: int) -> None:
    out = console.out()
    if report.dags:
        table = Table(
            "DAG", "schedule", "meaning", "zone", "tasks", "file", box=None, pad_edge=False
        )
        for dag in report.dags:
            table.add_row(
                Text(dag.dag_id, style="bold"),
                Text(dag.schedule),
                Text(dag.description),
                Text(str(dag.document["timezone"])),
                str(len(dag.document["tasks"])),
                Text(dag.file),
            )
        out.print(table)
        out.print()
    show_problems(report, out)
    counts = [(files, "file"), (len(report.dags), "DAG"), (len(report.warnings), "warning")]
    counts.append((len(report.errors), "error"))
    out.print(Text(", ".join(f"{n} {word}{'' if n == 1 else 's'}" for n, word in counts)))


def show_problems(report: BundleReport, out: Console) -> None:
    """Write the warnings and errors of a check, one per line."""
    for problem in report.warnings:
        out.print(_line(problem, "warning", "yellow"), soft_wrap=True)
    for problem in report.errors:
        out.print(_line(problem, "error", "red"), soft_wrap=True)
        for frame in problem.frames if len(problem.frames) > 1 else ():
            out.print(Text(f"    {frame}", style="dim"), soft_wrap=True)
        for line in report.outputs.get(problem.file, "").splitlines()[-_LINES_OF_OUTPUT:]:
            out.print(Text(f"    | {line}", style="dim"), soft_wrap=True)


def _line(problem: ImportProblem, kind: str, style: str) -> Text:
    message = " ".join(problem.message.split())
    where = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
    return Text.assemble((f"{kind}: ", style), f"{where}: {message}")
