"""The results of a simulation as tables, JSON and CSV."""

import csv
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from pendulum import DateTime
from rich.console import Console
from rich.text import Text

from lamplighter.dags.upcoming import MAX_OWED_COUNTED
from lamplighter_cli import console
from lamplighter_local.simulation.simulate import DagSummary, Peak, Simulation, peak, was_submitted
from lamplighter_operations.views import Run

_SHOWN_HOURS = 5
_MAX_NAMED = 4
_COLUMNS = (
    "dag_id",
    "run_id",
    "run_type",
    "state",
    "logical_date",
    "data_interval_start",
    "data_interval_end",
    "run_after",
    "created_at",
    "ended_at",
    "late_seconds",
    "steps",
)


def as_json(simulation: Simulation, *, catchup: bool) -> dict[str, Any]:
    """Return everything but the single runs as JSON."""
    summaries = simulation.summaries()
    return {
        "start": console.instant_json(simulation.start),
        "end": console.instant_json(simulation.end),
        "catchup": catchup,
        "runs": len(simulation.runs),
        "steps": sum(summary.steps for summary in summaries),
        "failed": sum(summary.failed for summary in summaries),
        "owed": sum(summary.owed for summary in summaries),
        "most_runs_at_once": _peak_json(peak(simulation.run_spans())),
        "most_steps_at_once": _peak_json(peak(simulation.step_spans())),
        "dags": [_dag_json(summary) for summary in summaries],
        "hours": [
            {
                "hour": console.instant_json(hour),
                "runs": dags.total(),
                "dags": dict(sorted(dags.items())),
            }
            for hour, dags in simulation.by_hour().items()
        ],
    }


def _peak_json(peak: Peak) -> dict[str, Any]:
    return {"count": peak.count, "at": console.instant_json(peak.at)}


def _dag_json(summary: DagSummary) -> dict[str, Any]:
    return {
        "dag_id": summary.dag_id,
        "runs": summary.runs,
        "steps": summary.steps,
        "failed": summary.failed,
        "most_at_once": summary.most_at_once,
        "late_runs": summary.late_runs,
        "latest_seconds": summary.latest.total_seconds(),
        "behind_since": console.instant_json(summary.behind_since),
        "owed": summary.owed,
    }


def write_csv(simulation: Simulation, file: Path) -> None:
    """Write a row for each run, in the order of creation."""
    with file.open("w", encoding="utf-8", newline="") as opened:
        rows = csv.writer(opened)
        rows.writerow(_COLUMNS)
        rows.writerows(_row(run) for run in simulation.runs)


def _row(run: Run) -> Iterable[object]:
    for column in _COLUMNS:
        if column == "late_seconds":
            yield run.delay.total_seconds()
        elif column == "steps":
            yield sum(map(was_submitted, run.steps))
        else:
            value = getattr(run, column)
            yield console.instant_json(value) if isinstance(value, DateTime) else value


def show(simulation: Simulation, *, catchup: bool, files: Iterable[Path]) -> None:
    """Write a summary."""
    out, summaries = console.out(), simulation.summaries()
    start, end = console.instant(simulation.start), console.instant(simulation.end)
    out.print(Text(f"From {start} to {end}"), soft_wrap=True)
    out.print()
    out.print(_dags(simulation, summaries))
    out.print()
    for what, spans in (("runs", simulation.run_spans()), ("steps", simulation.step_spans())):
        _show_peak(out, what, peak(spans))
    _show_busiest(out, simulation.by_hour())
    _show_late(out, simulation, summaries)
    _show_failed(out, simulation)
    _show_owed(out, summaries, catchup=catchup)
    for file in files:
        out.print(Text(f"Written: {file}"), soft_wrap=True)


def _dags(simulation: Simulation, summaries: Sequence[DagSummary]) -> console.Rows:
    days = (simulation.end - simulation.start).total_days()
    names = ("runs", "a day", "steps", "at once", "late", "due at start")
    lines = {
        summary.dag_id: (
            f"{summary.runs:,}",
            f"{summary.runs / days:.1f}",
            f"{summary.steps:,}",
            str(summary.most_at_once),
            f"{summary.late_runs:,}" if summary.late_runs else "",
            _owed(summary.owed) if summary.owed else "",
        )
        for summary in summaries
    }
    total, steps = len(simulation.runs), sum(summary.steps for summary in summaries)
    lines["all"] = (f"{total:,}", f"{total / days:.1f}", f"{steps:,}", "", "", "")
    widths = [max(map(len, cells)) for cells in zip(names, *lines.values(), strict=True)]
    rows = console.Rows("DAG", *(n.rjust(width) for n, width in zip(names, widths, strict=True)))
    for name, cells in lines.items():
        right = (cell and cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        rows.add(Text(name, "bold"), *right)
    return rows


def _owed(count: int) -> str:
    return f"{count:,}" if count < MAX_OWED_COUNTED else f"{count:,} or more"


def _show_peak(out: Console, what: str, peak: Peak) -> None:
    if peak.at is not None:
        line = f"Most {what} at once: {peak.count:,}, first at {console.instant(peak.at)}"
        out.print(Text(line), soft_wrap=True)


def _show_busiest(out: Console, hours: dict[DateTime, Counter[str]]) -> None:
    if not hours:
        out.print(Text("No runs are due in these days."))
        return
    out.print(Text("Busiest hours:"))
    busiest = sorted(hours.items(), key=lambda item: (-item[1].total(), item[0]))[:_SHOWN_HOURS]
    for hour, dags in busiest:
        named = len(dags) if len(dags) <= _MAX_NAMED else _MAX_NAMED - 1
        shares = [f"{dag_id} {count:,}" for dag_id, count in dags.most_common(named)]
        if len(dags) > named:
            shares.append(f"{len(dags) - named} more DAGs")
        line = f"  {console.instant(hour)}  {_runs(dags.total())}: {', '.join(shares)}"
        out.print(Text(line), soft_wrap=True)


def _show_late(out: Console, simulation: Simulation, summaries: Iterable[DagSummary]) -> None:
    for summary in summaries:
        parts = []
        if summary.late_runs:
            longest = duration_text(summary.latest)
            parts.append(f"{_runs(summary.late_runs)} had to wait for a slot, up to {longest}")
        if summary.behind_since is not None:
            behind = simulation.end - summary.behind_since
            parts.append(f"at the end it is {duration_text(behind)} behind")
        if parts:
            line = f"{summary.dag_id}: {'; '.join(parts)}"
            out.print(Text(line, "yellow"), soft_wrap=True)


def _show_failed(out: Console, simulation: Simulation) -> None:
    """Write the errors of steps that could not be submitted; nothing else fails here."""
    errors = {run.dag_id: run.error for run in reversed(simulation.runs) if run.error}
    for dag_id, error in sorted(errors.items()):
        out.print(Text(f"{dag_id}: runs fail: {error}", "red"), soft_wrap=True)


def _show_owed(out: Console, summaries: Iterable[DagSummary], *, catchup: bool) -> None:
    total = sum(summary.owed for summary in summaries)
    if not total:
        return
    if catchup:
        line = f"{_runs(total)} that were due at the start were created as slots became free."
    else:
        line = (
            f"Not included: {_runs(total)} that are due at the start if this is the first push;"
            " --catchup includes them."
        )
    out.print(Text(line), soft_wrap=True)


def _runs(count: int) -> str:
    return f"{count:,} run{'' if count == 1 else 's'}"


def duration_text(duration: timedelta) -> str:
    """Return a duration in its two largest units."""
    minutes, seconds = divmod(round(duration.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    first = next((place for place, (number, _) in enumerate(parts) if number), len(parts) - 1)
    return " ".join(f"{number} {unit}" for number, unit in parts[first : first + 2] if number)
