"""What has changed in the tables since they were last read: runs, steps, asset events.

The tables are read, rather than the functions observed, because other processes change them too.

Owns: what is worth a line. Refuses: changing anything.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from pendulum import DateTime

from lamplighter import clock
from lamplighter.executors.step_functions import StepFunctions
from lamplighter.runs.states import LIVE, NONE, SUBMITTED, SUCCESS
from lamplighter.store.assets import assets_of_kind
from lamplighter.store.runs import FINISHED, QUEUED, RUNNING, run_ref, runs_in_state, stored_steps
from lamplighter_operations.views import Step, view_steps

# Other processes have clocks of their own, which may be ahead by a fraction of a second.
_OVERLAP = timedelta(seconds=5)


@dataclass(frozen=True)
class Activity:
    """Something that has happened: to what, its state now, and details."""

    at: DateTime
    about: str
    state: str
    detail: str = ""


class RunningStep(NamedTuple):
    """A step that has a job, with the name of its run."""

    run: str
    step: Step


class _ListedRun(NamedTuple):
    dag_id: str
    run_key: str
    name: str
    state: str

    @property
    def ref(self) -> str:
        return run_ref(self.dag_id, self.run_key)


class ActivityFeed:
    """Compares the tables with what they held the last time."""

    def __init__(self) -> None:
        self._polled_at = clock.now()
        # By run, its state; by run and task, the state and number of the last job; by asset, the
        # number of the last event.
        self._runs: dict[str, str] = {}
        self._steps: dict[tuple[str, str], tuple[str, int]] = {}
        self._seq: dict[str, int] = {}
        self.running: list[RunningStep] = []

    def poll(self) -> list[Activity]:
        """Return what is new, causes before effects."""
        now = clock.now()
        self.running = []
        runs = list(self._recent_runs(now))
        # Runs that end send events, which create new runs.
        known = [run for run in runs if run.ref in self._runs]
        new = [run for run in runs if run.ref not in self._runs]
        found = [each for run in known for each in self._run_activity(run, now)]
        found += self._event_activity(now)
        found += [each for run in new for each in self._run_activity(run, now)]
        self._polled_at = now
        return found

    def _recent_runs(self, now: DateTime) -> Iterator[_ListedRun]:
        """Yield the runs that have not finished, and those that have finished since."""
        since = self._polled_at - _OVERLAP
        for state in (QUEUED, RUNNING, *sorted(FINISHED)):
            is_over = state in FINISHED
            # The index has finished runs by day.
            days = {since.date(): since, now.date(): now} if is_over else {now.date(): now}
            for day in days.values():
                for row in runs_in_state(state, day, since=since if is_over else None):
                    name = f"{row.dag_id}/{row.run_id}"
                    yield _ListedRun(row.dag_id, row.run_key, name, state)

    def _run_activity(self, run: _ListedRun, now: DateTime) -> Iterator[Activity]:
        has_moved, is_over = self._runs.get(run.ref) != run.state, run.state in FINISHED
        self._runs[run.ref] = run.state
        if has_moved and not is_over:
            yield Activity(now, run.name, run.state)
        if run.state == RUNNING or (has_moved and is_over):
            yield from self._step_activity(run, now)
        if has_moved and is_over:
            yield Activity(now, run.name, run.state)

    def _step_activity(self, run: _ListedRun, now: DateTime) -> Iterator[Activity]:
        for step in view_steps(stored_steps(run.ref)):
            if step.state in LIVE:
                self.running.append(RunningStep(run.name, step))
            key, state = (run.ref, step.task_id), (step.state, step.submission)
            before = self._steps.get(key, (NONE, 0))
            self._steps[key] = state
            # That a job waits for its turn is not worth a line.
            if state != before and step.state not in {NONE, SUBMITTED}:
                yield Activity(now, f"{run.name}  {step.task_id}", step.state, _detail(step))

    def _event_activity(self, now: DateTime) -> Iterator[Activity]:
        # URIs and aliases repeat the events of assets.
        for asset in assets_of_kind("asset"):
            seq, before = int(asset.seq or 0), self._seq.get(asset.asset_id, 0)
            self._seq[asset.asset_id] = seq
            if seq > before:
                name = asset.name or asset.uri or asset.asset_id
                yield Activity(now, f"asset {name}", "event", _counted(seq - before, "new event"))


def _detail(step: Step) -> str:
    if step.error:
        line = step.error.strip().rpartition("\n")[2]
        retry = f"; retry at {step.retry_at:%H:%M:%S} UTC" if step.retry_at is not None else ""
        return f"{line}{retry}"
    if step.state == SUCCESS and step.executor == StepFunctions.name:
        return "not executed: there are no state machines here"
    if step.ended_at is None or step.started_at is None:
        return f"try {step.try_number}" if step.try_number > 1 else ""
    seconds = (step.ended_at - step.started_at).total_seconds()
    # The clock moves in steps of half a second.
    return f"{seconds:.0f} s" if seconds >= 1 else "less than 1 s"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
