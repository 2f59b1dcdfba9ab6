"""The example pipeline over simulated days: its files, its deployment, what is seen on the way.

Owns: the demo's data and days, and the report of its runs. Refuses: showing anything; whoever runs
it is told after every change.
"""

import csv
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pendulum import DateTime, datetime

from lamplighter.errors import LamplighterError, RefusedError
from lamplighter.zones import as_utc, iso
from lamplighter_local.deployment import LocalDeployment
from lamplighter_local.emulator.moto_memory import items_of
from lamplighter_local.shipped import shipped
from lamplighter_local.spark.executor import LocalSparkExecutor
from lamplighter_local.spark.java import NO_JAVA, find_java_home
from lamplighter_local.spark.job_times import JobTimes
from lamplighter_operations.views import Run, Step

# A Sunday: the second day has the Monday morning on which the weekly report is due, and is a
# workday. The shop opens the day before, so that there are exchange rates and late orders.
START = datetime(2026, 1, 4)
REPORT = "report.json"
LAKE = "lake"
JOBS = "jobs"

# Each job has a few hundred rows: code that is generated and compiled for them is never worth it.
_SMALL_DATA = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}


class GenerateError(LamplighterError):
    """The program that makes the raw files has failed."""


@dataclass(frozen=True)
class Seen:
    """What there is to see of the demo at one moment."""

    now: DateTime
    # Of the simulated time, from 0 to 1.
    part: float
    # By DAG, how many of its runs are in which state.
    runs: Mapping[str, Mapping[str, int]]
    # By asset, how many events it has had.
    events: Mapping[str, int]
    steps_over: int = 0
    running: str | None = None


@dataclass(frozen=True)
class Done:
    """What the demo leaves: its runs, the seconds of each job, events by asset, and files."""

    runs: tuple[Run, ...]
    seconds: Mapping[str, float]
    events: Mapping[str, int]
    lake: Path
    report: Path

    @property
    def has_failures(self) -> bool:
        """Whether a run did not end well."""
        return any(run.state != "success" for run in self.runs)

    def slowest(self, limit: int) -> list[tuple[float, Run, Step]]:
        """Return the steps that took longest, with their seconds."""
        timed = [
            (self.seconds[step.job_run_id], run, step)
            for run in self.runs
            for step in run.steps
            if step.job_run_id is not None and step.job_run_id in self.seconds
        ]
        return sorted(timed, key=lambda found: found[0], reverse=True)[:limit]


OnChange = Callable[[Seen], object]


def find_examples() -> Path:
    """Return the folder of the example pipeline."""
    found = shipped("examples")
    if not (found / "dags").is_dir():
        raise RefusedError("the examples are not installed: run the demo in a checkout")
    return found


def require_java() -> None:
    """Refuse to begin where Spark could not start."""
    if find_java_home() is None:
        raise RefusedError(NO_JAVA)


def generate(examples: Path, lake: Path, *, orders: int, days: int) -> None:
    """Land the raw files of a shop that is open for these days, and for one before them."""
    opens = START.subtract(days=1).to_date_string()
    sizes = ("--orders", str(orders), "--days", str(days + 1), "--start", opens)
    command = [sys.executable, "-m", "jobs.shop.generate", "--root", str(lake), *sizes]
    done = subprocess.run(command, cwd=examples, capture_output=True, text=True, check=False)
    if done.returncode:
        words = done.stderr.strip().rpartition("\n")[2]
        raise GenerateError(f"the orders could not be generated: {words or 'no error output'}")


def run_demo(folder: Path, *, orders: int, days: int, on_change: OnChange) -> Done:
    """Run the example pipeline on Spark for some days, and write the report of its runs."""
    examples, lake = find_examples(), folder / LAKE
    generate(examples, lake, orders=orders, days=days)
    with (
        LocalSparkExecutor(folder / JOBS, spark_conf=_SMALL_DATA) as spark,
        LocalDeployment(
            examples, at=START, executor=spark, catch_up=False, variables={"data_root": str(lake)}
        ) as lamp,
    ):
        watch = _Watch(lamp, spark, as_utc(START.add(days=days)), on_change)
        while lamp.now < watch.end:
            watch.report_progress()
            lamp.advance(to=min(watch.end, lamp.now.add(hours=1)))
        watch.report_progress()
        lamp.check_invariants()
        runs = tuple(run for dag in lamp.dags() for run in lamp.runs(dag.dag_id))
        done = Done(runs, watch.times.seconds, watch.seen().events, lake, folder / REPORT)
    done.report.write_text(json.dumps(_as_json(done), indent=2) + "\n", encoding="utf-8")
    return done


class _Watch:
    """Counts what there is whenever something has changed; only reads."""

    def __init__(
        self, lamp: LocalDeployment, spark: LocalSparkExecutor, end: DateTime, on_change: OnChange
    ) -> None:
        self.end = end
        self.times = JobTimes(spark)
        self._lamp, self._on_change = lamp, on_change
        spark.listeners.append(lambda *_: self.report_progress())

    def report_progress(self) -> None:
        """Pass on how things stand."""
        self._on_change(self.seen())

    def seen(self) -> Seen:
        """Return how things stand."""
        prefix = self._lamp.stack.settings.table_prefix
        runs: dict[str, Counter[str]] = {
            item.attrs["dag_id"].value: Counter() for item in items_of(f"{prefix}Dags")
        }
        for item in items_of(f"{prefix}Runs"):
            runs[item.attrs["dag_id"].value][item.attrs["state"].value] += 1
        events = {
            item.attrs["asset_id"].value: int(item.attrs["seq"].value)
            for item in items_of(f"{prefix}Assets")
            # Rows without events: assets that had none yet, and those that only name another row.
            if "seq" in item.attrs and int(item.attrs["seq"].value)
        }
        now, running = self._lamp.now, self.times.running
        return Seen(
            now=now,
            part=(now - START) / (self.end - START),
            runs=dict(sorted(runs.items())),
            events=dict(sorted(events.items())),
            steps_over=len(self.times.seconds),
            running=None if running is None else f"{running.dag_id}.{running.task_id}",
        )


def best_sellers(lake: Path, limit: int) -> tuple[str, list[dict[str, str]]]:
    """Return the newest week that has a report, and the head of it."""
    for week in sorted((lake / "report_csv").glob("week=*"), reverse=True):
        for file in week.glob("*.csv"):
            with file.open(encoding="utf-8", newline="") as text:
                return week.name.partition("=")[2], list(csv.DictReader(text))[:limit]
    return "", []


def _as_json(done: Done) -> dict[str, Any]:
    return {
        "version": 1,
        "asset_events": done.events,
        "runs": [_run_as_json(run, done.seconds) for run in done.runs],
    }


def _run_as_json(run: Run, seconds: Mapping[str, float]) -> dict[str, Any]:
    names = ("logical_date", "data_interval_start", "data_interval_end", "run_after", "ended_at")
    return {
        **{name: getattr(run, name) for name in ("dag_id", "run_id", "run_type", "state")},
        **{name: None if (at := getattr(run, name)) is None else iso(at) for name in names},
        "events": [f"{event.asset}#{event.seq}" for event in run.events],
        "steps": [
            {
                **{name: getattr(step, name) for name in ("task_id", "state", "try_number")},
                "seconds": round(seconds.get(step.job_run_id or "", 0.0), 3),
                "error": step.error,
            }
            for step in run.steps
        ],
    }
