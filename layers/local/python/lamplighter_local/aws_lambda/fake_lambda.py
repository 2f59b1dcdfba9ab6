"""A function `task` that runs nothing: jobs last and end as a test has said, by the one clock.

Owns: what Lambda does with invocations as time passes. Jobs are claimed and ended by the code of
the function, whose calls are not hit by faults that were put on our clients.
"""

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple

from botocore.exceptions import ClientError
from pendulum import DateTime

from lamplighter import aws, clock, runtime, settings
from lamplighter.executors.aws_lambda import MAX_EVENT_AGE, MAX_RETRIES
from lamplighter.executors.base import JobState
from lamplighter.executors.claimed_job import ClaimedJob, Ended
from lamplighter.store.jobs import read_job
from lamplighter.zones import as_utc, iso
from lamplighter_local.aws_lambda.invocations import end_of_invocation, taking_invocations
from lamplighter_local.emr.events import EventFaults, JobEvents
from lamplighter_local.emr.jobs import doubles
from lamplighter_local.emr.lives import Pace
from lamplighter_local.emr.scripts import JobScripts, Outcome, StepKey, step_of
from lamplighter_local.faults.deployment_faults import outside_functions

_MEMORY_MB = 1_024
# How often Lambda tries what it has no room for, and when it repeats what has failed.
_LOOK_SECONDS = 300
_RETRY_SECONDS = 60
_CANCELLED = Ended(details="it was cancelled")
_SUCCEEDED = {"version": 1, "state": "success", "reason": None, "outlets": {}, "aliases": {}}


class FakePythonJob(NamedTuple):
    """A job as its row says."""

    dag: str
    run_key: str
    task: str
    submission: int
    job_run_id: str
    state: JobState
    created_at: DateTime
    running_at: DateTime | None
    ended_at: DateTime | None
    context_uri: str


@dataclass(frozen=True)
class _Invocation:
    """One invocation that is not over: it waits to begin, or has claimed its job."""

    job_id: str
    invoked_at: DateTime
    # When it begins, or ends if it has begun; None: never by itself.
    next_at: DateTime | None
    job: ClaimedJob | None = None
    ended: Ended = _CANCELLED
    has_died: bool = False
    is_cancelled: bool = False
    retries: int = 0


class FakeLambda:
    """The function `task` of a deployment, whose invocations only last.

    Each begins after `start_seconds` and ends after `takes_seconds` in all, or `cancel_seconds`
    after a cancellation. Lambda does not know which of them are for one job.
    """

    def __init__(
        self,
        *,
        start_seconds: float = 0.5,
        takes_seconds: float = 1.0,
        cancel_seconds: float = 1.0,
    ) -> None:
        self._pace = Pace(start_seconds, takes_seconds, cancel_seconds)
        self._scripts = JobScripts()
        self._events = JobEvents()
        self._invocations: list[_Invocation] = []
        self._known: dict[str, None] = {}
        self._deaths: Counter[tuple[str, str]] = Counter()
        self._early_deaths = 0
        self._refusals: dict[str, list[str]] = {}
        self._outside = _Outside()
        self.calls: Counter[str] = Counter()
        # Whether there is no room for invocations; Lambda keeps them for an hour.
        self.is_throttled = False

    @property
    def events(self) -> EventFaults:
        """How badly the ends of invocations are told."""
        return self._events.faults

    @events.setter
    def events(self, faults: EventFaults) -> None:
        self._events.faults = faults

    def next_outcome(self, dag: str, task: str, outcome: Outcome) -> None:
        """Let the next job of a task end like this; several outcomes are used in their order."""
        self._scripts.add(dag, task, outcome)

    def takes(self, dag: str, task: str, *, seconds: float = 0) -> None:
        """Let jobs of a task that begin from now on take so long in all."""
        self._scripts.set_seconds(dag, task, seconds)

    def leaves(self, dag: str, task: str, outputs: Mapping[str, Any]) -> None:
        """Let the jobs of a task that succeed from now on leave these outputs."""
        self._scripts.set_otherwise(dag, task, Outcome.leaving(outputs))

    def kill_next(self, dag: str, task: str, *, times: int = 1) -> None:
        """Let the next invocations for a task die in the end, without moving the row of the job."""
        self._deaths[dag, task] += times

    def fail_to_begin(self, *, times: int = 1) -> None:
        """Let the next invocations, of whatever job, die before they claim it."""
        self._early_deaths += times

    def refuse_next(self, operation: str, code: str, times: int = 1) -> None:
        """Let the next calls of an operation be refused with an error code of Lambda."""
        self._refusals.setdefault(operation, []).extend([code] * times)

    def answering_calls(self, send: Callable[..., Any]) -> Callable[..., Any]:
        """Return what takes invocations of `task`, and sends all other calls."""
        return taking_invocations(send, self.invoke)

    def invoke(self, job_id: str) -> None:
        """Take an invocation, whatever others there are for the same job."""
        self.calls["Invoke"] += 1
        if refusals := self._refusals.get("Invoke"):
            error = {"Code": refusals.pop(0), "Message": "it was told to refuse"}
            raise ClientError({"Error": error}, "Invoke")
        self._known[job_id] = None
        now = clock.now()
        at = _after(now, self._pace.start_seconds)
        self._invocations.append(_Invocation(job_id, now, at))

    def next_change(self) -> DateTime | None:
        """Return when an invocation begins or ends or is told of, which may be past already."""
        instants = [each.next_at for each in self._invocations]
        return min(filter(None, (*instants, self._events.next_at())), default=None)

    def emit(self) -> int:
        """Let happen what comes until now; return how many ends of invocations were told of."""
        if not self._invocations and self._events.next_at() is None:
            return 0
        with self._outside.calls():
            self._notice_cancellations()
            now = clock.now()
            while due := [
                each for each in self._invocations if each.next_at and each.next_at <= now
            ]:
                self._pass(min(due, key=lambda each: each.next_at or now))
            texts = self._events.take(now)
            for text in texts:
                url = settings.current().queue_url("jobstates")
                aws.client("sqs").send_message(QueueUrl=url, MessageBody=text)
        return len(texts)

    def _notice_cancellations(self) -> None:
        for each in list(self._invocations):
            if each.job is not None and not each.is_cancelled and each.job.is_cancelled():
                at = _after(clock.now(), self._pace.cancel_seconds)
                ends_at = at if each.next_at is None else min(at, each.next_at)
                changed = replace(each, next_at=ends_at, ended=_CANCELLED, is_cancelled=True)
                self._invocations[self._invocations.index(each)] = changed

    def _pass(self, each: _Invocation) -> None:
        """Let an invocation begin or end."""
        self._invocations.remove(each)
        assert each.next_at is not None
        with clock.at(each.next_at):
            goes_on = self._begin(each) if each.job is None else self._leave(each)
            if goes_on is not None:
                self._invocations.append(goes_on)
                return
        event = end_of_invocation(each.job_id, each.next_at)
        self._events.send(event, each.next_at)

    def _begin(self, each: _Invocation) -> _Invocation | None:
        """Return an invocation that has claimed its job, or waits for room; None if it is over."""
        now = clock.now()
        if self.is_throttled:
            is_too_old = now - each.invoked_at >= MAX_EVENT_AGE
            return None if is_too_old else replace(each, next_at=_after(now, _LOOK_SECONDS))
        limit = settings.current().task_timeout_seconds
        if self._early_deaths:
            self._early_deaths -= 1
            return _repeated(each, now)
        job = ClaimedJob.claim(each.job_id, seconds=limit, memory_mb=_MEMORY_MB)
        if job is None:
            return None
        step = step_of(job.row.context_uri)
        outcome = self._scripts.take(step.dag, step.task)
        seconds, ended = self._life(job, step, outcome)
        has_died = self._deaths[step.dag, step.task] > 0
        self._deaths[step.dag, step.task] -= has_died
        at = None if seconds == math.inf else _after(now, seconds)
        return replace(each, next_at=at, job=job, ended=ended, has_died=has_died)

    def _leave(self, each: _Invocation) -> _Invocation | None:
        """End a job, or die without a word and return how Lambda repeats the invocation."""
        assert each.job is not None
        if each.has_died:
            return _repeated(each, clock.now())
        _end(each.job, each.ended)
        return None

    def _life(self, job: ClaimedJob, step: StepKey, outcome: Outcome) -> tuple[float, Ended]:
        """Return for how many seconds a job runs, and how it ends if it is not cancelled."""
        takes = outcome.takes
        if takes is None:
            takes = self._scripts.seconds(step.dag, step.task, otherwise=self._pace.takes_seconds)
        seconds = max(0.0, takes - self._pace.start_seconds)
        limit, text = job.limit(settings.current().task_timeout_seconds)
        if seconds > limit:
            return limit, Ended(details=text)
        if outcome.state == "SUCCESS":
            return seconds, Ended(outcome.report or _SUCCEEDED)
        return seconds, Ended(outcome.report, outcome.details)

    @property
    def jobs(self) -> list[FakePythonJob]:
        """All jobs for which there was an invocation, as they are now, oldest first."""
        return [job for job_id in self._known if (job := _job(job_id)) is not None]

    def live(self) -> list[FakePythonJob]:
        """Return the jobs that are not over."""
        return [job for job in self.jobs if not job.state.is_over]

    def doubles(self) -> list[str]:
        """Return a sentence for every job that began while another one of its step was live."""
        of_steps = doubles(self.jobs)
        running = Counter(each.job_id for each in self._invocations if each.job is not None)
        now = iso(clock.now())
        return of_steps + [
            f"job {job_id} is run by {count} invocations at {now}"
            for job_id, count in running.items()
            if count > 1
        ]

    def copy_state(self) -> object:
        """Return all there is to know, to be put back as often as wanted."""
        return copy.deepcopy({k: v for k, v in vars(self).items() if k != "_outside"})

    def put_back(self, state: object) -> None:
        """Let everything be as it was, chance included; the clock is someone else's."""
        assert isinstance(state, dict)
        vars(self).update(copy.deepcopy(state))


class _Outside:
    """Clients of the function's own, which faults on ours do not strike."""

    def __init__(self) -> None:
        self._clients: dict[Any, Any] = {}
        self._caches: dict[Any, Any] = {}
        self._settings: object = None

    @contextmanager
    def calls(self) -> Iterator[None]:
        """Let calls be those of the function until the block ends."""
        here = runtime.current()
        if here.settings is not self._settings:
            self._settings = here.settings
            self._caches.clear()
        own = replace(here, clients=self._clients, caches=self._caches)
        with outside_functions(), runtime.activate(own):
            yield


def _repeated(each: _Invocation, now: DateTime) -> _Invocation | None:
    if each.retries >= MAX_RETRIES:
        return None
    at = _after(now, _RETRY_SECONDS * (each.retries + 1))
    return _Invocation(each.job_id, each.invoked_at, at, retries=each.retries + 1)


def _end(job: ClaimedJob, ended: Ended) -> None:
    secret = None if ended.document is None else job.read_context().secret
    job.end(ended, secret)


def _job(job_id: str) -> FakePythonJob | None:
    row = read_job(job_id)
    if row is None:
        return None
    state = JobState(row.state)
    times = row.requested_at, row.started_at, row.ended_at
    return FakePythonJob(*step_of(row.context_uri), job_id, state, *times, row.context_uri)


def _after(at: DateTime, seconds: float) -> DateTime:
    return as_utc(at + timedelta(seconds=seconds))
