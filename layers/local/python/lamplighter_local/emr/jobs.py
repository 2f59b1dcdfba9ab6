"""Jobs that only pretend to run, in the order of time.

Owns: the lives of jobs, and which of them have workers. Refuses: knowing what time it is; whoever
asks says until when things have happened.
"""

import datetime
import heapq
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from pendulum import DateTime

from lamplighter.executors.base import JobState
from lamplighter.zones import as_utc, iso
from lamplighter_local.emr.behaviour import EmrBehaviour
from lamplighter_local.emr.capacity import Capacity
from lamplighter_local.emr.job import Change, FakeJob
from lamplighter_local.emr.lives import (
    Pace,
    after,
    in_queue,
    instant_life,
    life_of_running,
    life_until_running,
    own_end,
)

_NEVER = as_utc(datetime.datetime.max.replace(tzinfo=datetime.UTC))


class FakeJobs:
    """All jobs, by their ids, in the order of their starts.

    Only jobs that are not over cost anything as time passes.
    """

    def __init__(self, pace: Pace, behaviour: EmrBehaviour) -> None:
        self.pace = pace
        self.behaviour = behaviour
        self.by_id: dict[str, FakeJob] = {}
        # When the last of them ended, if none is live.
        self._idle_since: DateTime | None = None
        # Ids, each in the order of their starts: not over; in the queue; wanting more executors.
        self._live: dict[str, None] = {}
        self._waiting: dict[str, None] = {}
        self._short: dict[str, None] = {}
        self._concurrent_runs: set[str] = set()
        self._capacity = Capacity()
        # A heap of the next changes. Those of jobs that have taken another course are left in it.
        self._changes: list[tuple[DateTime, str]] = []

    def live(self) -> list[FakeJob]:
        """Return the jobs that are not over."""
        return [self.by_id[job_run_id] for job_run_id in self._live]

    def busy_until(self, now: DateTime) -> DateTime | None:
        """Return since when no job is live; now, if one is; None if there never was one."""
        return now if self._live else self._idle_since

    def queued(self) -> int:
        """Return how many jobs are in the queue."""
        return len(self._waiting)

    def add(self, job: FakeJob, *, application_at: DateTime) -> None:
        """Take a job that was started: it gets workers, or waits for some."""
        now = job.created_at
        self._keep(job)
        if job.outcome.ends_in == "QUEUED":
            self._keep(replace(_queued(job, now), ahead=own_end(job, now)))
        elif self._has_room(job):
            self._begin(job, application_at)
        else:
            self._keep(replace(_queued(job, now), ahead=in_queue(now, self.behaviour)))

    def cancel(self, job: FakeJob, now: DateTime) -> FakeJob:
        """Return a job that is about to be cancelled; once is enough."""
        if job.state is JobState.CANCELLING:
            return job
        at = max(now, job.timeline[-1].at)
        ends = after(at, self.pace.cancel_seconds)
        details = "The job run was cancelled by its user."
        cancelled = replace(
            job.changed(Change(JobState.CANCELLING, at)),
            ahead=(Change(JobState.CANCELLED, ends, details),),
        )
        self._keep(cancelled)
        return cancelled

    def next_at(self) -> DateTime | None:
        """Return when the next job changes its state."""
        while self._changes:
            at, job_run_id = self._changes[0]
            ahead = self.by_id[job_run_id].ahead
            if ahead and ahead[0].at == at:
                return at
            heapq.heappop(self._changes)
        return None

    def pass_time(self, until: DateTime) -> Iterator[tuple[FakeJob, Change]]:
        """Let everything happen that comes until then; yield each change with the job after it."""
        while (at := self.next_at()) is not None and at <= until:
            # Of two at one instant the older job comes first: ids are in the order of starts.
            _, job_run_id = heapq.heappop(self._changes)
            job = self.by_id[job_run_id]
            change = job.ahead[0]
            job = replace(job.changed(change), ahead=job.ahead[1:])
            self._keep(job)
            yield job, change
            if job.state is JobState.RUNNING and self.behaviour.start_seconds is not None:
                self._launch_executors(self._replanned(job), at)
            elif job.state.is_over:
                self._release(job, at)

    def admit(self, at: DateTime) -> None:
        """Let jobs have the workers that are free: executors first, then drivers, oldest first."""
        for job_run_id in list(self._short):
            self._launch_executors(self.by_id[job_run_id], at)
        while (first := next(iter(self._waiting), None)) is not None:
            job = self.by_id[first]
            if not self._has_room(job):
                return
            self._begin(job, max(at, job.timeline[-1].at))

    def _has_room(self, job: FakeJob) -> bool:
        """Return whether a job need not wait in the queue, if there is one."""
        limit = self.behaviour.max_concurrent_runs
        return limit is None or (
            len(self._concurrent_runs) < limit
            and not self._capacity.can_queue_for(job.size.driver, self.behaviour)
        )

    def _begin(self, job: FakeJob, at: DateTime) -> None:
        """Give a job its driver, or let it fail because there is none."""
        refusal = job.size.problem or self._capacity.refusal(job.size.driver, self.behaviour)
        if not refusal:
            self._capacity.take(job.size.driver, 1, self.behaviour)
        ahead = tuple(self._life(job, at, refusal))
        self._keep(replace(job, has_begun=True, has_driver=not refusal, ahead=ahead))

    def _life(self, job: FakeJob, at: DateTime, refusal: str) -> Iterator[Change]:
        if self.behaviour.start_seconds is None:
            return instant_life(job, at, self.pace, refusal=refusal)
        return life_until_running(job, at, self.behaviour, refusal=refusal)

    def _launch_executors(self, job: FakeJob, at: DateTime) -> None:
        """Launch the executors that a running job lacks, as far as there is room."""
        lacking = job.size.executors - len(job.executors)
        launched = self._capacity.take(job.size.executor, lacking, self.behaviour)
        if not launched:
            return
        is_first = not job.executors
        job = replace(job, executors=job.executors + (at,) * launched)
        if is_first:
            self._replanned(job)
        else:
            self._keep(job)

    def _replanned(self, job: FakeJob) -> FakeJob:
        """Return a running job with what becomes of it from now on."""
        planned = replace(job, ahead=tuple(life_of_running(job, self.behaviour, self.pace)))
        self._keep(planned)
        return planned

    def _release(self, job: FakeJob, at: DateTime) -> None:
        if job.has_driver:
            self._capacity.give_back(job.size.driver, 1)
        self._capacity.give_back(job.size.executor, len(job.executors))
        if not self._live:
            self._idle_since = at
        self.admit(at)

    def _keep(self, job: FakeJob) -> None:
        self.by_id[job.job_run_id] = job
        is_live = not job.state.is_over
        _list(self._live, job, is_member=is_live)
        _list(self._waiting, job, is_member=job.is_waiting)
        _list(self._short, job, is_member=job.lacks_executors)
        if is_live and job.has_begun:
            self._concurrent_runs.add(job.job_run_id)
        else:
            self._concurrent_runs.discard(job.job_run_id)
        if job.ahead:
            heapq.heappush(self._changes, (job.ahead[0].at, job.job_run_id))


def _list(ids: dict[str, None], job: FakeJob, *, is_member: bool) -> None:
    if is_member:
        ids.setdefault(job.job_run_id)
    else:
        ids.pop(job.job_run_id, None)


def _queued(job: FakeJob, at: DateTime) -> FakeJob:
    return job.changed(Change(JobState.QUEUED, at))


class StepJob(Protocol):
    """A job of a step, of any kind."""

    @property
    def dag(self) -> str: ...
    @property
    def run_key(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def job_run_id(self) -> str: ...
    @property
    def created_at(self) -> DateTime: ...
    @property
    def ended_at(self) -> DateTime | None: ...


def doubles(jobs: Iterable[StepJob]) -> list[str]:
    """Return a sentence for every job that began while another one of its step was live."""
    found: list[str] = []
    longest: dict[tuple[str, str, str], StepJob] = {}
    for job in sorted(jobs, key=lambda job: job.created_at):
        step = (job.dag, job.run_key, job.task)
        if not any(step):
            continue
        other = longest.setdefault(step, job)
        if other is not job and job.created_at < min(_ended(other), _ended(job)):
            found.append(
                f"step {job.task} of run {job.run_key} of {job.dag} had two live jobs at "
                f"{iso(job.created_at)}: {other.job_run_id} and {job.job_run_id}"
            )
        longest[step] = max(other, job, key=_ended)
    return found


def _ended(job: StepJob) -> DateTime:
    return job.ended_at or _NEVER
