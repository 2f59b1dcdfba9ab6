"""What a simulation came to: for people, as JSON, and as CSV."""

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
from lamplighter_local.simulation.simulation import DagOutlook, Peak, SimulatedRun, Simulation, peak

_BUSIEST = 5
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
    """Return everything but the single runs, for programs."""
    outlooks = simulation.outlooks()
    return {
        "start": console.instant_json(simulation.start),
        "end": console.instant_json(simulation.end),
        "catchup": catchup,
        "runs": len(simulation.runs),
        "steps": sum(outlook.steps for outlook in outlooks),
        "failed": sum(outlook.failed for outlook in outlooks),
        "owed": sum(outlook.owed for outlook in outlooks),
        "most_runs_at_once": _peak_json(peak(simulation.run_spans())),
        "most_steps_at_once": _peak_json(peak(simulation.step_spans())),
        "dags": [_outlook_json(outlook) for outlook in outlooks],
        "hours": [
            {
                "hour": console.instant_json(hour),
                "runs": dags.total(),
                "dags": dict(sorted(dags.items())),
            }
            for hour, dags in simulation.by_hour().items()
        ],
    }


def _peak_json(limit: Peak) -> dict[str, Any]:
    return {"count": limit.count, "at": console.instant_json(limit.at)}


def _outlook_json(outlook: DagOutlook) -> dict[str, Any]:
    return {
        "dag_id": outlook.dag_id,
        "runs": outlook.runs,
        "steps": outlook.steps,
        "failed": outlook.failed,
        "most_at_once": outlook.most_at_once,
        "late_runs": outlook.late_runs,
        "latest_seconds": outlook.latest.total_seconds(),
        "behind_since": console.instant_json(outlook.behind_since),
        "owed": outlook.owed,
    }


def write_csv(simulation: Simulation, file: Path) -> None:
    """Write one row for each run, in the order in which they were created."""
    with file.open("w", encoding="utf-8", newline="") as opened:
        rows = csv.writer(opened)
        rows.writerow(_COLUMNS)
        rows.writerows(_row(run) for run in simulation.runs)


def _row(run: SimulatedRun) -> Iterable[object]:
    for column in _COLUMNS:
        if column == "late_seconds":
            yield run.late.total_seconds()
        elif column == "steps":
            yield len(run.steps)
        else:
            value = getattr(run, column)
            yield console.instant_json(value) if isinstance(value, DateTime) else value


def show(simulation: Simulation, *, catchup: bool, files: Iterable[Path]) -> None:
    """Write what people want to know of it."""
    out, outlooks = console.out(), simulation.outlooks()
    start, end = console.instant(simulation.start), console.instant(simulation.end)
    out.print(Text(f"From {start} to {end}"), soft_wrap=True)
    out.print()
    out.print(_dags(simulation, outlooks))
    out.print()
    for what, spans in (("runs", simulation.run_spans()), ("steps", simulation.step_spans())):
        _show_peak(out, what, peak(spans))
    _show_busiest(out, simulation.by_hour())
    _show_late(out, simulation, outlooks)
    _show_failed(out, simulation)
    _show_owed(out, outlooks, catchup=catchup)
    for file in files:
        out.print(Text(f"Written: {file}"), soft_wrap=True)


def _dags(simulation: Simulation, outlooks: Sequence[DagOutlook]) -> console.Rows:
    days = (simulation.end - simulation.start).total_days()
    names = ("runs", "a day", "steps", "at once", "late", "owed now")
    lines = {
        outlook.dag_id: (
            f"{outlook.runs:,}",
            f"{outlook.runs / days:.1f}",
            f"{outlook.steps:,}",
            str(outlook.most_at_once),
            f"{outlook.late_runs:,}" if outlook.late_runs else "",
            _owed(outlook.owed) if outlook.owed else "",
        )
        for outlook in outlooks
    }
    total, steps = len(simulation.runs), sum(outlook.steps for outlook in outlooks)
    lines["all"] = (f"{total:,}", f"{total / days:.1f}", f"{steps:,}", "", "", "")
    widths = [max(map(len, cells)) for cells in zip(names, *lines.values(), strict=True)]
    rows = console.Rows("DAG", *(n.rjust(width) for n, width in zip(names, widths, strict=True)))
    for name, cells in lines.items():
        right = (cell and cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        rows.add(Text(name, "bold"), *right)
    return rows


def _owed(count: int) -> str:
    return f"{count:,}" if count < MAX_OWED_COUNTED else f"{count:,} or more"


def _show_peak(out: Console, what: str, limit: Peak) -> None:
    if limit.at is not None:
        line = f"Most {what} at once: {limit.count:,}, first at {console.instant(limit.at)}"
        out.print(Text(line), soft_wrap=True)


def _show_busiest(out: Console, hours: dict[DateTime, Counter[str]]) -> None:
    if not hours:
        out.print(Text("No run comes due in these days."))
        return
    out.print(Text("Busiest hours:"))
    busiest = sorted(hours.items(), key=lambda item: (-item[1].total(), item[0]))[:_BUSIEST]
    for hour, dags in busiest:
        named = len(dags) if len(dags) <= _MAX_NAMED else _MAX_NAMED - 1
        shares = [f"{dag_id} {count:,}" for dag_id, count in dags.most_common(named)]
        if len(dags) > named:
            shares.append(f"{len(dags) - named} more DAGs")
        line = f"  {console.instant(hour)}  {_runs(dags.total())}: {', '.join(shares)}"
        out.print(Text(line), soft_wrap=True)


def _show_late(out: Console, simulation: Simulation, outlooks: Iterable[DagOutlook]) -> None:
    for outlook in outlooks:
        told = []
        if outlook.late_runs:
            told.append(
                f"{_runs(outlook.late_runs)} had to wait for a slot, up to {words(outlook.latest)}"
            )
        if outlook.behind_since is not None:
            behind = simulation.end - outlook.behind_since
            told.append(f"at the end it is {words(behind)} behind")
        if told:
            line = f"{outlook.dag_id}: {'; '.join(told)}"
            out.print(Text(line, "yellow"), soft_wrap=True)


def _show_failed(out: Console, simulation: Simulation) -> None:
    """Tell of steps that could not even be started, which is all that fails here."""
    errors = {run.dag_id: run.error for run in reversed(simulation.runs) if run.error}
    for dag_id, error in sorted(errors.items()):
        out.print(Text(f"{dag_id}: runs fail: {error}", "red"), soft_wrap=True)


def _show_owed(out: Console, outlooks: Iterable[DagOutlook], *, catchup: bool) -> None:
    total = sum(outlook.owed for outlook in outlooks)
    if not total:
        return
    if catchup:
        line = f"{_runs(total)} owed at the beginning were made up for as slots allowed."
    else:
        line = (
            f"{_runs(total)} owed now, if this is the first push, are not in these numbers:"
            " --catchup has them."
        )
    out.print(Text(line), soft_wrap=True)


def _runs(count: int) -> str:
    return f"{count:,} run{'' if count == 1 else 's'}"


def words(duration: timedelta) -> str:
    """Return a duration in its two largest units."""
    minutes, seconds = divmod(round(duration.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    first = next((place for place, (number, _) in enumerate(parts) if number), len(parts) - 1)
    return " ".join(f"{number} {unit}" for number, unit in parts[first : first + 2] if number)
