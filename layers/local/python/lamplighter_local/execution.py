"""What executes the jobs of a local deployment as its clock moves: a fake, Spark, or another."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol
from unittest.mock import patch

from pendulum import DateTime

from lamplighter import clock, queues, runtime, settings
from lamplighter.executors.base import Executor, JobRequest, JobState
from lamplighter.executors.emr import EVENT_TYPE
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.emulator.method_override import api_calls
from lamplighter_local.spark.executor import LocalSparkExecutor

# How soon the end of a job is noticed where nobody tells of it, by the deployment's clock.
_ASK_SECONDS = 60


class Execution(Protocol):
    """Jobs that go on while time passes."""

    def progress(self) -> int:
        """Let happen what can happen now; return how much that was."""
        ...

    def next_change(self) -> DateTime | None:
        """Return when more happens by itself, if it does."""
        ...


class FakeEmrExecution:
    """Jobs that only last, on a fake EMR Serverless."""

    def __init__(self, emr: FakeEmr) -> None:
        self.emr = emr

    def progress(self) -> int:
        return self.emr.emit()

    def next_change(self) -> DateTime | None:
        return self.emr.next_change()


class SparkExecution:
    """Jobs that are run, one by one, whenever nothing else is to be done."""

    def __init__(self, executor: LocalSparkExecutor) -> None:
        self.executor = executor

    def progress(self) -> int:
        return int(self.executor.work())

    def next_change(self) -> DateTime | None:
        return None


class PolledExecution:
    """Jobs of an executor of someone else's, which is asked about them as time passes."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._known: dict[str, JobState] = {}

    def progress(self) -> int:
        news = 0
        for job_run_id, known in list(self._known.items()):
            job = self._executor.describe(job_run_id)
            if job is None or job.state is known:
                continue
            self._known[job_run_id] = job.state
            if job.state.is_over:
                del self._known[job_run_id]
            queues.send_job(job_run_id, executor=self._executor.name)
            news += 1
        return news

    def next_change(self) -> DateTime | None:
        return clock.now().add(seconds=_ASK_SECONDS) if self._known else None

    @contextmanager
    def noticing_starts(self) -> Iterator[None]:
        """Know of every job that is started until the block ends."""
        start = self._executor.start

        def noted(request: JobRequest) -> str:
            job_run_id = start(request)
            self._known.setdefault(job_run_id, JobState.SUBMITTED)
            return job_run_id

        with patch.object(self._executor, "start", noted):
            yield


def send_job_state_event(job_run_id: str, state: JobState) -> None:
    """Send what EventBridge would send of a job on EMR Serverless."""
    application = settings.current().emr_application_id
    detail = {"jobRunId": job_run_id, "applicationId": application, "state": state.value}
    envelope = {"detail-type": EVENT_TYPE, "detail": detail}
    queues.send("jobstates", [{"MessageBody": json.dumps(envelope)}])


@contextmanager
def executing(on: FakeEmr | Executor | None) -> Iterator[Execution | None]:
    """Let jobs of the current runtime be executed; with None, runs stay queued for ever."""
    if on is None:
        yield None
    elif isinstance(on, FakeEmr):
        with api_calls.wrapped(runtime.current().name, on.answering_calls):
            yield FakeEmrExecution(on)
    elif isinstance(on, LocalSparkExecutor):
        runtime.current().executor = on
        on.listeners.append(send_job_state_event)
        try:
            yield SparkExecution(on)
        finally:
            on.listeners.remove(send_job_state_event)
    else:
        runtime.current().executor = on
        execution = PolledExecution(on)
        with execution.noticing_starts():
            yield execution
