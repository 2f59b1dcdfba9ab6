"""What has happened in the tables since someone last looked: runs, steps, events of assets.

The tables are asked, and not the functions, because other processes change them too.

Owns: what is worth a line. Refuses: changing anything.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from pendulum import DateTime

from lamplighter import clock
from lamplighter.runs.states import LIVE, NONE, SUBMITTED
from lamplighter.store.models import Assets, Runs, Steps
from lamplighter.store.runs import FINISHED, QUEUED, RUNNING, state_buckets
from lamplighter.store.steps import run_ref
from lamplighter.zones import iso

# Another process writes by its own clock, which is ahead of ours by a part of a second.
_OVERLAP = timedelta(seconds=5)


@dataclass(frozen=True)
class News:
    """A line for people: what it is about, the state that it has now, and more about that."""

    at: DateTime
    about: str
    state: str
    detail: str = ""


@dataclass(frozen=True)
class LiveStep:
    """A step that has a job: one that runs, or waits for those before it."""

    run: str
    task_id: str
    state: str
    try_number: int
    started_at: DateTime | None


@dataclass(frozen=True)
class _Seen:
    key: tuple[str, str]
    name: str
    state: str


class Follower:
    """Knows what was there the last time."""

    def __init__(self) -> None:
        self._looked_at = clock.now()
        self._runs: dict[tuple[str, str], str] = {}
        self._steps: dict[tuple[str, str], tuple[str, int]] = {}
        self._seq: dict[str, int] = {}
        self.live: list[LiveStep] = []

    def look(self) -> list[News]:
        """Return what is new, causes before what they bring about."""
        now = clock.now()
        self.live = []
        runs = list(self._recent_runs(now))
        # What ends lets go of events, and these bring new runs.
        old = [run for run in runs if run.key in self._runs]
        fresh = [run for run in runs if run.key not in self._runs]
        news = [each for run in old for each in self._news_of(run, now)]
        news += self._events(now)
        news += [each for run in fresh for each in self._news_of(run, now)]
        self._looked_at = now
        return news

    def _news_of(self, run: _Seen, now: DateTime) -> Iterator[News]:
        has_moved, is_over = self._runs.get(run.key) != run.state, run.state in FINISHED
        self._runs[run.key] = run.state
        if has_moved and not is_over:
            yield News(now, run.name, run.state)
        if run.state == RUNNING or (has_moved and is_over):
            yield from self._steps_of(run, now)
        if has_moved and is_over:
            yield News(now, run.name, run.state)

    def _recent_runs(self, now: DateTime) -> Iterator[_Seen]:
        """Yield the runs that are not over, and those that have ended since."""
        since = self._looked_at - _OVERLAP
        for state in (QUEUED, RUNNING, *sorted(FINISHED)):
            is_over = state in FINISHED
            # The index has ended runs day by day.
            days = {since.date(): since, now.date(): now} if is_over else {now.date(): now}
            for day in days.values():
                for bucket in state_buckets(state, day):
                    newer = Runs.state_since >= since if is_over else None
                    yield from _read(Runs.by_state.query(bucket, newer), state)

    def _steps_of(self, run: _Seen, now: DateTime) -> Iterator[News]:
        ref = run_ref(*run.key)
        for step in sorted(Steps.query(ref, consistent_read=True), key=_begun):
            if step.state in LIVE:
                self.live.append(
                    LiveStep(
                        run.name, step.step_id, step.state, int(step.try_number), step.started_at
                    )
                )
            state = (step.state, int(step.submission))
            known = self._steps.get((ref, step.step_id), (NONE, 0))
            self._steps[ref, step.step_id] = state
            # That a job waits for its turn is no news.
            if state != known and step.state not in {NONE, SUBMITTED}:
                yield News(now, f"{run.name}  {step.step_id}", step.state, _detail(step))

    def _events(self, now: DateTime) -> Iterator[News]:
        # A URI or an alias repeats the events of the assets behind it.
        for asset in Assets.scan(Assets.kind == "asset"):
            seq, known = int(asset.seq or 0), self._seq.get(asset.asset_id, 0)
            self._seq[asset.asset_id] = seq
            if seq > known:
                name = asset.name or asset.uri or asset.asset_id
                yield News(now, f"asset {name}", "event", _counted(seq - known, "new event"))


def _read(rows: Iterable[Runs], state: str) -> Iterator[_Seen]:
    for row in rows:
        yield _Seen((row.dag_id, row.run_key), f"{row.dag_id}/{row.run_id}", state)


def _begun(step: Steps) -> str:
    """Return what puts steps in the order in which they began, and the others last."""
    return "~" if step.submitted_at is None else iso(step.submitted_at)


def _detail(step: Steps) -> str:
    if step.error:
        said = step.error.strip().rpartition("\n")[2]
        again = f"; again at {step.retry_at:%H:%M:%S} UTC" if step.retry_at is not None else ""
        return f"{said}{again}"
    if step.ended_at is None or step.started_at is None:
        return f"try {step.try_number:.0f}" if step.try_number > 1 else ""
    seconds = (step.ended_at - step.started_at).total_seconds()
    # The clock goes in steps of half a second.
    return f"{seconds:.0f} s" if seconds >= 1 else "less than 1 s"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
