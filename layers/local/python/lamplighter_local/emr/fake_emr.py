"""An EMR Serverless that runs nothing: jobs last and end as a test has said, by the one clock.

Owns: what one application does as time passes, and how a test has its way with it. Refuses: to
forget a job, so that `jobs` is the whole history.
"""

import copy
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from botocore.client import BaseClient
from botocore.exceptions import ClientError
from pendulum import DateTime

from lamplighter import aws, clock, settings
from lamplighter.runs.job_request import report_uri
from lamplighter_local.emr import billing
from lamplighter_local.emr import jobs as fake_jobs
from lamplighter_local.emr.behaviour import INSTANT, EmrBehaviour, Rate, Resources
from lamplighter_local.emr.events import EventFaults, JobEvents
from lamplighter_local.emr.job import FakeJob
from lamplighter_local.emr.jobs import FakeJobs
from lamplighter_local.emr.lives import Pace
from lamplighter_local.emr.requests import SERVICE
from lamplighter_local.emr.scripts import JobScripts, Outcome
from lamplighter_local.emr.service import EmrService
from lamplighter_local.faults.deployment_faults import outside_functions

__all__ = ["EmrBehaviour", "EventFaults", "FakeEmr", "FakeJob", "Outcome", "Rate", "Resources"]


class FakeEmr:
    """One application of EMR Serverless, and the rule that sends its events to a queue of ours.

    A job is SUBMITTED at once and RUNNING after `start_seconds`; it ends after `takes_seconds` in
    all, and `cancel_seconds` after a cancel. With a `capacity`, only so many jobs have workers and
    the others are QUEUED. Whatever is asked is answered as of `clock.now()`; events are sent by
    `emit`, which someone must call when `next_change` has come. What a job or EventBridge does is
    not hit by faults that were put on our clients.

    That is kinder than AWS. With a `behaviour`, `EmrBehaviour()` for one, there are API rates,
    quotas, workers, an application that stops, and utilization that is known late. Jobs then start
    as slowly as it says, and `takes_seconds` counts from their first executor.
    """

    def __init__(
        self,
        application_id: str = "00local",
        *,
        release_label: str = "emr-spark-8.0.0",
        capacity: int | None = None,
        start_seconds: float = 0.5,
        takes_seconds: float = 1.0,
        cancel_seconds: float = 1.0,
        behaviour: EmrBehaviour = INSTANT,
    ) -> None:
        self.application_id = application_id
        if capacity is not None:
            behaviour = replace(behaviour, max_concurrent_runs=capacity)
        self._jobs = FakeJobs(Pace(start_seconds, takes_seconds, cancel_seconds), behaviour)
        self._scripts = JobScripts()
        self._service = EmrService(application_id, release_label, self._jobs, self._scripts)
        self._events = JobEvents()
        self._tokens_made = 0
        # Jobs that are over and whose reports are not yet put.
        self._to_report: list[FakeJob] = []
        self._lock = threading.RLock()

    @property
    def events(self) -> EventFaults:
        """How badly events are delivered."""
        return self._events.faults

    @events.setter
    def events(self, faults: EventFaults) -> None:
        with self._lock:
            self._catch_up()
            self._events.faults = faults

    @property
    def behaviour(self) -> EmrBehaviour:
        """The quotas of the account, and how the application behaves."""
        return self._jobs.behaviour

    @behaviour.setter
    def behaviour(self, changed: EmrBehaviour) -> None:
        with self._lock:
            self._catch_up()
            self._jobs.behaviour = changed
            self._jobs.admit(clock.now())

    @property
    def capacity(self) -> int | None:
        """How many jobs can have workers at once; None is any number."""
        return self.behaviour.max_concurrent_runs

    @capacity.setter
    def capacity(self, jobs: int | None) -> None:
        self.behaviour = replace(self.behaviour, max_concurrent_runs=jobs)

    @property
    def calls(self) -> Counter[str]:
        """How often each operation was called, throttled calls included."""
        return self._service.calls

    @property
    def throttles(self) -> Counter[str]:
        """How many calls of each operation were refused because they came too often."""
        return self._service.throttles

    @property
    def remembers_tokens(self) -> bool:
        """Whether a client token that was used gets the job of then."""
        return self._service.tokens.is_remembering

    @remembers_tokens.setter
    def remembers_tokens(self, is_so: bool) -> None:
        self._service.tokens.is_remembering = is_so

    @property
    def page_size(self) -> int:
        """How many jobs a page of a list has at most."""
        return self._service.page_size

    @page_size.setter
    def page_size(self, jobs: int) -> None:
        self._service.page_size = jobs

    def next_outcome(self, dag: str, task: str, outcome: Outcome) -> None:
        """Let the next job of a task end like this; several outcomes are used in their order."""
        with self._lock:
            self._scripts.add(dag, task, outcome)

    def leaves(self, dag: str, task: str, outputs: Mapping[str, Any]) -> None:
        """Let the jobs of a task that succeed from now on leave these outputs."""
        with self._lock:
            self._scripts.set_otherwise(dag, task, Outcome.leaving(outputs))

    def fail_next(
        self, dag: str, task: str, times: int = 1, details: str = "Job failed, exit code 1."
    ) -> None:
        """Let the next jobs of a task fail without a word in a report."""
        with self._lock:
            self._scripts.add(dag, task, Outcome("FAILED", details=details), times=times)

    def takes(self, dag: str, task: str, *, seconds: float = 0, minutes: float = 0) -> None:
        """Let jobs of a task that start from now on take so long in all."""
        with self._lock:
            self._scripts.set_seconds(dag, task, seconds + 60 * minutes)

    def refuse_next(self, operation: str, code: str, times: int = 1) -> None:
        """Let the next calls of an operation be refused with an error code of the service."""
        with self._lock:
            self._service.refuse_next(operation, code, times)

    def forget_tokens(self) -> None:
        """Let every client token that was used be as good as new."""
        with self._lock:
            self._service.tokens.forget_tokens()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Answer all clients of EMR Serverless until the block ends, and no others.

        Faults on a client must be put inside the block.
        """
        send: Callable[..., Any] = BaseClient._make_api_call  # noqa: SLF001 - all clients use it
        with patch.object(BaseClient, "_make_api_call", self.answering_calls(send)):
            yield

    def answering_calls(self, send: Callable[..., Any]) -> Callable[..., Any]:
        """Return what answers the calls of EMR Serverless, and sends all others."""

        def answer(client: BaseClient, operation: str, arguments: dict[str, Any]) -> Any:
            if client.meta.service_model.service_name != SERVICE:
                return send(client, operation, arguments)
            if operation == "StartJobRun" and "clientToken" not in arguments:
                arguments = {**arguments, "clientToken": self._made_token()}  # as botocore does
            try:
                answered = self.call(operation, arguments)
            except ClientError as error:
                kind = client.exceptions.from_code(error.response["Error"]["Code"])
                raise kind(error.response, operation) from None
            return {**answered, "ResponseMetadata": {"HTTPStatusCode": 200}}

        return answer

    def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request of the service, or raise the `ClientError` that its refusal becomes."""
        with self._lock:
            self._catch_up()
            self._put_reports()
            return self._service.answer(operation, request)

    def _made_token(self) -> str:
        with self._lock:
            self._tokens_made += 1
            return f"made-{self._tokens_made:06}"

    def next_change(self) -> DateTime | None:
        """Return when a job changes its state or an event comes, which may be past already."""
        with self._lock:
            instants = (self._jobs.next_at(), self._events.next_at())
            return min(filter(None, instants), default=None)

    def emit(self) -> int:
        """Send the events that have come by now; return how many."""
        with self._lock:
            texts = self.take_events()
            for text in texts:
                url = settings.current().queue_url("jobstates")
                send_as_aws("sqs", "SendMessage", {"QueueUrl": url, "MessageBody": text})
            return len(texts)

    def take_events(self) -> list[str]:
        """Return the events that have come by now, for someone else to deliver them."""
        with self._lock:
            self._catch_up()
            self._put_reports()
            return self._events.take(clock.now())

    def _catch_up(self) -> None:
        """Let everything happen that comes until now, in this process only."""
        for job, change in self._jobs.pass_time(clock.now()):
            self._events.add(job, change)
            if change.is_scripted and job.outcome.report is not None:
                self._to_report.append(job)
            if change.state.is_over:
                self._add_utilization(job)

    def _add_utilization(self, job: FakeJob) -> None:
        """Let an event tell what a job has used, when that is known."""
        at = billing.known_at(job, self.behaviour)
        if at is not None and self.behaviour.billing_delay_seconds is not None:
            self._events.add_utilization(job, billing.utilization(job, self.behaviour), at)

    def _put_reports(self) -> None:
        """Put the reports of jobs that are over, before anyone is told that they are."""
        while self._to_report:
            job = self._to_report[0]
            bucket, key = aws.bucket_and_key(report_uri(job.context_uri))
            body = json.dumps(_secret_of(job) | dict(job.outcome.report or {})).encode()
            send_as_aws("s3", "PutObject", {"Bucket": bucket, "Key": key, "Body": body})
            del self._to_report[0]

    @property
    def jobs(self) -> list[FakeJob]:
        """All jobs that were ever started, as they are now, oldest first."""
        with self._lock:
            self._catch_up()
            return list(self._jobs.by_id.values())

    def live(self) -> list[FakeJob]:
        """Return the jobs that are not over."""
        with self._lock:
            self._catch_up()
            return self._jobs.live()

    def doubles(self) -> list[str]:
        """Return a sentence for every job that began while another one of its step was live.

        A job is live from its start until it is over, also while it waits or is being cancelled.
        """
        return fake_jobs.doubles(self.jobs)

    def copy_state(self) -> object:
        """Return all there is to know, to be put back as often as wanted."""
        with self._lock:
            return copy.deepcopy({k: v for k, v in vars(self).items() if k != "_lock"})

    def put_back(self, state: object) -> None:
        """Let everything be as it was, chance included; the clock is someone else's."""
        assert isinstance(state, dict)
        with self._lock:
            vars(self).update(copy.deepcopy(state))


def _secret_of(job: FakeJob) -> dict[str, Any]:
    """Return what the runner copies from the context of a job into its report."""
    bucket, key = aws.bucket_and_key(job.context_uri)
    try:
        found = send_as_aws("s3", "GetObject", {"Bucket": bucket, "Key": key})
    except ClientError:
        return {}  # not one of our jobs
    return {"secret": json.loads(found["Body"].read()).get("report_secret")}


def send_as_aws(service: str, operation: str, arguments: dict[str, Any]) -> Any:
    """Do what is not done by us but by a job, or by EventBridge."""
    client = aws.client(service)
    # Faults strike our functions: this goes past those on a client, and past those on all.
    with outside_functions():
        call: Any = type(client)._make_api_call  # noqa: SLF001 - as in `answering`
        return call(client, operation, arguments)
