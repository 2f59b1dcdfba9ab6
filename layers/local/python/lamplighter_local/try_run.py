"""One run of one DAG of a bundle, tried out: nothing else runs, and no schedule interferes.

Owns: what is kept of the run. It is a manual one, as anyone would create it: its timetable infers
the data interval. Time moves until the run is over, through retries and their delays.
"""

import datetime
import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lamplighter import executors
from lamplighter.bundles.layout import require_bundle
from lamplighter.bundles.parsing import find_dag
from lamplighter.errors import RefusedError
from lamplighter.scheduler import cursor
from lamplighter.serialization import zone_of_dag
from lamplighter.store.dags import all_dags, change_dag
from lamplighter.store.models import Dags
from lamplighter.store.runs import FINISHED
from lamplighter.store.transactions import Write
from lamplighter.zones import Zone, instant_in
from lamplighter_local.deployment import LocalDeployment
from lamplighter_local.spark import storage
from lamplighter_local.spark.executor import LOG, LocalSparkExecutor
from lamplighter_local.spark.java import NO_JAVA, find_java_home, needs_java
from lamplighter_local.spark.job_times import JobTimes
from lamplighter_local.text_logs import warnings_as_lines
from lamplighter_operations import pause
from lamplighter_operations.views import Run

_MAX_DAYS = 60


@dataclass(frozen=True)
class Attempt:
    """One job that was executed for a task."""

    task_id: str
    seconds: float
    log: str


@dataclass(frozen=True)
class Tried:
    """A run that was tried out."""

    run: Run
    # That of the DAG's dates.
    zone: Zone
    # By task, what its last job was started with: the document that it finds as its context.
    contexts: Mapping[str, Mapping[str, Any]]
    # Every job that was executed, in order; empty if none was.
    attempts: tuple[Attempt, ...]


def try_run(
    bundle: Path,
    dag_id: str,
    *,
    at: datetime.datetime,
    on_spark: bool,
    conf: dict[str, Any] | None = None,
    variables: Mapping[str, str],
    secrets: Mapping[str, str] = MappingProxyType({}),
    poll_real_sources: bool = False,
) -> Tried:
    """Run a DAG once and return what came of it; a naive logical date is in the DAG's zone."""
    root = require_bundle(bundle)
    document = find_dag(root, dag_id).document
    if on_spark and needs_java([document]) and find_java_home() is None:
        raise RefusedError(NO_JAVA)
    zone = zone_of_dag(document)
    date = instant_in(zone, at)
    with ExitStack() as until_the_end:
        spark = _spark(until_the_end, secrets) if on_spark else None
        lamp = until_the_end.enter_context(
            LocalDeployment(
                at=date,
                executor=spark or "instant",
                variables=variables,
                poll_real_sources=poll_real_sources,
            )
        )
        until_the_end.enter_context(warnings_as_lines())
        lamp.stack.push(root, bundle=root.name, until_idle=False)
        _silence(dag_id)
        times = None if spark is None else JobTimes(spark)
        run = lamp.trigger(dag_id, logical_date=date, conf=conf)
        run = _until_over(lamp, run)
        attempts = () if times is None else _attempts(times)
        return Tried(_in_order(run, attempts), zone, _contexts(run), attempts)


def _spark(until_the_end: ExitStack, secrets: Mapping[str, str]) -> LocalSparkExecutor:
    temporary = tempfile.TemporaryDirectory(prefix="lamplighter-", ignore_cleanup_errors=True)
    folder = Path(until_the_end.enter_context(temporary))
    return until_the_end.enter_context(LocalSparkExecutor(folder, secrets=secrets))


def _silence(dag_id: str) -> None:
    """Let no run be created by itself: pause all other DAGs, and end the schedule of this one."""

    def end_schedule(row: Dags) -> Sequence[Write]:
        cursor.set_next(row, None)
        return []

    for row in all_dags():
        if row.dag_id != dag_id:
            pause.pause(row.dag_id)
        elif row.is_paused:
            pause.unpause(dag_id)
    change_dag(dag_id, end_schedule)


def _until_over(lamp: LocalDeployment, run: Run) -> Run:
    """Let time pass until a run is over; return it as it is then."""
    lamp.run_until_idle()
    for _ in range(_MAX_DAYS * 24):
        (run,) = (each for each in lamp.runs(run.dag_id) if each.run_id == run.run_id)
        if run.state in FINISHED:
            return run
        lamp.advance(hours=1)
    raise RefusedError(f"run {run.run_id} is not over after {_MAX_DAYS} days: it is {run.state}")


def _contexts(run: Run) -> dict[str, Any]:
    found = {}
    for step in run.steps:
        job = step.job_run_id and executors.named(step.executor).describe(step.job_run_id)
        if job:
            context = json.loads(storage.read(job.context_uri))
            del context["report_secret"]  # what is tried is shown
            found[step.task_id] = context
    return found


def _attempts(times: JobTimes) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(place.task_id, seconds, _log(times.folder_of(job_run_id) / LOG))
        for job_run_id, seconds in times.seconds.items()
        if (place := times.place_of(job_run_id)) is not None
    )


def _in_order(run: Run, attempts: Sequence[Attempt]) -> Run:
    """Return a run with its steps in the order of their jobs, which all began at one instant."""
    begun = [attempt.task_id for attempt in attempts]
    places = {task_id: begun.index(task_id) for task_id in begun}
    steps = sorted(run.steps, key=lambda step: places.get(step.task_id, len(begun)))
    return replace(run, steps=tuple(steps))


def _log(file: Path) -> str:
    # A job whose files could not be had has none.
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
