"""Does what a turn has decided, once that is written: jobs, messages, news.

Owns: everything that a run does outside the tables. Each of these things may be done again: the
rows say that it is to be done until it is.
"""

from collections import Counter
from collections.abc import Iterable

from lamplighter import queues, settings
from lamplighter.executors.current import current
from lamplighter.runs.job_names import JobName
from lamplighter.runs.moves import (
    CANCELLED,
    CANCELLING,
    FAILED,
    SKIPPED,
    SUCCESS,
    UP_FOR_RETRY,
)
from lamplighter.runs.news import tell_finished
from lamplighter.runs.observe import (
    Seen,
    cancelled_before_start,
)
from lamplighter.runs.outlets import send_outlets
from lamplighter.runs.start import find_job, start_all
from lamplighter.runs.turn import Hands, Turn
from lamplighter.runs.view import RunView, seconds_since
from lamplighter.store.backfills import newest_of
from lamplighter.store.due import announcement
from lamplighter.store.models import Steps
from lamplighter.store.runs import FINISHED, log_move


def act(turn: Turn) -> list[Seen]:
    """Do what the rows say now; return what was learned about jobs by doing so."""
    view = turn.view
    _count(turn)
    tell_of_move(view)
    send_outlets(turn.events)
    if turn.wakes_others:
        wake_others(view)
    turn.report.cancelled_jobs += cancel_strays(turn.strays, turn.hands)
    more = _cancel(turn)
    if turn.is_handed_over:
        queues.send_submits([view.name])
    _come_back_in_time(turn)
    if turn.starts:
        before = turn.report.postponed_jobs
        more += start_all(view, turn.starts, turn.report, now=turn.now)
        if turn.report.postponed_jobs > before:
            turn.is_cut_short = False  # whoever tries again later goes on
    return more


def tell_of_move(view: RunView) -> None:
    """Tell of the run's new state, and of its DAG, which may be due by it."""
    if view.run.state != view.run.stored.get("state"):
        log_move(view.run)
        if view.run.state in FINISHED:
            tell_finished(view.run)
    if view.row is not None and view.row.is_changed:
        queues.announce_due(announcement(view.row))
    backfill = view.backfill
    if backfill is not None and backfill.is_changed and backfill.due_shard is not None:
        queues.send_backfills([backfill.backfill_id])


def _count(turn: Turn) -> None:
    report, run = turn.report, turn.view.run
    new = Counter(
        step.state for step in turn.view.steps.values() if step.state != step.stored.get("state")
    )
    report.succeeded_steps += new[SUCCESS]
    report.failed_steps += new[FAILED]
    report.retried_steps += new[UP_FOR_RETRY]
    report.skipped_steps += new[SKIPPED]
    if run.state != run.stored.get("state"):
        report.succeeded_runs += run.state == SUCCESS
        report.failed_runs += run.state == FAILED
        report.cancelled_runs += run.state == CANCELLED
    report.spark_dollars += sum(
        (step.cost or 0) - (step.stored.get("cost") or 0) for step in turn.view.steps.values()
    )


def wake_others(view: RunView) -> None:
    """Let the runs that may wait for this one's steps look again."""
    if view.row is not None:
        others = set(view.row.active or ()) | set(view.row.waiting_for_past or ())
        # Dates of the past and of the present follow each other in one line.
        backfill = view.backfill or newest_of(view.row)
        others |= set((backfill and backfill.active) or ())
        others.discard(view.run.run_key)
        queues.send_submits((view.run.dag_id, key) for key in sorted(others))


def _cancel(turn: Turn) -> list[Seen]:
    """Cancel the jobs of steps that are not to go on; return those that are news to the rows."""
    steps = [step for step in turn.view.live if step.state == CANCELLING]
    if not turn.hands.can_cancel:
        # Once for each: whoever can cancel looks again by itself until the job is over.
        if turn.is_due or any(step.stored.get("state") != CANCELLING for step in steps):
            queues.send_settles([turn.view.name] if steps else [])
        return []
    never: list[Steps] = []
    found: list[Seen] = []
    for step in steps:
        job_run_id = step.job_run_id or find_job(turn.view, step)
        if job_run_id is not None:
            current().cancel(job_run_id)
            turn.report.cancelled_jobs += 1
            # Of a job that no row knows only an event could tell the end, and those get lost.
            job = current().describe(job_run_id) if step.job_run_id is None else None
            found += [Seen.of(JobName.of(turn.view.run, step).place, job)] if job else []
        elif _is_past_starting(turn, step):
            never.append(step)
    return [*found, *cancelled_before_start(turn.view, never)]


def _is_past_starting(turn: Turn, step: Steps) -> bool:
    """Return whether nobody can be about to start its job any more."""
    return seconds_since(step.asked_at, turn.now) > settings.current().job_start_timeout_seconds


def _come_back_in_time(turn: Turn) -> None:
    """Send messages for what happens before the sweep would look."""
    view = turn.view
    for step in view.steps.values():
        was = step.stored.get("state")
        if step.state == UP_FOR_RETRY and was != UP_FOR_RETRY and step.retry_at is not None:
            delay = (step.retry_at - turn.now).total_seconds()
            if delay <= queues.LONGEST_DELAY:
                queues.send_submits([view.name], delay=delay)
    for start in turn.starts:
        # Should nobody say when the job begins.
        if start.step.scheduler_timeout_seconds is not None:
            queues.send_settles([view.name], delay=start.step.scheduler_timeout_seconds)
    limit = view.dag.dagrun_timeout
    is_new = view.run.started_at is not None and view.run.stored.get("started_at") is None
    if limit is not None and is_new and limit.total_seconds() <= queues.LONGEST_DELAY:
        queues.send_settles([view.name], delay=limit.total_seconds())


def cancel_strays(seen: Iterable[Seen], hands: Hands) -> int:
    """Cancel jobs that run for nobody: of a run or a submission that is over."""
    strays = [one.job.job_run_id for one in seen if not one.job.state.is_over]
    if not hands.can_cancel:
        return 0
    for job_run_id in strays:
        current().cancel(job_run_id)
    return len(strays)
