"""What becomes of a job if nobody interferes: the states ahead of it, with their instants.

Owns: how long each state lasts. Refuses: knowing which other jobs there are.
"""

import datetime
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from pendulum import DateTime

from lamplighter.executors.base import JobState
from lamplighter.zones import as_utc
from lamplighter_local.emr.behaviour import EmrBehaviour
from lamplighter_local.emr.capacity import abandoned
from lamplighter_local.emr.job import Change, FakeJob
from lamplighter_local.emr.scripts import Outcome

# Of the time from the start to RUNNING: when a job becomes PENDING, and SCHEDULED.
_PENDING, _SCHEDULED = 0.1, 0.3


@dataclass
class Pace:
    """How long jobs take, in seconds: until they run, in all, and to be cancelled."""

    start_seconds: float = 0.5
    takes_seconds: float = 1.0
    cancel_seconds: float = 1.0


def in_queue(at: DateTime, behaviour: EmrBehaviour) -> tuple[Change, ...]:
    """Return the end of a job that stays in the queue; without a timeout, there is none."""
    minutes = behaviour.queue_timeout_minutes
    if minutes is None:
        return ()
    details = Outcome.queue_timeout(minutes).details
    return (Change(JobState.FAILED, after(at, 60 * minutes), details),)


def instant_life(job: FakeJob, at: DateTime, pace: Pace, *, refusal: str) -> Iterator[Change]:
    """Yield what becomes of a job that begins, and whose time includes that of its start."""
    starting = min(pace.start_seconds, _seconds(job))
    yield Change(JobState.SCHEDULED, after(at, starting / 2))
    if refusal:
        yield Change(JobState.FAILED, after(at, starting), refusal)
        return
    if job.outcome.ends_in == "RUNNING":
        yield Change(JobState.RUNNING, after(at, starting))
    if _seconds(job) - starting <= job.timeout:
        yield from own_end(job, at)
    else:
        yield from _timed_out(job, after(at, starting), pace)


def life_until_running(
    job: FakeJob, at: DateTime, behaviour: EmrBehaviour, *, refusal: str
) -> Iterator[Change]:
    """Yield what becomes of a job that begins, until it runs; one that is refused never does."""
    seconds = _start_seconds(job, behaviour)
    scheduled_at, runs_at = _on_second(at, _SCHEDULED * seconds), _on_second(at, seconds)
    yield Change(JobState.PENDING, _on_second(at, _PENDING * seconds))
    yield Change(JobState.SCHEDULED, scheduled_at)
    if refusal:
        yield Change(JobState.FAILED, runs_at, refusal)
    elif job.outcome.ends_in == "RUNNING":
        yield Change(JobState.RUNNING, runs_at)
    else:
        takes = job.outcome.takes
        ends_at = runs_at if takes is None else after(at, takes)
        yield _end(job, max(ends_at, scheduled_at))


def life_of_running(job: FakeJob, behaviour: EmrBehaviour, pace: Pace) -> Iterator[Change]:
    """Yield what becomes of a job that runs: it makes progress from its first executor on."""
    assert job.running_at is not None
    waits = behaviour.executor_wait_seconds
    begins_at = min(job.executors, default=None if job.size.executors else job.running_at)
    if begins_at is None:
        lasts = waits
    else:
        lasts = (begins_at - job.running_at).total_seconds() + _seconds(job)
    if lasts > job.timeout:
        yield from _timed_out(job, job.running_at, pace)
    elif begins_at is None:
        yield Change(JobState.FAILED, after(job.running_at, waits), abandoned(waits))
    else:
        yield from own_end(job, begins_at)


def own_end(job: FakeJob, begun_at: DateTime) -> tuple[Change, ...]:
    """Return the end that a job has if nobody ends it; one that hangs has none."""
    if _seconds(job) == math.inf:
        return ()
    return (_end(job, after(begun_at, _seconds(job))),)


def after(at: DateTime, seconds: float) -> DateTime:
    """Return the instant so much later."""
    return as_utc(at + datetime.timedelta(seconds=seconds))


def _start_seconds(job: FakeJob, behaviour: EmrBehaviour) -> float:
    least, greatest = behaviour.start_seconds or (0.0, 0.0)
    # By job and not by turn: what one job does changes nothing for the others.
    chance = random.Random(f"{behaviour.seed}/{job.job_run_id}")  # noqa: S311 - repeatable
    return chance.uniform(least, greatest)


def _timed_out(job: FakeJob, running_at: DateTime, pace: Pace) -> Iterator[Change]:
    minutes = job.timeout / 60
    details = f"The job run was cancelled: it has run for longer than {minutes:g} minutes."
    ends_at = after(running_at, job.timeout + pace.cancel_seconds)
    yield Change(JobState.CANCELLING, after(running_at, job.timeout), details)
    yield Change(JobState.CANCELLED, ends_at, details)


def _seconds(job: FakeJob) -> float:
    return job.takes if job.outcome.takes is None else job.outcome.takes


def _end(job: FakeJob, at: DateTime) -> Change:
    return Change(JobState(job.outcome.state), at, job.outcome.details, is_scripted=True)


def _on_second(at: DateTime, seconds: float) -> DateTime:
    """Return a full second: jobs that change together cost a simulation one instant."""
    later = after(at, seconds)
    return later if later.microsecond == 0 else after(later.replace(microsecond=0), 1)
