"""The next days of a bundle, with the real scheduler and steps that do nothing.

Owns: the results of a simulation and its statistics. Refuses: AWS. Everything happens in a
`LocalDeployment`, which is closed afterwards.
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
from lamplighter.store.dags import all_dags
from lamplighter.store.runs import FAILED
from lamplighter.zones import as_utc
from lamplighter_local.deployment import LocalDeployment
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.text_logs import warnings_as_lines
from lamplighter_operations.push import owed_after_push
from lamplighter_operations.views import Run, Step, all_runs

# With a free slot, a run is created within a second or two; otherwise it had to wait.
_LATE_AFTER = timedelta(minutes=1)
# Between two reports of progress.
_STRIDE = timedelta(hours=1)
_VARIABLE = re.compile(r"""\bvar\.value(?:\.|\[\\?["'])([A-Za-z_]\w*)""")

Task = tuple[str, str]
Span = tuple[DateTime, DateTime]


@dataclass(frozen=True)
class Peak:
    """The maximum number at once, and when it was first reached."""

    count: int
    at: DateTime | None


@dataclass(frozen=True)
class DagSummary:
    """The statistics of one DAG in a simulation."""

    dag_id: str
    runs: int
    failed: int
    steps: int
    most_at_once: int
    # Of the runs that became due in the simulated days.
    late_runs: int
    latest: timedelta
    # Since when a run has been waiting for a slot at the end.
    behind_since: DateTime | None
    owed: int


@dataclass(frozen=True)
class Simulation:
    """Everything that happened between two instants; runs in the order of creation."""

    start: DateTime
    end: DateTime
    runs: tuple[Run, ...]
    # By DAG, how many runs were due at the start, whether they were simulated or not.
    owed: Mapping[str, int]
    # By DAG, since when a run has been waiting for a slot at the end.
    behind: Mapping[str, DateTime]
    dag_ids: tuple[str, ...]

    def summaries(self) -> list[DagSummary]:
        """Return the statistics of each DAG, by id."""
        by_dag: dict[str, list[Run]] = {dag_id: [] for dag_id in self.dag_ids}
        for run in self.runs:
            by_dag[run.dag_id].append(run)
        return [self._summary(dag_id, runs) for dag_id, runs in sorted(by_dag.items())]

    def _summary(self, dag_id: str, runs: Sequence[Run]) -> DagSummary:
        delays = [run.delay for run in runs if run.run_after >= self.start]
        late = [delay for delay in delays if delay > _LATE_AFTER]
        return DagSummary(
            dag_id=dag_id,
            runs=len(runs),
            failed=sum(run.state == FAILED for run in runs),
            steps=sum(was_submitted(step) for run in runs for step in run.steps),
            most_at_once=peak(self.run_spans(runs)).count,
            late_runs=len(late),
            latest=max(late, default=timedelta()),
            behind_since=self.behind.get(dag_id),
            owed=self.owed.get(dag_id, 0),
        )

    def by_hour(self) -> dict[DateTime, Counter[str]]:
        """Return how many runs were created, by hour and DAG."""
        hours: dict[DateTime, Counter[str]] = {}
        for run in sorted(self.runs, key=lambda run: run.created_at):
            hours.setdefault(run.created_at.start_of("hour"), Counter())[run.dag_id] += 1
        return hours

    def run_spans(self, runs: Iterable[Run] | None = None) -> list[Span]:
        """Return from when to when runs existed; unfinished ones until the end."""
        chosen = self.runs if runs is None else runs
        return [(run.created_at, run.ended_at or self.end) for run in chosen]

    def step_spans(self) -> list[Span]:
        """Return from when to when steps had a job."""
        return [
            (step.submitted_at, step.ended_at or self.end)
            for run in self.runs
            for step in run.steps
            if step.submitted_at is not None
        ]


def was_submitted(step: Step) -> bool:
    """Return whether a step has had a job."""
    return step.submitted_at is not None


def peak(spans: Iterable[Span]) -> Peak:
    """Return the maximum number of spans at once; a span that ends makes room first."""
    highest, at = 0, None
    for instant, count in levels(spans):
        if count > highest:
            highest, at = count, instant
    return Peak(highest, at)


def levels(spans: Iterable[Span]) -> list[tuple[DateTime, int]]:
    """Return each instant at which the number of spans at once changes, with the new number."""
    changes: Counter[DateTime] = Counter()
    for start, end in spans:
        # A span without duration counts too.
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
    poll_real_sources: bool = False,
    on_progress: Callable[[DateTime], None] = lambda _: None,
) -> Simulation:
    """Simulate a bundle for some days.

    Args:
        root: The directory of the bundle.
        dags: The DAGs that a check of it has found.
        at: The start.
        days: The number of days.
        catch_up: Whether runs that are due at the start are created.
        takes: How long tasks take; a second by default.
        variables: The deployment's variables; others that templates use get a placeholder.
        poll_real_sources: Whether polled sources are really read; otherwise they stay silent.
        on_progress: Called now and then with the simulated time.
    """
    known = dict.fromkeys(_variables_in(dags), "simulated") | dict(variables)
    emr = FakeEmr()
    for (dag_id, task_id), duration in takes.items():
        emr.takes(dag_id, task_id, seconds=duration.total_seconds())
    deployment = LocalDeployment(
        at=at,
        executor=emr,
        catch_up=catch_up,
        variables=known,
        poll_real_sources=poll_real_sources,
    )
    with deployment as lamp, warnings_as_lines():
        owed = owed_after_push(root, dags)
        lamp.push(root)
        end = as_utc(at.add(days=days))
        while lamp.now < end:
            lamp.advance(to=min(end, as_utc(lamp.now + _STRIDE)))
            on_progress(lamp.now)
        return Simulation(
            start=at,
            end=end,
            runs=tuple(sorted(all_runs(), key=_creation_order)),
            owed=owed,
            behind=_behind(end),
            dag_ids=tuple(sorted(dag.dag_id for dag in dags)),
        )


def _variables_in(dags: Iterable[CheckedDag]) -> set[str]:
    """Return the variables that templates use: without them, steps would fail at once."""
    return {name for dag in dags for name in _VARIABLE.findall(json.dumps(dag.document["tasks"]))}


def _creation_order(run: Run) -> tuple[DateTime, str, str]:
    return run.created_at, run.dag_id, run.run_id


def _behind(end: DateTime) -> dict[str, DateTime]:
    return {
        row.dag_id: row.next_run_after
        for row in all_dags()
        if row.next_run_after is not None
        and end - row.next_run_after > _LATE_AFTER
        and not (row.is_paused or row.is_stale)
    }
