"""What an observation of a job means for its step. Assigns only.

Owns: which jobs count, retries, and what jobs cost. A job that no step names changes nothing; if it
still runs, it is an orphan.
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Self

from pendulum import DateTime

from lamplighter import settings
from lamplighter.dags.task import Task
from lamplighter.errors import in_short
from lamplighter.executors import named
from lamplighter.executors.base import Job, JobState, Usage
from lamplighter.runs.job_request import NO_REPORT, JobName, JobReport, SubmissionKey, read_report
from lamplighter.runs.outlets import outlet_events
from lamplighter.runs.states import (
    CANCEL,
    CANCELLED,
    CLEAR,
    FAILED,
    LIVE,
    NONE,
    OVER,
    RUNNING,
    SCHEDULED,
    SKIPPED,
    SUBMITTED,
    SUCCESS,
    TIMEOUT,
    UP_FOR_RETRY,
    move_step,
    set_expiry,
    shorten,
)
from lamplighter.runs.view import RunView
from lamplighter.store.backfills import add_late_cost
from lamplighter.store.models import AssetEvents, Steps
from lamplighter.store.transactions import Put
from lamplighter.zones import iso, iso_or_none

_KEPT_TRIES = 20
_MAX_RETRY_DELAY = timedelta(days=1)
_CAPACITY_DELAYS = 60.0, 600.0
_NOT_ITS_REPORT = "the report in its folder was refused: its job has not written it"


@dataclass(frozen=True)
class JobObservation:
    """A job's current state, with its report if it is over."""

    key: SubmissionKey
    job: Job
    # The executor of the job; None means the current one.
    executor: str | None = None
    report: JobReport = NO_REPORT
    # It was not started, because the call was throttled.
    is_throttled: bool = False

    @classmethod
    def of(cls, key: SubmissionKey, job: Job, executor: str | None) -> Self:
        """Return the observation of a job, with its report if it is over.

        A job that failed without a word of its own has the first exception of its driver's log.
        """
        report = read_report(job) if job.state.is_over else NO_REPORT
        is_silent = report.reason is None and not job.lacked_capacity
        if job.state is JobState.FAILED and is_silent:
            error = named(executor).first_error(job.job_run_id)
            job = job if error is None else replace(job, details=f"{job.details}\n{error}".strip())
        return cls(key, job, executor, report)


def apply_observation(
    view: RunView, observation: JobObservation, *, now: DateTime
) -> list[AssetEvents] | None:
    """Assign to a step what follows from its job; return the events of its outlets.

    Returns None if the job does not belong to a current submission of the run.
    """
    step = view.steps.get(observation.key.task_id)
    if step is None or step.state not in LIVE or observation.key != JobName.of(view.run, step).key:
        return None
    if step.job_run_id not in (None, observation.job.job_run_id):
        return None
    if observation.is_throttled:
        # Unless someone has asked for the same job again, and may have got it.
        if step.job_run_id is None and step.asked_at == step.submitted_at:
            step.try_number -= 1  # counted again with the next submission
            move_step(step, SCHEDULED)
        return []
    step.job_run_id = observation.job.job_run_id or None
    if not observation.job.state.is_over:
        if observation.job.state is JobState.RUNNING and step.state == SUBMITTED:
            move_step(step, RUNNING)
        if observation.job.state is JobState.RUNNING and step.started_at is None:
            step.started_at = observation.job.started_at or now
        return []
    if not observation.report.is_of(step):
        view.refused_reports.append(step.step_id)
        observation = replace(observation, report=NO_REPORT)
        return _JobEnd(view, step, observation, now, note=_NOT_ITS_REPORT).assign()
    return _JobEnd(view, step, observation, now).assign()


@dataclass
class _JobEnd:
    """The end of one attempt."""

    view: RunView
    step: Steps
    observation: JobObservation
    now: DateTime
    # What is wrong with its report.
    note: str | None = None

    def assign(self) -> list[AssetEvents]:
        job, step = self.observation.job, self.step
        if step.started_at is None:
            step.started_at = job.started_at
        step.ended_at = job.ended_at or self.now
        add_bill(self.view, step, job)
        events: list[AssetEvents] = []
        if step.cancel_action == CLEAR:
            move_step(step, NONE)
        elif step.cancel_action in {SUCCESS, FAILED}:
            move_step(step, step.cancel_action)  # as marked, without outlet events
        elif job.state is JobState.SUCCESS:
            events = self._succeed()
        else:
            self._fail()
        _record_attempt(step)
        step.cancel_action = None
        set_expiry(step, self.now)
        return events

    def _succeed(self) -> list[AssetEvents]:
        step, report = self.step, self.observation.report
        step.capacity_since = None
        if report.is_skipped:
            move_step(step, SKIPPED)
            step.error = shorten(report.reason)
            return []
        events, problem = outlet_events(self.view, step, report, now=self.now)
        self.view.puts += [Put(event) for event in events]
        move_step(step, SUCCESS)
        step.error = shorten(_joined(self.note, problem, report.problem))
        return events

    def _fail(self) -> None:
        step, task = self.step, self.view.dag.tasks[self.step.step_id]
        step.error = shorten(_joined(self.note, self._error()))
        is_ending = step.cancel_action == CANCEL or self.view.run.target_state is not None
        of = f"{step.run_ref}#{step.step_id}"
        if is_ending:
            move_step(step, FAILED)
        elif self._may_wait_for_capacity():
            step.capacity_since = self._capacity_since
            step.try_number -= 1  # counted again with the next submission
            self._retry(capacity_delay(self._waited_seconds, of=f"{of}#{step.submission}"))
        elif step.try_number < step.max_try_number:
            step.capacity_since = None
            self._retry(retry_delay(task, int(step.try_number), of=of).total_seconds())
        else:
            move_step(step, FAILED)

    def _retry(self, seconds: float) -> None:
        move_step(self.step, UP_FOR_RETRY)
        self.step.retry_at = self.now.add(seconds=seconds)

    @property
    def _capacity_since(self) -> DateTime:
        known = (self.step.capacity_since, self.step.submitted_at, self.now)
        return next(at for at in known if at is not None)

    @property
    def _waited_seconds(self) -> float:
        return (self.now - self._capacity_since).total_seconds()

    def _may_wait_for_capacity(self) -> bool:
        if not self.observation.job.lacked_capacity or self.step.cancel_action is not None:
            return False
        return self._waited_seconds < settings.current().capacity_wait_hours * 3_600

    def _error(self) -> str:
        job, task = self.observation.job, self.view.dag.tasks[self.step.step_id]
        if self.step.cancel_action == TIMEOUT:
            return f"execution_timeout: it ran for longer than {task.execution_timeout}"
        if self.step.cancel_action == CANCEL and self.view.run.target_state is None:
            return self.step.error or "it was given up"
        if self.step.cancel_action == CANCEL:
            return f"cancelled: {self.view.run.reason or 'the run was ended'}"
        said = self.observation.report.reason or job.details
        if job.lacked_capacity:
            return f"no capacity since {iso(self._capacity_since)}: {said}"
        return said or f"the job ended as {job.state} and said nothing"


def _joined(*texts: str | None) -> str | None:
    return "; ".join(filter(None, texts)) or None


def retry_delay(task: Task, try_number: int, *, of: str) -> timedelta:
    """Return the delay after a failed attempt; `try_number` of the first is 1.

    With back-off it grows by a factor, plus up to 100 % that depends on `of`, so that steps that
    failed together are not retried together.
    """
    if not task.retry_exponential_backoff:
        return task.retry_delay
    longest = min(_MAX_RETRY_DELAY, task.max_retry_delay or _MAX_RETRY_DELAY).total_seconds()
    try:
        grown = task.retry_delay.total_seconds() * task.retry_exponential_backoff ** (
            try_number - 1
        )
    except OverflowError:
        grown = longest
    base = max(1, math.ceil(min(grown, longest)))
    return timedelta(seconds=min(base + _jitter(f"{of}#{try_number}", base), longest))


def capacity_delay(waited_seconds: float, *, of: str) -> float:
    """Return for how many seconds a step that found no capacity waits: as long as it has so far.

    One minute at least and ten at most, plus up to half of it that depends on `of`.
    """
    shortest, longest = _CAPACITY_DELAYS
    base = min(max(waited_seconds, shortest), longest)
    return base + _jitter(of, int(base / 2))


def _jitter(of: str, below: int) -> int:
    digest = hashlib.sha256(of.encode()).digest()
    return int.from_bytes(digest[:8], "big") % below


def _record_attempt(step: Steps) -> None:
    ended = step.state if step.state in OVER else (CANCELLED if step.state == NONE else FAILED)
    was_rejected = step.state == UP_FOR_RETRY and step.capacity_since is not None
    attempt = {
        "submission": int(step.submission),
        # A rejected one was taken back, to be counted again.
        "try_number": int(step.try_number) + (1 if was_rejected else 0),
        "executor": step.executor,
        "job_run_id": step.job_run_id,
        "state": ended,
        "started_at": iso_or_none(step.started_at),
        "ended_at": iso_or_none(step.ended_at),
        "error": in_short(step.error) if step.error else None,
    }
    step.tries = [*(step.tries or ()), attempt][-_KEPT_TRIES:]


def cancelled_before_start(view: RunView, steps: Iterable[Steps]) -> list[JobObservation]:
    """Return observations of jobs that were never started: they count as cancelled."""
    job = Job("", JobState.CANCELLED, "", details="it was never started")
    return [JobObservation(JobName.of(view.run, step).key, job, step.executor) for step in steps]


# Bills: each is added once, to step and backfill. On EMR Serverless one comes seconds to minutes
# after the end of its job, so a step remembers its unbilled jobs. A bill is added in the write
# that forgets the job, so that repeating it adds nothing.


def add_bill(view: RunView, step: Steps, job: Job) -> None:
    """Add what a job cost that has just ended, or remember that it is unknown."""
    if job.usage is not None:
        _add_usage(step, job.usage)
    elif job.job_run_id and named(step.executor).bills_jobs:
        unbilled = {
            "job_run_id": job.job_run_id,
            "executor": step.executor,
            "backfill_id": view.run.slot_backfill_id,
        }
        step.unbilled_jobs = [*(step.unbilled_jobs or ()), unbilled]


def add_late_bill(view: RunView, task_id: str, job: Job) -> None:
    """Add what an earlier job cost, if that was unknown until now."""
    step = view.steps.get(task_id)
    unbilled = () if step is None else (step.unbilled_jobs or ())
    paid = next((each for each in unbilled if each["job_run_id"] == job.job_run_id), None)
    if step is None or paid is None or job.usage is None:
        return
    step.unbilled_jobs = [each for each in unbilled if each is not paid] or None
    _add_usage(step, job.usage)
    backfill_id = paid["backfill_id"]
    # If the run still holds the backfill's slot, its end adds the cost.
    if backfill_id is None or backfill_id == view.run.slot_backfill_id:
        return
    if (backfill := view.read_past_backfill(backfill_id)) is not None:
        is_complete = all(each["backfill_id"] != backfill_id for each in unbilled_jobs(view))
        add_late_cost(backfill, job.usage.cost, is_run_complete=is_complete)


def unbilled_jobs(view: RunView) -> list[dict[str, Any]]:
    """Return the jobs of a run that are over and not billed."""
    return [each for step in view.steps.values() for each in step.unbilled_jobs or ()]


def _add_usage(step: Steps, usage: Usage) -> None:
    for name, amount in asdict(usage).items():
        setattr(step, name, round((getattr(step, name) or 0) + amount, 9))
