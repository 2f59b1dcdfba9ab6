"""Advances runs: the operation behind every message about a run, and behind the sweep.

Owns: the order. Rows are read, the decision is written in one transaction, and only then jobs are
started or cancelled and messages sent. After a crash the rows say what is left to do, and repeating
it is safe.

A message about a job only names it: its executor knows its state, its argument names its step, and
the rows decide. So events may be late, duplicated, out of order or missing.
"""

import json
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pendulum import DateTime

from lamplighter import clock, executors, queues, settings
from lamplighter.errors import DefinitionError, PermanentError, TransientError
from lamplighter.executors import NamedJob, job_of_event, named
from lamplighter.executors.base import Job, JobState
from lamplighter.queues import RunName
from lamplighter.runs.admission import Admission, in_turn
from lamplighter.runs.decision import SETTLE, SUBMIT, JobPermissions, RunDecision, RunsReport
from lamplighter.runs.effects import apply_effects, cancel_orphaned_jobs
from lamplighter.runs.job_observation import JobObservation, unbilled_jobs
from lamplighter.runs.job_request import JobName, SubmissionKey
from lamplighter.runs.view import RunView, seconds_since
from lamplighter.store import limits
from lamplighter.store.models import Limits, Steps
from lamplighter.store.runs import record_running, run_ref, runs_to_wake
from lamplighter.store.transactions import TransactionCanceled, pack, sleep_with_jitter, transact

__all__ = [
    "SETTLE",
    "SUBMIT",
    "JobPermissions",
    "RunsReport",
    "advance",
    "advance_all",
    "settle",
    "submit",
]

log = logging.getLogger(__name__)

_TRIES = 24
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
# The index of steps that wait is hardly ever further behind.
_INDEX_LAG_SECONDS = 10
# As many GetJobRun as EMR Serverless answers at once.
_MAX_BILLS = 50


def advance(
    dag_id: str,
    run_key: str,
    *,
    observations: Sequence[JobObservation] = (),
    permissions: JobPermissions,
    admission: Admission | None = None,
) -> RunsReport:
    """Advance a run as far as possible, given observations of its jobs."""
    report = RunsReport()
    admission = admission or Admission()
    pause = _FIRST_PAUSE
    for _ in range(_TRIES):
        view = RunView.read(dag_id, run_key)
        if view is None:
            report.cancelled_jobs += cancel_orphaned_jobs(observations, permissions)
            return report
        decision = RunDecision(view, permissions, report, admission=admission)
        admission.begin()
        decision.decide(observations)
        if view.is_changed:
            try:
                view.commit()
            except TransactionCanceled:
                admission.take_back()
                sleep_with_jitter(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
        admission.forget(change.limit_id for change in view.limit_changes())
        learned = apply_effects(decision)
        if not learned and not decision.is_partial:
            return report
        observations = [*observations, *learned]
        pause = _FIRST_PAUSE
    raise TransientError(f"run {run_key} of DAG {dag_id!r} is contended; try again")


def advance_all(
    names: Sequence[RunName],
    *,
    permissions: JobPermissions,
    has_time: Callable[[], bool] = lambda: True,
) -> RunsReport:
    """Advance each run; those that only start jobs share a transaction.

    If one fails, the others are still advanced; its error is raised at the end. When time runs out,
    the runs that are left are handed on to another invocation.
    """
    report = RunsReport()
    decisions = [] if _have_limits() else _decide_all(names, permissions, report)
    done = [each for each in decisions if not each.view.is_changed]
    shared = [
        each for each in decisions if each.view.is_changed and not each.view.changes_shared_rows
    ]
    limit = settings.current().transaction_actions
    for bulk in pack(shared, (lambda decision: decision.view.size + 1, limit)):
        try:
            transact([write for decision in bulk for write in decision.view.writes()])
        except (TransactionCanceled, TransientError, PermanentError):
            continue  # one has changed, or the response was lost: advance each alone
        done += bulk
    written = {decision.view.name: decision for decision in done}

    admission = Admission()

    def go_on(name: RunName) -> RunsReport:
        if not has_time():
            queues.send_submits([name])
            return RunsReport()
        found = written.get(name)
        learned = apply_effects(found) if found is not None else []
        if found is None or found.is_partial or learned:
            return advance(
                *name, observations=learned, permissions=permissions, admission=admission
            )
        return RunsReport()

    report.add(advance_each(names, go_on))
    return report


def advance_each(names: Iterable[RunName], move: Callable[[RunName], RunsReport]) -> RunsReport:
    """Advance each run; the error of one is raised after the others have been advanced."""
    report = RunsReport()
    failures: list[Exception] = []
    for name in dict.fromkeys(names):
        try:
            report.add(move(name))
        except Exception as error:  # noqa: BLE001 - raised below
            failures.append(error)
    if failures:
        raise failures[0]
    return report


def _have_limits() -> bool:
    """Return whether jobs are paced or counted: then each run is a transaction of its own."""
    executor = executors.current()
    return bool(executor.start_rate() or executor.capacity())


def _decide_all(
    names: Sequence[RunName], permissions: JobPermissions, report: RunsReport
) -> list[RunDecision]:
    decisions = []
    for view in RunView.read_all(names):
        decision = RunDecision(view, permissions, report)
        try:
            decision.decide(())
        except Exception:  # its error is raised when it is advanced alone
            about = {"dag_id": view.run.dag_id, "run_id": view.run.run_id}
            log.debug("run has to be advanced on its own", exc_info=True, extra=about)
        else:
            decisions.append(decision)
    return decisions


# Steps that wait for a limit.


def submit(body: str, *, has_time: Callable[[], bool]) -> RunsReport:
    """Handle a message on `submits`."""
    with queues.reject_unreadable():
        message: dict[str, Any] = json.loads(body)
        start = queues.read_start(message) if "limit" in message else None
        names = [] if start is not None else queues.read_runs(message)
    if start is not None:
        return start_waiting(*start, has_time=has_time)
    return advance_all(names, permissions=SUBMIT, has_time=has_time)


def start_waiting(
    limit_id: str, reserved_at: DateTime | None = None, *, has_time: Callable[[], bool]
) -> RunsReport:
    """Start the steps that are next at a limit: one with a reserved start, else while it has room.

    A run that cannot be advanced does not hold up those after it.
    """
    report, now = RunsReport(), clock.now()
    if reserved_at is not None and reserved_at > now:
        queues.send_start(limit_id, at=reserved_at)  # further ahead than SQS can delay a message
        return report
    is_start = limit_id.startswith(limits.STARTS)
    admission = Admission(permits=int(is_start), serves=limit_id)
    row = limits.read_limit(limit_id)
    waiting = in_turn(limits.first_waiting(limit_id), now)
    failures: list[Exception] = []
    for step in waiting:
        admission.tried.add(step[:3])
        try:
            report.add(advance(*step[:2], permissions=SUBMIT, admission=admission))
        except (PermanentError, DefinitionError):
            about = {"dag_id": step.dag_id, "run_key": step.run_key, "limit": limit_id}
            log.exception("run with a waiting step cannot be advanced", extra=about)
            limits.leave_queue(step)
        except Exception as error:  # noqa: BLE001 - raised below
            failures.append(error)
        if limit_id in admission.exhausted or (is_start and not admission.permits):
            break
        if not has_time():
            queues.send_start(limit_id, at=now if is_start else None)
            break
    else:
        _look_again(limit_id, row, now, found=len(waiting))
    if failures:
        raise failures[0]
    return report


def _look_again(limit_id: str, row: Limits | None, now: DateTime, *, found: int) -> None:
    """Have a counter looked at again that had room for all, if there may have been more."""
    if row is None or row.waited_at is None:
        return
    again_at = row.waited_at.add(seconds=_INDEX_LAG_SECONDS)
    if found >= limits.FIRST:
        queues.send_start(limit_id, at=now)
    elif now < again_at:
        queues.send_start(limit_id, at=again_at)
    elif not found:
        limits.stop_dispatching(limit_id, seen=row.waited_at, now=now)


def sweep_limits() -> None:
    """Have steps started that wait for counters, in case that a message was lost."""
    for limit_id in limits.has_waited_for():
        queues.send_start(limit_id)


# Messages about jobs.


def settle(body: str) -> RunsReport:
    """Handle a message on `jobstates`."""
    runs, job = _read(body)
    if runs:
        return advance_each(runs, lambda name: check_run(*name))
    return settle_job(job) if job is not None else RunsReport()


def _read(body: str) -> tuple[list[queues.RunName], NamedJob | None]:
    """Return the runs or the job that a message names; None if the job is not one of ours."""
    with queues.reject_unreadable():
        message: dict[str, Any] = json.loads(body)
        if "runs" in message:
            return queues.read_runs(message), None
        if "job" in message:
            return [], NamedJob(named(message.get("executor")), str(message["job"]))
        return [], job_of_event(message)


def settle_job(found: NamedJob) -> RunsReport:
    """Advance the run of a job, given its current state."""
    job = found.executor.describe(found.job_run_id)
    if job is None:
        return RunsReport()
    key = SubmissionKey.read(job.context_uri, bucket=settings.current().require("bucket"))
    if key is None or _note_running(key, job):
        return RunsReport()  # not one of ours, or all is done
    observation = JobObservation.of(key, job, found.executor.name)
    return advance(key.dag_id, key.run_key, observations=[observation], permissions=SETTLE)


def _note_running(key: SubmissionKey, job: Job) -> bool:
    """Mark the step as running, if that is all that is new: nothing else follows from it."""
    if job.state is not JobState.RUNNING:
        return False
    run = key.dag_id, key.run_key
    step = record_running(
        run_ref(*run),
        key.task_id,
        key.submission,
        job_run_id=job.job_run_id,
        started_at=job.started_at or clock.now(),
    )
    if step is None:
        return False
    if step.scheduler_timeout_seconds is not None:
        queues.send_settles([run], delay=step.scheduler_timeout_seconds)
    return True


# Runs without a message.


def sweep_runs(*, has_time: Callable[[], bool]) -> Iterator[RunsReport]:
    """Check every run whose wake time has come; yield the reports."""
    now = clock.now()
    for shard in range(settings.current().run_shards):
        for dag_id, run_key in runs_to_wake(shard, now):
            try:
                report = check_run(dag_id, run_key)
            except Exception:  # one run must not hold up those after it
                about = {"dag_id": dag_id, "run_key": run_key}
                log.exception("run could not be checked", extra=about)
                report = RunsReport()
            yield report
            if not has_time():
                return


def check_run(dag_id: str, run_key: str) -> RunsReport:
    """Look up the jobs of a run, and advance it."""
    view = RunView.read(dag_id, run_key)
    if view is None:
        return RunsReport()
    found = [_observe(view, step) for step in view.live if step.job_run_id is not None]
    observations = [one for one in found if one is not None] + _read_bills(view)
    report = advance(dag_id, run_key, observations=observations, permissions=SETTLE)
    _schedule_timeouts(view, observations)
    return report


def _observe(view: RunView, step: Steps) -> JobObservation | None:
    assert step.job_run_id is not None
    key = JobName.of(view.run, step).key
    job = named(step.executor).describe(step.job_run_id)
    if job is not None:
        return JobObservation.of(key, job, step.executor)
    if seconds_since(step.asked_at, clock.now()) <= settings.current().job_start_timeout_seconds:
        return None  # it may be too new to be listed
    details = f"the executor does not know job {step.job_run_id} any more"
    lost = Job(step.job_run_id, JobState.FAILED, "", details=details)
    return JobObservation(key, lost, step.executor)


def _read_bills(view: RunView) -> list[JobObservation]:
    """Return the unbilled jobs of a run that are billed now."""
    unbilled = unbilled_jobs(view)
    found = []
    # Any of them, so that some that are never billed do not hide the others.
    for each in random.sample(unbilled, min(len(unbilled), _MAX_BILLS)):
        job = named(each["executor"]).describe(each["job_run_id"])
        # Of the job itself: its step may have moved on to another submission.
        key = None if job is None else SubmissionKey.read(job.context_uri)
        if job is not None and key is not None and job.usage is not None:
            found.append(JobObservation(key, job, each["executor"]))
    return found


def _schedule_timeouts(view: RunView, observations: list[JobObservation]) -> None:
    """Send messages for time limits that end before the next sweep."""
    now = clock.now()
    for one in observations:
        step = view.steps[one.key.task_id]
        limit = view.dag.tasks[step.step_id].execution_timeout
        began_at = one.job.started_at if step.started_at is None else step.started_at
        if limit is None or began_at is None or one.job.state is not JobState.RUNNING:
            continue
        left = (began_at + limit - now).total_seconds()
        if 0 < left < queues.LONGEST_DELAY:
            queues.send_settles([view.name], delay=left)
