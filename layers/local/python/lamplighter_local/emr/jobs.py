"""Jobs that only pretend to run, in the order of time.

Owns: the lives of jobs, and how many of them have workers at once. Refuses: knowing what time it
is; whoever asks says until when things have happened.
"""

import datetime
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pendulum import DateTime

from lamplighter.executors import JobState
from lamplighter.zones import as_utc, iso
from lamplighter_local.emr.job import Change, FakeJob

_NEVER = as_utc(datetime.datetime.max.replace(tzinfo=datetime.UTC))


@dataclass
class Pace:
    """How long jobs take, in seconds: until they run, in all, and to be cancelled."""

    start_seconds: float = 0.5
    takes_seconds: float = 1.0
    cancel_seconds: float = 1.0


class FakeJobs:
    """All jobs, by their ids, in the order of their starts."""

    def __init__(self, pace: Pace, capacity: int | None) -> None:
        self.pace = pace
        self.capacity = capacity
        self.by_id: dict[str, FakeJob] = {}
        # The ids of those that are not over, in the order of their starts.
        self._live: dict[str, None] = {}

    def live(self) -> list[FakeJob]:
        """Return the jobs that are not over."""
        return [self.by_id[job_run_id] for job_run_id in self._live]

    def add(self, job: FakeJob) -> None:
        """Take a job that was started: it gets workers, or waits for some."""
        now = job.created_at
        self._keep(job)
        if job.outcome.ends_in == "QUEUED":
            self._keep(replace(_queued(job, now), ahead=_own_end(job, now)))
        elif self._room() > 0:
            self._begin(job, now)
        else:
            self._keep(_queued(job, now))

    def cancel(self, job: FakeJob, now: DateTime) -> FakeJob:
        """Return a job that is about to be cancelled; once is enough."""
        if job.state is JobState.CANCELLING:
            return job
        at = max(now, job.timeline[-1].at)
        ends = _after(at, self.pace.cancel_seconds)
        details = "The job run was cancelled by its user."
        cancelled = replace(
            job.changed(Change(JobState.CANCELLING, at)),
            ahead=(Change(JobState.CANCELLED, ends, details),),
        )
        self._keep(cancelled)
        return cancelled

    def next_at(self) -> DateTime | None:
        """Return when the next job changes its state."""
        return min((job.ahead[0].at for job in self.live() if job.ahead), default=None)

    def pass_time(self, until: DateTime) -> Iterator[tuple[FakeJob, Change]]:
        """Let everything happen that comes until then; yield each change with the job after it."""
        while True:
            coming = [job for job in self.live() if job.ahead and job.ahead[0].at <= until]
            if not coming:
                return
            # Of two at one instant the older job comes first: `min` keeps to the order.
            job = min(coming, key=_next_instant)
            change = job.ahead[0]
            job = replace(job.changed(change), ahead=job.ahead[1:])
            self._keep(job)
            yield job, change
            if job.state.is_over:
                self.admit(change.at)

    def admit(self, at: DateTime) -> None:
        """Let jobs that wait begin, the oldest first, as long as there are workers."""
        room = self._room()
        for job in self.live():
            if job.is_waiting and room > 0:
                self._begin(job, max(at, job.timeline[-1].at))
                room -= 1

    def _room(self) -> float:
        """Return how many more jobs can have workers."""
        if self.capacity is None:
            return math.inf
        return self.capacity - sum(job.has_workers for job in self.live())

    def _begin(self, job: FakeJob, at: DateTime) -> None:
        self._keep(replace(job, has_workers=True, ahead=tuple(self._life(job, at))))

    def _life(self, job: FakeJob, at: DateTime) -> Iterator[Change]:
        """Yield what becomes of a job that gets its workers at this instant."""
        starting = min(self.pace.start_seconds, _seconds(job))
        yield Change(JobState.SCHEDULED, _after(at, starting / 2))
        if job.outcome.ends_in == "RUNNING":
            yield Change(JobState.RUNNING, _after(at, starting))
        if _seconds(job) - starting <= job.timeout:
            yield from _own_end(job, at)
            return
        minutes = job.timeout / 60
        details = f"The job run was cancelled: it has run for longer than {minutes:g} minutes."
        timed_out = starting + job.timeout
        yield Change(JobState.CANCELLING, _after(at, timed_out), details)
        yield Change(JobState.CANCELLED, _after(at, timed_out + self.pace.cancel_seconds), details)

    def _keep(self, job: FakeJob) -> None:
        self.by_id[job.job_run_id] = job
        if job.state.is_over:
            self._live.pop(job.job_run_id, None)
        else:
            self._live.setdefault(job.job_run_id)


def _next_instant(job: FakeJob) -> DateTime:
    return job.ahead[0].at


def _queued(job: FakeJob, at: DateTime) -> FakeJob:
    return job.changed(Change(JobState.QUEUED, at))


def _seconds(job: FakeJob) -> float:
    return job.takes if job.outcome.takes is None else job.outcome.takes


def _own_end(job: FakeJob, begun_at: DateTime) -> tuple[Change, ...]:
    """Return the end that a job has if nobody ends it; one that hangs has none."""
    if _seconds(job) == math.inf:
        return ()
    at = _after(begun_at, _seconds(job))
    return (Change(JobState(job.outcome.state), at, job.outcome.details),)


def _after(at: DateTime, seconds: float) -> DateTime:
    return as_utc(at + datetime.timedelta(seconds=seconds))


def doubles(jobs: Iterable[FakeJob]) -> list[str]:
    """Return a sentence for every job that began while another one of its step was live."""
    found: list[str] = []
    longest: dict[tuple[str, str, str], FakeJob] = {}
    for job in sorted(jobs, key=lambda job: job.created_at):
        step = (job.dag, job.run_key, job.task)
        if not any(step):
            continue
        other = longest.setdefault(step, job)
        if other is not job and job.created_at < min(_end(other), _end(job)):
            found.append(
                f"step {job.task} of run {job.run_key} of {job.dag} had two live jobs at "
                f"{iso(job.created_at)}: {other.job_run_id} and {job.job_run_id}"
            )
        longest[step] = max(other, job, key=_end)
    return found


def _end(job: FakeJob) -> DateTime:
    return job.ended_at or _NEVER
