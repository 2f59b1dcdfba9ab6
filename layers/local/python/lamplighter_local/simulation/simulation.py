"""The coming days of a bundle, as the real scheduler would have them, with steps that do nothing.

Owns: what happened in a simulation, and what is counted in it. Refuses: AWS. Everything happens in
a `LocalDeployment`, which is gone afterwards.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

from pendulum import DateTime

from lamplighter.bundles.parsing import CheckedDag
from lamplighter.operations.push_preview import owed_after_push
from lamplighter.store import runs as run_rows
from lamplighter.store.models import Dags, Runs
from lamplighter.store.steps import run_ref
from lamplighter.zones import as_utc
from lamplighter_local.deployment import LocalDeployment
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.invariants.steps import steps_by_run

# A run that has a slot is created within a second or two; whatever took longer had to wait.
_LATE_AFTER = timedelta(minutes=1)
# How often whoever waits for the end is told how far it is.
_STRIDE = timedelta(hours=1)
_VARIABLE = re.compile(r"""\bvar\.value(?:\.|\[\\?["'])([A-Za-z_]\w*)""")

Task = tuple[str, str]
Span = tuple[DateTime, DateTime]


@dataclass(frozen=True)
class SimulatedRun:
    """One run, with the spans of time in which its steps had a job."""

    dag_id: str
    run_id: str
    run_type: str
    state: str
    logical_date: DateTime | None
    data_interval_start: DateTime | None
    data_interval_end: DateTime | None
    run_after: DateTime
    created_at: DateTime
    ended_at: DateTime | None
    steps: tuple[Span, ...]
    error: str | None

    @property
    def late(self) -> timedelta:
        """How long after its time it was created."""
        return self.created_at - self.run_after


@dataclass(frozen=True)
class Peak:
    """The most that there was at once, and when that was first so."""

    count: int
    at: DateTime | None


@dataclass(frozen=True)
class DagOutlook:
    """What becomes of one DAG in a simulation."""

    dag_id: str
    runs: int
    failed: int
    steps: int
    most_at_once: int
    # Of those that came due in the simulated days; the debt is late by nature.
    late_runs: int
    latest: timedelta
    # Since when a run is due at the end, and has no slot.
    behind_since: DateTime | None
    owed: int


@dataclass(frozen=True)
class Simulation:
    """All that happened between two instants."""

    start: DateTime
    end: DateTime
    runs: tuple[SimulatedRun, ...]
    # Runs that the DAGs owed at the start, whether they were simulated or not.
    owed: Mapping[str, int]
    # By DAG, since when a run has been waiting for a slot at the end.
    behind: Mapping[str, DateTime]
    dag_ids: tuple[str, ...]

    def outlooks(self) -> list[DagOutlook]:
        """Return what becomes of each DAG, by id."""
        by_dag: dict[str, list[SimulatedRun]] = {dag_id: [] for dag_id in self.dag_ids}
        for run in self.runs:
            by_dag[run.dag_id].append(run)
        return [self._outlook(dag_id, runs) for dag_id, runs in sorted(by_dag.items())]

    def _outlook(self, dag_id: str, runs: Sequence[SimulatedRun]) -> DagOutlook:
        late = [run.late for run in runs if run.run_after >= self.start and run.late > _LATE_AFTER]
        return DagOutlook(
            dag_id=dag_id,
            runs=len(runs),
            failed=sum(run.state == run_rows.FAILED for run in runs),
            steps=sum(len(run.steps) for run in runs),
            most_at_once=peak(self.run_spans(runs)).count,
            late_runs=len(late),
            latest=max(late, default=timedelta()),
            behind_since=self.behind.get(dag_id),
            owed=self.owed.get(dag_id, 0),
        )

    def by_hour(self) -> dict[DateTime, Counter[str]]:
        """Return the hours in which runs were created, each with the number of every DAG's."""
        hours: dict[DateTime, Counter[str]] = {}
        for run in sorted(self.runs, key=lambda run: run.created_at):
            hours.setdefault(run.created_at.start_of("hour"), Counter())[run.dag_id] += 1
        return hours

    def run_spans(self, runs: Iterable[SimulatedRun] | None = None) -> list[Span]:
        """Return when runs were alive; those that are not over, until the end."""
        chosen = self.runs if runs is None else runs
        return [(run.created_at, run.ended_at or self.end) for run in chosen]

    def step_spans(self) -> list[Span]:
        """Return when steps had a job."""
        return [span for run in self.runs for span in run.steps]


def peak(spans: Iterable[Span]) -> Peak:
    """Return how many spans there were at once at most; one that ends makes room first."""
    limit, at = 0, None
    for instant, count in levels(spans):
        if count > limit:
            limit, at = count, instant
    return Peak(limit, at)


def levels(spans: Iterable[Span]) -> list[tuple[DateTime, int]]:
    """Return how many spans there are at once from each instant on at which that changes."""
    changes: Counter[DateTime] = Counter()
    for start, end in spans:
        # What is over at once was there all the same.
        changes[start] += 1
        changes[max(end, start.add(microseconds=1))] -= 1
    count, found = 0, []
    for instant, change in sorted(changes.items()):
        if change:
            count += change
            found.append((instant, count))
    return found


def simulate(
    root: Path,
    dags: Sequence[CheckedDag],
    *,
    at: DateTime,
    days: int,
    catch_up: bool = False,
    takes: Mapping[Task, timedelta] = MappingProxyType({}),
    variables: Mapping[str, str] = MappingProxyType({}),
    on_progress: Callable[[DateTime], None] = lambda _: None,
) -> Simulation:
    """Let days pass for a bundle and return what happened.

    Args:
        root: The folder of the bundle.
        dags: What a check of it has found.
        at: When the days begin.
        days: How many pass.
        catch_up: Whether what the DAGs owe at the beginning is made up for.
        takes: How long the steps of tasks last; a second by default.
        variables: The deployment's variables; those that templates name besides have some text.
        on_progress: Is told, now and then, how far the clock has come.
    """
    known = dict.fromkeys(_variables_in(dags), "simulated") | dict(variables)
    emr = FakeEmr()
    for (dag_id, task_id), duration in takes.items():
        emr.takes(dag_id, task_id, seconds=duration.total_seconds())
    with LocalDeployment(at=at, executor=emr, catch_up=catch_up, variables=known) as lamp:
        owed = owed_after_push(root, dags)
        lamp.push(root)
        end = as_utc(at.add(days=days))
        while lamp.now < end:
            lamp.advance(to=min(end, as_utc(lamp.now + _STRIDE)))
            on_progress(lamp.now)
        return Simulation(
            start=at,
            end=end,
            runs=tuple(_all_runs(end)),
            owed=owed,
            behind=_behind(end),
            dag_ids=tuple(sorted(dag.dag_id for dag in dags)),
        )


def _variables_in(dags: Iterable[CheckedDag]) -> set[str]:
    """Return the variables that templates name: a step without one of them would fail at once."""
    return {name for dag in dags for name in _VARIABLE.findall(json.dumps(dag.document["tasks"]))}


def _all_runs(end: DateTime) -> list[SimulatedRun]:
    steps = steps_by_run()
    found = []
    for row in Runs.scan(consistent_read=True):
        own = steps.get(run_ref(row.dag_id, row.run_key), [])
        errors = [step.error for step in own if step.error]
        found.append(
            SimulatedRun(
                dag_id=row.dag_id,
                run_id=row.run_id,
                run_type=row.run_type,
                state=row.state,
                logical_date=row.logical_date,
                data_interval_start=row.data_interval_start,
                data_interval_end=row.data_interval_end,
                run_after=row.run_after,
                created_at=row.created_at,
                ended_at=row.ended_at,
                steps=tuple(
                    (step.submitted_at, end if step.ended_at is None else step.ended_at)
                    for step in own
                    if step.submitted_at is not None
                ),
                error=errors[0] if errors else None,
            )
        )
    return sorted(found, key=lambda run: (run.created_at, run.dag_id, run.run_id))


def _behind(end: DateTime) -> dict[str, DateTime]:
    return {
        row.dag_id: row.next_run_after
        for row in Dags.scan(consistent_read=True)
        if row.next_run_after is not None
        and end - row.next_run_after > _LATE_AFTER
        and not (row.is_paused or row.is_stale)
    }
