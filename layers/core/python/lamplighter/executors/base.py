"""A Spark job as runs see it, and what every executor of jobs can do.

What only one service knows, such as its limits, its events and its prices, stays in its module.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, Protocol

from pendulum import DateTime


class JobState(StrEnum):
    """The states of EMR Serverless, which all executors use."""

    SUBMITTED = "SUBMITTED"
    QUEUED = "QUEUED"
    PENDING = "PENDING"
    SCHEDULED = "SCHEDULED"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELLED = "CANCELLED"

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        return self in {JobState.SUCCESS, JobState.FAILED, JobState.CANCELLED}


@dataclass(frozen=True)
class JobRequest:
    """All that is needed to start a job. The same token never starts a second one."""

    token: str
    name: str
    # Where `context.json` lies, which says everything else to the runner; its only argument.
    context_uri: str
    # The archive of the bundle that has the program.
    bundle_uri: str
    # How large driver and executors are to be, by the names of the task's options.
    sizes: Mapping[str, str] = field(default_factory=dict)
    # Settings of Spark's.
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    py_files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    timeout: timedelta | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Usage:
    """What a job has been billed for."""

    vcpu_hours: float = 0.0
    memory_gb_hours: float = 0.0
    storage_gb_hours: float = 0.0
    cost: float = 0.0  # in dollars


@dataclass(frozen=True)
class Job:
    """A job as its executor knows it now."""

    job_run_id: str
    state: JobState
    context_uri: str
    details: str = ""  # what the executor says about its end
    started_at: DateTime | None = None
    ended_at: DateTime | None = None
    # It failed for lack of capacity, which is not its fault.
    lacked_capacity: bool = False
    usage: Usage = field(default_factory=Usage)


class Executor(Protocol):
    """Runs jobs. Errors that may pass are `TransientError`, others `PermanentError`.

    A class that derives from it need only say its name, and start, find, describe and cancel jobs.
    """

    # Steps record it, so that their jobs are always looked up where they were started.
    name: str
    # The shortest time limit that it enforces itself; shorter ones are watched by the scheduler.
    min_timeout: timedelta = timedelta(0)

    def start(self, request: JobRequest) -> str:
        """Start a job and return its id; for a known token, return the id of the existing job."""
        ...

    def find(self, name: str, *, since: DateTime) -> str | None:
        """Return the id of the job that has a name and was started since then, if there is one."""
        ...

    def describe(self, job_run_id: str) -> Job | None:
        """Return a job as it is now, or None if there is no such job."""
        ...

    def cancel(self, job_run_id: str) -> None:
        """Request that a job be cancelled; it has ended when its state says so."""
        ...

    def read_event(self, event: Mapping[str, Any]) -> str | None:  # noqa: ARG002 - for others to read
        """Return the job whose state an EventBridge event tells, or None if it is not one of ours.

        What an event says beside that is not believed: the job is described again.
        """
        return None

    def log_uri(self, job_run_id: str, stream: str) -> str | None:  # noqa: ARG002 - as above
        """Return where the driver's `stdout` or `stderr` is, or will be; None if it is not kept."""
        return None

    def read_log(self, job_run_id: str, stream: str) -> Iterator[str] | None:  # noqa: ARG002 - as above
        """Return the lines of a log, read as they are needed, or None if it is not there."""
        return None
