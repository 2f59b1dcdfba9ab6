"""Starts the jobs of steps whose rows say that they are being started.

Owns: StartJobRun, and what follows if it fails. The row was written before: a submission is decided
once, and its token and name are made from the row. So whoever comes later, after a crash or a lost
answer, asks for the same job, and gets the one that exists.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from pendulum import DateTime

from lamplighter import aws, queues, settings
from lamplighter.errors import RefusedError, TransientError
from lamplighter.executors.current import current
from lamplighter.executors.job import Job, JobState
from lamplighter.runs.job_names import JobName
from lamplighter.runs.job_request import PreparedJob
from lamplighter.runs.moves import LIVE
from lamplighter.runs.observe import Seen
from lamplighter.runs.report import RunsReport
from lamplighter.runs.view import RunView, seconds_since
from lamplighter.store.models import Steps
from lamplighter.store.transactions import update_if

log = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 300.0
# Clocks of machines differ, and a list of jobs is asked for by when they were created.
_MARGIN_SECONDS = 300


@dataclass(frozen=True)
class Start:
    """A step whose job is to be started, and with what."""

    step: Steps
    job: PreparedJob


def start_all(
    view: RunView, starts: Sequence[Start], report: RunsReport, *, now: DateTime
) -> list[Seen]:
    """Start jobs; return those that can never be started, and why.

    What cannot be started at this moment is tried again later, and costs no try.
    """
    refused: list[Seen] = []
    for start in starts:
        try:
            job_run_id = _start(view, start, now)
        except RefusedError as error:
            job = Job("", JobState.FAILED, start.job.request.context_uri, details=str(error))
            refused.append(Seen(JobName.of(view.run, start.step).place, job, is_final=True))
        except TransientError as error:
            log.warning("step %s of %s waits: %s", start.step.step_id, start.step.run_ref, error)
            report.postponed_jobs += 1
            _try_later(view, start.step, now)
            break  # the others would fare no better
        else:
            report.started_jobs += 1
            _note_job(start.step, job_run_id)
    return refused


def find_job(view: RunView, step: Steps) -> str | None:
    """Return the job of a step's present submission, if there is one that nobody has noted."""
    since = step.submitted_at.subtract(seconds=_MARGIN_SECONDS)
    return current().find(JobName.of(view.run, step).name, since=since)


def _start(view: RunView, start: Start, now: DateTime) -> str:
    request, step = start.job.request, start.step
    if seconds_since(step.submitted_at, now) > settings.current().client_token_valid_seconds:
        found = find_job(view, step)
        if found is not None:
            return found
    bucket, key = aws.bucket_and_key(request.context_uri)
    aws.client("s3").put_object(Bucket=bucket, Key=key, Body=start.job.context.encode())
    return current().start(request)


def _note_job(step: Steps, job_run_id: str) -> None:
    """Let the row say which job it is, unless it speaks of another one by now."""
    is_same = (Steps.submission == step.submission) & Steps.state.is_in(*sorted(LIVE))
    row = Steps(step.run_ref, step.step_id)
    if not update_if(row, [Steps.job_run_id.set(job_run_id)], is_same):
        # It is over already, or runs for nobody: whoever looks at it knows which.
        queues.send_job(job_run_id)


def _try_later(view: RunView, step: Steps, now: DateTime) -> None:
    """Ask for another try, later each time, and also if that message should be lost."""
    age = seconds_since(step.submitted_at, now)
    queues.send_submits([view.name], delay=min(max(age, _FIRST_PAUSE), _LONGEST_PAUSE))
