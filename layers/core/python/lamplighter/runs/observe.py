"""What a step becomes when something is known of its job. Assigns only.

Owns: retries, timeouts of steps, and who is believed. A job that the row does not speak of changes
nothing; if it still runs, it must not.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from pendulum import DateTime

from lamplighter import settings
from lamplighter.errors import in_short
from lamplighter.executors.job import Job, JobState, Usage
from lamplighter.runs.job_names import JobName, JobPlace
from lamplighter.runs.moves import (
    CANCELLED,
    CANCELLING,
    FAILED,
    LIVE,
    NONE,
    OVER,
    RUNNING,
    SKIPPED,
    SUBMITTED,
    SUCCESS,
    UP_FOR_RETRY,
    move_step,
)
from lamplighter.runs.outlets import outlet_events
from lamplighter.runs.reports import NO_REPORT, Report, read_report, readable
from lamplighter.runs.retry_delay import retry_delay
from lamplighter.runs.view import RunView
from lamplighter.store.models import AssetEvents, Steps
from lamplighter.store.transactions import Put
from lamplighter.zones import iso

# Why a job is being cancelled.
TIMEOUT, CANCEL, CLEAR = "timeout", "cancel", "clear"

# What EMR Serverless says of a job that never had a chance. Its words are not documented.
_TURNED_AWAY = ("capacity", "quota", "queue timeout", "queuetimeout", "throttl")
_KEPT_TRIES = 20
_MAX_ERROR = 2_000


@dataclass(frozen=True)
class Seen:
    """A job as it is now, with what it says of itself if it is over."""

    place: JobPlace
    job: Job
    report: Report = NO_REPORT
    # It was refused, and would be again.
    is_final: bool = False

    @classmethod
    def of(cls, place: JobPlace, job: Job) -> Self:
        """Return a job with its report, which there is only when it is over."""
        return cls(place, job, read_report(job)) if job.state.is_over else cls(place, job)


def observe(view: RunView, seen: Seen, *, now: DateTime) -> list[AssetEvents] | None:
    """Let a step be what its job says; return the events of its outlets.

    Returns None if the job is none of the run's as it stands.
    """
    step = view.steps.get(seen.place.task_id)
    if step is None or step.state not in LIVE or seen.place != JobName.of(view.run, step).place:
        return None
    if step.job_run_id not in (None, seen.job.job_run_id):
        return None
    step.job_run_id = seen.job.job_run_id or None
    if not seen.job.state.is_over:
        if seen.job.state is JobState.RUNNING and step.state == SUBMITTED:
            move_step(step, RUNNING)
        if seen.job.state is JobState.RUNNING and step.started_at is None:
            step.started_at = seen.job.started_at or now
        return []
    return _Ending(view, step, seen, now).assign()


@dataclass
class _Ending:
    """The end of one attempt."""

    view: RunView
    step: Steps
    seen: Seen
    now: DateTime

    def assign(self) -> list[AssetEvents]:
        job, step = self.seen.job, self.step
        if step.started_at is None:
            step.started_at = job.started_at
        step.ended_at = job.ended_at or self.now
        add_usage(step, job.usage)
        events: list[AssetEvents] = []
        if step.cancel_action == CLEAR:
            move_step(step, NONE)
        elif step.cancel_action in {SUCCESS, FAILED}:
            move_step(step, step.cancel_action)  # as it was marked; that tells of no outlets
        elif job.state is JobState.SUCCESS and self.seen.report.is_skipped:
            self._skip()
        elif job.state is JobState.SUCCESS:
            events = self._succeed()
        else:
            self._fail()
        _note_attempt(step)
        step.cancel_action = None
        keep_or_expire(step, self.now)
        return events

    def _skip(self) -> None:
        move_step(self.step, SKIPPED)
        self.step.error = _shortened(self.seen.report.reason)
        self.step.capacity_rejections = None

    def _succeed(self) -> list[AssetEvents]:
        events, problem = outlet_events(self.view, self.step, self.seen.report, now=self.now)
        self.view.puts += [Put(event) for event in events]
        move_step(self.step, SUCCESS)
        self.step.error = _shortened(problem)
        self.step.capacity_rejections = None
        return events

    def _fail(self) -> None:
        step, task = self.step, self.view.dag.tasks[self.step.step_id]
        step.error = _shortened(self._why())
        is_ending = step.cancel_action == CANCEL or self.view.run.target_state is not None
        if is_ending or self.seen.is_final:
            move_step(step, FAILED)
        elif self._was_turned_away():
            step.capacity_rejections = (step.capacity_rejections or 0) + 1
            step.try_number -= 1  # it is counted again when it starts
            self._retry(60.0 * min(step.capacity_rejections, 10))
        elif step.try_number < step.max_try_number:
            step.capacity_rejections = None
            of = f"{step.run_ref}#{step.step_id}"
            self._retry(retry_delay(task, int(step.try_number), of=of).total_seconds())
        else:
            move_step(step, FAILED)

    def _retry(self, seconds: float) -> None:
        move_step(self.step, UP_FOR_RETRY)
        self.step.retry_at = self.now.add(seconds=seconds)

    def _was_turned_away(self) -> bool:
        job = self.seen.job
        if job.started_at is not None or self.step.cancel_action is not None:
            return False
        if (self.step.capacity_rejections or 0) >= settings.current().capacity_retries:
            return False
        said = job.details.lower()
        return job.state is JobState.FAILED and any(word in said for word in _TURNED_AWAY)

    def _why(self) -> str:
        job, task = self.seen.job, self.view.dag.tasks[self.step.step_id]
        if self.step.cancel_action == TIMEOUT:
            return f"execution_timeout: it ran for longer than {task.execution_timeout}"
        if self.step.cancel_action == CANCEL and self.view.run.target_state is None:
            return self.step.error or "it was given up"
        if self.step.cancel_action == CANCEL:
            return f"cancelled: {self.view.run.reason or 'the run was ended'}"
        said = self.seen.report.reason or job.details
        return said or f"the job ended as {job.state} and said nothing"


def time_out(view: RunView, now: DateTime) -> None:
    """Let a run whose time is up be ended."""
    run, limit = view.run, view.dag.dagrun_timeout
    has_begun = run.started_at is not None and run.target_state is None
    if limit is not None and has_begun and run.started_at + limit <= now:
        run.target_state, run.reason = FAILED, f"dagrun_timeout: it ran for longer than {limit}"


def time_out_step(view: RunView, step: Steps, now: DateTime) -> None:
    """Let the job of a step whose time is up be cancelled."""
    deadline = deadline_of(view, step)
    if deadline is not None and deadline <= now:
        move_step(step, CANCELLING)
        step.cancel_action = TIMEOUT


def deadline_of(view: RunView, step: Steps) -> DateTime | None:
    """Return when a running step has run for too long."""
    limit = view.dag.tasks[step.step_id].execution_timeout
    if limit is None or step.state != RUNNING or step.started_at is None:
        return None
    return step.started_at + limit


def end_step(view: RunView, step: Steps, now: DateTime) -> None:
    """Let a step of a run that is being ended not go on, nor begin again."""
    if step.state in {SUBMITTED, RUNNING}:
        move_step(step, CANCELLING)
    if step.state == CANCELLING and step.cancel_action not in {SUCCESS, FAILED}:
        step.cancel_action = CANCEL
    if step.state == UP_FOR_RETRY:
        move_step(step, FAILED)
        step.error = _shortened(f"{step.error}; not retried: {view.run.reason}")
        step.retry_at = None
        keep_or_expire(step, now)


def add_usage(row: Any, usage: Usage) -> None:
    """Add what a job was billed for to a step or a run."""
    if usage == Usage():
        return
    prices = settings.current()
    cost = (
        usage.vcpu_hours * prices.price_vcpu_hour
        + usage.memory_gb_hours * prices.price_memory_gb_hour
        + usage.storage_gb_hours * prices.price_storage_gb_hour
    )
    row.vcpu_hours = round((row.vcpu_hours or 0) + usage.vcpu_hours, 9)
    row.memory_gb_hours = round((row.memory_gb_hours or 0) + usage.memory_gb_hours, 9)
    row.storage_gb_hours = round((row.storage_gb_hours or 0) + usage.storage_gb_hours, 9)
    row.cost = round((row.cost or 0) + cost, 9)


def add_up_costs(view: RunView) -> None:
    """Let the run say what all its steps together have used."""
    for name in ("vcpu_hours", "memory_gb_hours", "storage_gb_hours", "cost"):
        total = sum(getattr(step, name) or 0 for step in view.steps.values())
        setattr(view.run, name, round(total, 9) or None)


def keep_or_expire(step: Steps, now: DateTime) -> None:
    """Let a step that is over be kept for as long as its run, and any other for ever."""
    step.expires_at = _end_of_keeping(now) if step.state in OVER else None


def expire(step: Steps, now: DateTime) -> None:
    """Let a step of a run that is over be kept for as long as the run."""
    if step.expires_at is None:
        step.expires_at = _end_of_keeping(now)


def keep(step: Steps, now: DateTime) -> None:
    """Let a step not expire before its run is over, however long that takes."""
    if step.expires_at is not None and step.expires_at - now < (_end_of_keeping(now) - now) / 2:
        step.expires_at = None


def _end_of_keeping(now: DateTime) -> DateTime:
    return now.add(days=settings.current().run_retention_days)


def _note_attempt(step: Steps) -> None:
    ended = step.state if step.state in OVER else (CANCELLED if step.state == NONE else FAILED)
    attempt = {
        "submission": int(step.submission),
        "try_number": _try_that_ended(step),
        "job_run_id": step.job_run_id,
        "state": ended,
        "started_at": _written(step.started_at),
        "ended_at": _written(step.ended_at),
        "error": in_short(step.error) if step.error else None,
    }
    step.tries = [*(step.tries or ()), attempt][-_KEPT_TRIES:]


def _try_that_ended(step: Steps) -> int:
    is_free = step.state == UP_FOR_RETRY and step.capacity_rejections
    return int(step.try_number) + (1 if is_free else 0)


def _written(at: DateTime | None) -> str | None:
    return None if at is None else iso(at)


def _shortened(text: str | None) -> str | None:
    if text is None:
        return None
    text = readable(text)
    if len(text) <= _MAX_ERROR:
        return text
    # The end of a traceback says what went wrong.
    return f"…{text[-_MAX_ERROR:]}"


def cancelled_before_start(view: RunView, steps: Iterable[Steps]) -> list[Seen]:
    """Return what is known of jobs that were never started: they are as good as cancelled."""
    job = Job("", JobState.CANCELLED, "", details="it was never started")
    return [Seen(JobName.of(view.run, step).place, job) for step in steps]
