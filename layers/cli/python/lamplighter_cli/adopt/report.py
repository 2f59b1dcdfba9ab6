"""What `adopt` prints: for people, and as JSON."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from lamplighter_cli.adopt.findings import DagReport, FileReport, Finding, Level, Yield, yields

_STYLES = {Level.MOVES: "green", Level.CHANGE: "", Level.EDIT: "yellow", Level.CANNOT: "red"}


def show(reports: Sequence[FileReport], out: Console) -> None:
    """Print the reports, and the yield at the end."""
    for report in reports:
        _show_file(report, out)
    for words in _yield_lines(reports):
        out.print(Text(words, "bold"))


def _show_file(report: FileReport, out: Console) -> None:
    known = f"  Airflow {report.airflow} ({report.airflow_reason})" if report.airflow else ""
    out.print(Text.assemble((report.file, "bold"), known), soft_wrap=True)
    _show_findings(report, report.findings, out)
    for dag in report.dags:
        _show_dag(report, dag, out)
    if not report.is_translated:
        out.print(Text("  not translated", "red"))
    for path in report.written:
        out.print(Text(f"  wrote {path}"), soft_wrap=True)
    out.print()


def _show_dag(report: FileReport, dag: DagReport, out: Console) -> None:
    level = report.dag_level(dag)
    title = Text.assemble("  ", (f"{level.label}: ", _STYLES[level]), (f"DAG {dag.dag_id}", "bold"))
    out.print(Text.assemble(title, f"  {dag.schedule}  {_tasks(dag)}"), soft_wrap=True)
    _show_findings(report, dag.findings, out)
    for task in dag.tasks:
        _show_findings(report, task.findings, out)
    if dag.runs is not None:
        out.print(Text("    next runs in Airflow, and of the translation:"))
        for line in dag.runs.airflow:
            out.print(Text(f"      {line}"))
        if dag.runs.first_difference is None:
            out.print(Text("    the same if only the import changes"))
        else:
            said = f"    if only the import changes, the first difference is {_difference(dag)}"
            out.print(Text(said, "yellow"), soft_wrap=True)
    elif dag.no_runs_because is not None:
        out.print(Text(f"    no runs to compare: {dag.no_runs_because}"), soft_wrap=True)


def _difference(dag: DagReport) -> str:
    assert dag.runs is not None
    return f"{dag.runs.first_difference}: {dag.runs.reason}"


def _tasks(dag: DagReport) -> str:
    return f"{len(dag.tasks)} {'task' if len(dag.tasks) == 1 else 'tasks'}"


def _show_findings(report: FileReport, findings: Iterable[Finding], out: Console) -> None:
    for finding in findings:
        where = f"{report.file}:{finding.line}: "
        mark = (f"    {finding.level.label}: ", _STYLES[finding.level])
        out.print(Text.assemble(mark, where, finding.message), soft_wrap=True)
        if finding.snippet is not None:
            for line in json.dumps(finding.snippet, indent=2).splitlines():
                out.print(Text(f"      {line}", "dim"), soft_wrap=True)


def _yield_lines(reports: Sequence[FileReport]) -> list[str]:
    dags, tasks = yields(reports)
    return [_yield_line("DAG", dags), _yield_line("task", tasks)]


def _yield_line(what: str, count: Yield) -> str:
    plural = what if count.total == 1 else f"{what}s"
    return (
        f"{count.total} {plural}: {count.moved} moved, {count.after_edits} after edits,"
        f" {count.not_moved} not"
    )


def as_json(reports: Sequence[FileReport]) -> dict[str, Any]:
    """Return the reports as JSON."""
    dags, tasks = yields(reports)
    return {
        "files": [_file_json(report) for report in reports],
        "yield": {"dags": _yield_json(dags), "tasks": _yield_json(tasks)},
    }


def _file_json(report: FileReport) -> dict[str, Any]:
    return {
        "file": report.file,
        "airflow": report.airflow or None,
        "airflow_reason": report.airflow_reason,
        "translated": report.is_translated,
        "findings": [_finding_json(finding) for finding in report.findings],
        "dags": [_dag_json(report, dag) for dag in report.dags],
        "written": report.written,
    }


def _dag_json(report: FileReport, dag: DagReport) -> dict[str, Any]:
    runs = dag.runs
    return {
        "dag_id": dag.dag_id,
        "line": dag.line,
        "moves": report.dag_level(dag).name.lower(),
        "schedule": dag.schedule,
        "findings": [_finding_json(finding) for finding in dag.findings],
        "tasks": [
            {
                "task_id": task.task_id,
                "operator": task.operator,
                "line": task.line,
                "moves": report.task_level(task).name.lower(),
                "findings": [_finding_json(finding) for finding in task.findings],
            }
            for task in dag.tasks
        ],
        "next_runs": runs
        and {
            "airflow": runs.airflow,
            "translated": runs.translated,
            "only_import_changed": runs.unchanged,
            "first_difference": runs.first_difference,
            "reason": runs.reason,
        },
        "no_runs_because": dag.no_runs_because,
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    found: dict[str, Any] = {
        "level": finding.level.name.lower(),
        "line": finding.line,
        "message": finding.message,
    }
    return found if finding.snippet is None else {**found, "snippet": finding.snippet}


def _yield_json(count: Yield) -> dict[str, int]:
    return {
        "moved": count.moved,
        "after_edits": count.after_edits,
        "not_moved": count.not_moved,
    }
