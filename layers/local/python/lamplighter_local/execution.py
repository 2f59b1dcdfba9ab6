"""What executes the jobs of a local deployment, as its clock moves: a fake EMR, or a real Spark."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from pendulum import DateTime

from lamplighter import queues, settings
from lamplighter.executors import current
from lamplighter.executors.job import JobState
from lamplighter_local.fake_emr import FakeEmr
from lamplighter_local.spark_executor import LocalSparkExecutor


class Execution(Protocol):
    """Jobs that go on while time passes."""

    def progress(self) -> int:
        """Let happen what can happen now; return how much that was."""
        ...

    def next_change(self) -> DateTime | None:
        """Return when more happens by itself, if it does."""
        ...


class OnFakeEmr:
    """Jobs that only last, on a fake EMR Serverless."""

    def __init__(self, emr: FakeEmr) -> None:
        self.emr = emr

    def progress(self) -> int:
        return self.emr.emit()

    def next_change(self) -> DateTime | None:
        return self.emr.next_change()


class OnSpark:
    """Jobs that are run, one by one, whenever nothing else is to be done."""

    def __init__(self, executor: LocalSparkExecutor) -> None:
        self.executor = executor

    def progress(self) -> int:
        return int(self.executor.work())

    def next_change(self) -> DateTime | None:
        return None


def tell(job_run_id: str, state: JobState) -> None:
    """Send what EventBridge would send of a job."""
    application = settings.current().emr_application_id
    detail = {"jobRunId": job_run_id, "applicationId": application, "state": state.value}
    envelope = {"detail-type": "EMR Serverless Job Run State Change", "detail": detail}
    queues.send("jobstates_queue_url", [{"MessageBody": json.dumps(envelope)}])


@contextmanager
def executing(on: FakeEmr | LocalSparkExecutor | None) -> Iterator[Execution | None]:
    """Let jobs be executed until the block ends; with None, runs stay queued for ever."""
    if on is None:
        yield None
    elif isinstance(on, FakeEmr):
        with on.answering():
            yield OnFakeEmr(on)
    else:
        on.listeners.append(tell)
        try:
            with current.using(on):
                yield OnSpark(on)
        finally:
            on.listeners.remove(tell)
