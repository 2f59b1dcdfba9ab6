"""Carries out decisions about runs, once written: jobs, messages, notifications.

Owns: everything that a run does outside the tables. Effects can be repeated: the rows request them
until they are done. Token and name of a submission are derived from the row, so a repeated start
after a crash or a lost response finds the existing job.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pendulum import DateTime

from lamplighter import aws, queues, runtime, settings
from lamplighter.errors import RefusedError, ThrottledError, TransientError
from lamplighter.executors import named
from lamplighter.executors.base import Job, JobState, Submission
from lamplighter.runs.decision import JobPermissions, RunDecision, RunsReport
from lamplighter.runs.job_observation import JobObservation, cancelled_before_start
from lamplighter.runs.job_request import JobName, PreparedJob
from lamplighter.runs.outlets import send_outlets
from lamplighter.runs.states import (
    CANCELLED,
    CANCELLING,
    FAILED,
    SKIPPED,
    SUCCESS,
    UP_FOR_RETRY,
)
from lamplighter.runs.view import RunView, seconds_since
from lamplighter.store import limits
from lamplighter.store.backfills import newest_of
from lamplighter.store.models import Runs, Steps
from lamplighter.store.runs import FINISHED, log_move, record_job
from lamplighter.store.slots import announcement
from lamplighter.zones import iso_or_none

log = logging.getLogger(__name__)

# The `source` of events on EventBridge.
EVENT_SOURCE = "lamplighter"
RUN_FINISHED = "Run Finished"
_TEXTS = ("dag_id", "run_id", "run_type", "state", "reason", "cost", "unbilled_jobs")
_INSTANTS = ("logical_date", "data_interval_start", "data_interval_end", "started_at", "ended_at")
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 300.0
# Clocks differ, and jobs are listed by creation time.
_MARGIN_SECONDS = 300


def apply_effects(decision: RunDecision) -> list[JobObservation]:
    """Carry out a committed decision; return observations made on the way."""
    view = decision.view
    _add_metrics(decision)
    publish_state_change(view)
    send_outlets(decision.events)
    if decision.wakes_waiting_runs:
        wake_waiting_runs(view)
    cancelled_jobs = cancel_orphaned_jobs(decision.orphaned_jobs, decision.permissions)
    decision.report.cancelled_jobs += cancelled_jobs
    learned = _cancel(decision)
    if decision.needs_submit:
        queues.send_submits([view.name])
    _schedule_wakes(decision)
    _start_waiting_steps(decision)
    if decision.starts:
        before = decision.report.postponed_jobs
        learned += start_jobs(view, decision.starts, decision.report, now=decision.now)
        if decision.report.postponed_jobs > before:
            decision.is_partial = False  # the message that retries it continues
    return learned


def publish_state_change(view: RunView) -> None:
    """Log and publish the run's new state; announce its DAG and backfill, which may be due."""
    if view.run.state != view.run.stored.get("state"):
        log_move(view.run)
        if view.run.state in FINISHED:
            publish_run_finished(view.run)
    if view.row is not None and view.row.is_changed:
        queues.announce_due(announcement(view.row))
    due = [each.backfill_id for each in view.changed_backfills if each.due_shard is not None]
    queues.send_backfills(due)


def _add_metrics(decision: RunDecision) -> None:
    report, run, steps = decision.report, decision.view.run, decision.view.steps.values()
    new = Counter(step.state for step in steps if step.state != step.stored.get("state"))
    report.succeeded_steps += new[SUCCESS]
    report.failed_steps += new[FAILED]
    report.retried_steps += new[UP_FOR_RETRY]
    report.skipped_steps += new[SKIPPED]
    report.refused_reports += len(decision.view.refused_reports)
    for task_id in decision.view.refused_reports:
        about = {"dag_id": run.dag_id, "run_id": run.run_id, "task_id": task_id}
        log.warning("report is refused: it lacks the secret of its submission", extra=about)
    report.capacity_rejections += sum(
        step.state == UP_FOR_RETRY != step.stored.get("state") and step.capacity_since is not None
        for step in steps
    )
    if run.state != run.stored.get("state"):
        report.succeeded_runs += run.state == SUCCESS
        report.failed_runs += run.state == FAILED
        report.cancelled_runs += run.state == CANCELLED
    report.job_dollars += sum((step.cost or 0) - (step.stored.get("cost") or 0) for step in steps)


def wake_waiting_runs(view: RunView) -> None:
    """Request that runs that may depend on this one's steps be advanced."""
    if view.row is not None:
        others = set(view.row.active or ()) | set(view.row.waiting_for_past or ())
        # Runs of a backfill and of the schedule may depend on each other.
        backfill = view.backfill or newest_of(view.row)
        others |= set((backfill and backfill.active) or ())
        others.discard(view.run.run_key)
        queues.send_submits((view.run.dag_id, key) for key in sorted(others))


def _cancel(decision: RunDecision) -> list[JobObservation]:
    """Cancel the jobs of steps that are being cancelled; return those that no row names yet."""
    steps = [step for step in decision.view.live if step.state == CANCELLING]
    if not decision.permissions.can_cancel:
        # Once each: `settle` checks until the job is over.
        if decision.is_due or any(step.stored.get("state") != CANCELLING for step in steps):
            queues.send_settles([decision.view.name] if steps else [])
        return []
    start_timeout = settings.current().job_start_timeout_seconds
    never: list[Steps] = []
    found: list[JobObservation] = []
    for step in steps:
        job_run_id = step.job_run_id or find_job(decision.view, step)
        if job_run_id is not None:
            executor = named(step.executor)
            executor.cancel(job_run_id)
            decision.report.cancelled_jobs += 1
            # No row names this job: only an event could report its end, and events get lost.
            job = executor.describe(job_run_id) if step.job_run_id is None else None
            key = JobName.of(decision.view.run, step).key
            found += [JobObservation.of(key, job, step.executor)] if job else []
        elif seconds_since(step.asked_at, decision.now) > start_timeout:
            # Nobody can still be about to start it.
            never.append(step)
    return [*found, *cancelled_before_start(decision.view, never)]


def _schedule_wakes(decision: RunDecision) -> None:
    view = decision.view
    for step in view.steps.values():
        was = step.stored.get("state")
        if step.state == UP_FOR_RETRY and was != UP_FOR_RETRY and step.retry_at is not None:
            delay = (step.retry_at - decision.now).total_seconds()
            if delay <= queues.LONGEST_DELAY:
                queues.send_submits([view.name], delay=delay)
    for start in decision.starts:
        # In case no event reports the start of the job.
        if start.step.scheduler_timeout_seconds is not None:
            queues.send_settles([view.name], delay=start.step.scheduler_timeout_seconds)
    limit = view.dag.dagrun_timeout
    is_new = view.run.started_at is not None and view.run.stored.get("started_at") is None
    if limit is not None and is_new and limit.total_seconds() <= queues.LONGEST_DELAY:
        queues.send_settles([view.name], delay=limit.total_seconds())


def cancel_orphaned_jobs(
    observations: Iterable[JobObservation], permissions: JobPermissions
) -> int:
    """Cancel jobs whose run or submission is over; return how many."""
    if not permissions.can_cancel:
        return 0
    orphaned_jobs = [one for one in observations if not one.job.state.is_over]
    for one in orphaned_jobs:
        named(one.executor).cancel(one.job.job_run_id)
    return len(orphaned_jobs)


def _start_waiting_steps(decision: RunDecision) -> None:
    """Have steps started that wait: when starts are reserved, and for what was given back."""
    for limit_id, moment in sorted(decision.looks):
        queues.send_start(limit_id, at=moment)
    start_others(decision.view, serves=decision.admission.serves)


def start_others(view: RunView, *, serves: str | None = None) -> None:
    """Have steps started that waited for what this run's have given back, or behind them."""
    freed = {change.limit_id for change in view.limit_changes() if change.frees}
    # Whoever serves a limit comes to those behind anyway.
    for limit_id in limits.has_waited_for(freed | (view.left_limits() - {serves})):
        queues.send_start(limit_id)


# Starting jobs.


def start_jobs(
    view: RunView, starts: Sequence[PreparedJob], report: RunsReport, *, now: DateTime
) -> list[JobObservation]:
    """Start jobs; return those that were not started, and why.

    Temporary failures are retried later and cost no try; other executors do not wait for that.
    """
    by_executor: dict[str | None, list[PreparedJob]] = {}
    for start in starts:
        by_executor.setdefault(start.step.executor, []).append(start)
    refused: list[JobObservation] = []
    for of_one in by_executor.values():
        refused += _start_on_one(view, of_one, report, now)
    return refused


def _start_on_one(
    view: RunView, starts: Sequence[PreparedJob], report: RunsReport, now: DateTime
) -> list[JobObservation]:
    refused: list[JobObservation] = []
    for at, start in enumerate(starts):
        try:
            job_run_id = _start(view, start, now)
        except RefusedError as error:
            job = Job("", JobState.FAILED, start.request.context_uri, details=str(error))
            key = JobName.of(view.run, start.step).key
            refused.append(JobObservation(key, job, start.step.executor))
        except TransientError as error:
            log.warning("job cannot be started now", extra=_about(view, start, error))
            if isinstance(error, ThrottledError) and named(start.step.executor).start_rate():
                return [*refused, *_throttled(view, starts[at:], report, now)]
            report.postponed_jobs += 1
            _postpone(view, start.step, now)
            break  # the others on this executor would fail in the same way
        else:
            report.started_jobs += 1
            if not record_job(start.step, job_run_id):
                # The step has moved on: the job is over already, or an orphan.
                queues.send_job(job_run_id, executor=named(start.step.executor).name)
    return refused


def _throttled(
    view: RunView, starts: Sequence[PreparedJob], report: RunsReport, now: DateTime
) -> list[JobObservation]:
    """Lower the rate of starts; return the jobs that were not started and wait for it again."""
    report.throttled_starts += 1
    limits.slow_down(limits.starts_limit(named(starts[0].step.executor).name), now=now)
    # An earlier call for the same submission may have started a job, though its answer was lost.
    repeated = [start for start in starts if start.step.submitted_at != now]
    if repeated:
        _postpone(view, repeated[0].step, now)
    job = Job("", JobState.SUBMITTED, "")
    return [
        JobObservation(
            JobName.of(view.run, start.step).key, job, start.step.executor, is_throttled=True
        )
        for start in starts
        if start not in repeated
    ]


def _about(view: RunView, start: PreparedJob, error: Exception) -> dict[str, str]:
    run = view.run
    about = {"dag_id": run.dag_id, "run_id": run.run_id, "task_id": start.step.step_id}
    return {**about, "error": str(error)}


def _postpone(view: RunView, step: Steps, now: DateTime) -> None:
    """Have the start of a job repeated: later each time, and not with others at once."""
    delay = min(max(seconds_since(step.submitted_at, now), _FIRST_PAUSE), _LONGEST_PAUSE)
    jitter = 1 + runtime.current().random.random() / 2
    queues.send_submits([view.name], delay=delay * jitter)


def find_job(view: RunView, step: Steps) -> str | None:
    """Return the job of a step's current submission, if its executor has one."""
    job, since = JobName.of(view.run, step), step.submitted_at.subtract(seconds=_MARGIN_SECONDS)
    submission = Submission(job.name, job.token, since, view.dag.tasks[step.step_id])
    return named(step.executor).find(submission)


def _start(view: RunView, start: PreparedJob, now: DateTime) -> str:
    request, step = start.request, start.step
    is_old = seconds_since(step.submitted_at, now) > settings.current().client_token_valid_seconds
    if is_old and named(step.executor).forgets_tokens:
        found = find_job(view, step)
        if found is not None:
            return found
    bucket, key = aws.bucket_and_key(request.context_uri)
    aws.client("s3").put_object(Bucket=bucket, Key=key, Body=start.context.encode())
    return named(step.executor).start(request)


# Notifications.


def publish_run_finished(run: Runs) -> None:
    """Put the event `Run Finished` on the deployment's bus, if it has one; best effort."""
    bus = settings.current().event_bus
    if not bus:
        return
    detail: dict[str, Any] = {name: getattr(run, name) for name in _TEXTS}
    detail |= {name: iso_or_none(getattr(run, name)) for name in _INSTANTS}
    entry = {
        "Source": EVENT_SOURCE,
        "DetailType": RUN_FINISHED,
        "Detail": json.dumps(detail),
        "EventBusName": bus,
    }
    try:
        aws.client("events").put_events(Entries=[entry])
    except (BotoCoreError, ClientError):
        about = {"dag_id": run.dag_id, "run_id": run.run_id, "state": run.state}
        log.warning("cannot publish the end of a run", exc_info=True, extra=about)
