"""What executes the jobs of a local deployment as its clock moves: a fake, Spark, or another.

Owns: who executes the tasks of each kind.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from unittest.mock import patch

from pendulum import DateTime

from lamplighter import clock, queues, runtime, settings
from lamplighter.dags.kinds import StepFunctionsTask
from lamplighter.executors.base import Executor, JobRequest, JobState
from lamplighter.executors.emr import EVENT_TYPE
from lamplighter_local.aws_lambda.fake_lambda import FakeLambda
from lamplighter_local.aws_lambda.local_python import LocalPython
from lamplighter_local.emr.fake_emr import FakeEmr, Outcome
from lamplighter_local.emr.jobs import StepJob
from lamplighter_local.emulator.method_override import api_calls
from lamplighter_local.spark.executor import LocalSparkExecutor
from lamplighter_local.step_functions.fake import FakeStepFunctions

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


class SubmittedJob(StepJob, Protocol):
    """A job of a step that a fake service has."""

    @property
    def submission(self) -> int: ...


class Fake(Protocol):
    """Stands for a service that runs jobs: they only last, and end as one says."""

    def emit(self) -> int:
        """Send the events that have come by now; return how many."""
        ...

    def next_change(self) -> DateTime | None:
        """Return when a job changes its state or an event comes, which may be past already."""
        ...

    def next_outcome(self, dag: str, task: str, outcome: Outcome) -> None:
        """Let the next job of a task end like this; several outcomes are used in their order."""
        ...

    def takes(self, dag: str, task: str, *, seconds: float = 0) -> None:
        """Let jobs of a task that start from now on take so long."""
        ...

    def leaves(self, dag: str, task: str, outputs: Mapping[str, Any]) -> None:
        """Let jobs of a task that start from now on and succeed leave these outputs."""
        ...

    def live(self) -> Sequence[SubmittedJob]:
        """Return the jobs that are not over."""
        ...

    def doubles(self) -> list[str]:
        """Return a sentence for every job that began while another one of its step was live."""
        ...

    def copy_state(self) -> object:
        """Return all there is to know, to be put back as often as wanted."""
        ...

    def put_back(self, state: object) -> None:
        """Let everything be as it was."""
        ...


class FakeExecution:
    """Jobs that only last, on a fake service."""

    def __init__(self, fake: Fake) -> None:
        self.fake = fake

    def progress(self) -> int:
        return self.fake.emit()

    def next_change(self) -> DateTime | None:
        return self.fake.next_change()


class PythonExecution:
    """Jobs of Python tasks that are run, one by one, whenever nothing else is to be done."""

    def __init__(self, python: LocalPython) -> None:
        self.python = python

    def progress(self) -> int:
        return int(self.python.work())

    def next_change(self) -> DateTime | None:
        return None


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


@dataclass(frozen=True)
class Executions:
    """All that executes jobs of a deployment, by the kind of their tasks."""

    by_kind: Mapping[str, Execution]

    @property
    def fakes(self) -> dict[str, Fake]:
        """Those that only pretend to execute jobs, by kind."""
        found = self.by_kind.items()
        return {kind: each.fake for kind, each in found if isinstance(each, FakeExecution)}

    def progress(self) -> int:
        """Let happen what can happen now; return how much that was."""
        return sum(each.progress() for each in self.by_kind.values())

    def next_change(self) -> DateTime | None:
        """Return when more happens by itself, if it does."""
        instants = (each.next_change() for each in self.by_kind.values())
        return min(filter(None, instants), default=None)


@contextmanager
def executing(on: FakeEmr | Executor | None) -> Iterator[Executions | None]:
    """Let jobs of the current runtime be executed; with None, runs stay queued for ever."""
    if on is None:
        yield None
        return
    with ExitStack() as until_the_end:
        enter = until_the_end.enter_context
        python, machines = enter(_python_jobs(on)), enter(_state_machines())
        kinds = {"python": python, StepFunctionsTask.kind: machines}
        yield Executions({"spark": enter(_spark_jobs(on)), **kinds})


@contextmanager
def _state_machines() -> Iterator[FakeExecution]:
    fake = FakeStepFunctions()
    with api_calls.wrapped(runtime.current().name, fake.answering_calls):
        yield FakeExecution(fake)


@contextmanager
def _python_jobs(on: FakeEmr | Executor) -> Iterator[Execution]:
    """Run jobs of Python tasks where those of Spark are run too; otherwise they only last."""
    python = getattr(on, "python", None) or FakeLambda()
    with api_calls.wrapped(runtime.current().name, python.answering_calls):
        yield PythonExecution(python) if isinstance(python, LocalPython) else FakeExecution(python)


@contextmanager
def _spark_jobs(on: FakeEmr | Executor) -> Iterator[Execution]:
    if isinstance(on, FakeEmr):
        with api_calls.wrapped(runtime.current().name, on.answering_calls):
            yield FakeExecution(on)
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
