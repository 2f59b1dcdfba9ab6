"""What follows from a message that speaks of jobs: a state change, or a run to be looked at.

Owns: turning a job into what is seen of it. A message only names a job: what it is now, its
executor says; whose it is, its argument says; what that means, the rows say. So events may be late,
doubled, in any order, or missing.
"""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

from lamplighter import clock, queues, settings
from lamplighter.executors.current import current
from lamplighter.executors.job import Job, JobState
from lamplighter.runs.advance import SETTLE, advance, each_of
from lamplighter.runs.job_names import JobName, JobPlace
from lamplighter.runs.moves import RUNNING, SUBMITTED
from lamplighter.runs.observe import Seen
from lamplighter.runs.report import RunsReport
from lamplighter.runs.view import RunView, run_ref, seconds_since
from lamplighter.store.models import Steps
from lamplighter.store.runs import runs_to_wake
from lamplighter.store.transactions import update_if

log = logging.getLogger(__name__)


def settle(body: str) -> RunsReport:
    """Do what a message on `jobstates` asks for."""
    runs, job_run_id = _read(body)
    if runs:
        return each_of(runs, lambda name: look_after(*name))
    return settle_job(job_run_id) if job_run_id is not None else RunsReport()


def _read(body: str) -> tuple[list[queues.RunName], str | None]:
    """Return the runs or the job that a message names; a job of others is no job."""
    with queues.reject_unreadable():
        message: dict[str, Any] = json.loads(body)
        if "runs" in message:
            return queues.read_runs(message), None
        if "job" in message:
            return [], str(message["job"])
        detail = message["detail"]
        is_ours = detail["applicationId"] == settings.current().emr_application_id
        return [], str(detail["jobRunId"]) if is_ours else None


def settle_job(job_run_id: str) -> RunsReport:
    """Let the run of a job know how it stands."""
    job = current().describe(job_run_id)
    place = _place_of(job) if job is not None else None
    if job is None or place is None:
        return RunsReport()  # not one of ours
    if _note_running(place, job):
        return RunsReport()
    return advance(place.dag_id, place.run_key, seen=[Seen.of(place, job)], hands=SETTLE)


def _place_of(job: Job) -> JobPlace | None:
    return JobPlace.read(job.context_uri, bucket=settings.current().require("bucket"))


def _note_running(place: JobPlace, job: Job) -> bool:
    """Let a step be running, if that is all that is new; it decides about nothing."""
    if job.state is not JobState.RUNNING:
        return False
    is_expected = (Steps.state == SUBMITTED) & (Steps.submission == place.submission)
    is_its_job = Steps.job_run_id.does_not_exist() | (Steps.job_run_id == job.job_run_id)
    actions = [
        Steps.state.set(RUNNING),
        Steps.job_run_id.set(job.job_run_id),
        Steps.started_at.set(job.started_at or clock.now()),
    ]
    row = Steps(run_ref(place.dag_id, place.run_key), place.task_id)
    if not update_if(row, actions, is_expected & is_its_job):
        return False
    if row.scheduler_timeout_seconds is not None:
        queues.send_settles([(place.dag_id, place.run_key)], delay=row.scheduler_timeout_seconds)
    return True


# Runs that nobody has spoken of.


def sweep_runs(*, has_time: Callable[[], bool]) -> Iterator[RunsReport]:
    """Look after every run whose time has come; yield what came of each."""
    now = clock.now()
    for shard in range(settings.current().run_shards):
        for dag_id, run_key in runs_to_wake(shard, now):
            try:
                report = look_after(dag_id, run_key)
            except Exception:  # one run that cannot be moved must not hold up all after it
                log.exception("run %s of DAG %s could not be looked after", run_key, dag_id)
                report = RunsReport()
            yield report
            if not has_time():
                return


def look_after(dag_id: str, run_key: str) -> RunsReport:
    """Ask about the jobs of a run, and move it on."""
    view = RunView.read(dag_id, run_key)
    if view is None:
        return RunsReport()
    asked = [_ask(view, step) for step in view.live if step.job_run_id is not None]
    seen = [one for one in asked if one is not None]
    report = advance(dag_id, run_key, seen=seen, hands=SETTLE)
    _come_back(view, seen)
    return report


def _ask(view: RunView, step: Steps) -> Seen | None:
    assert step.job_run_id is not None
    given = settings.current()
    place = JobName.of(view.run, step).place
    job = current().describe(step.job_run_id)
    if job is None:
        if seconds_since(step.asked_at, clock.now()) <= given.job_start_timeout_seconds:
            return None  # it may be too new to be known everywhere
        details = f"the executor does not know job {step.job_run_id} any more"
        return Seen(place, Job(step.job_run_id, JobState.FAILED, "", details=details))
    return Seen.of(place, job)


def _come_back(view: RunView, seen: list[Seen]) -> None:
    """Look again when a short time limit is up, which began only when the job did."""
    now = clock.now()
    for one in seen:
        step = view.steps[one.place.task_id]
        limit = view.dag.tasks[step.step_id].execution_timeout
        began_at = one.job.started_at if step.started_at is None else step.started_at
        if limit is None or began_at is None or one.job.state is not JobState.RUNNING:
            continue
        left = (began_at + limit - now).total_seconds()
        if 0 < left < queues.LONGEST_DELAY:
            queues.send_settles([view.name], delay=left)
