"""A Spark job as the runs see it, and what anything must offer that runs one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

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
        """Whether the job does nothing any more."""
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
    # Sizes and settings of Spark's, by their names.
    sizes: Mapping[str, str] = field(default_factory=dict)
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


@dataclass(frozen=True)
class Job:
    """A job as its executor knows it now."""

    job_run_id: str
    state: JobState
    context_uri: str
    details: str = ""  # what the executor says about its end
    started_at: DateTime | None = None
    ended_at: DateTime | None = None
    usage: Usage = field(default_factory=Usage)


class Executor(Protocol):
    """Runs jobs. Errors that may pass are `TransientError`, others `PermanentError`."""

    def start(self, request: JobRequest) -> str:
        """Start a job and return its id; with a token that is known, return the job of then."""
        ...

    def find(self, name: str, *, since: DateTime) -> str | None:
        """Return the id of the job that has a name and was started since then, if there is one."""
        ...

    def describe(self, job_run_id: str) -> Job | None:
        """Return a job as it is now, or None if there is no such job."""
        ...

    def cancel(self, job_run_id: str) -> None:
        """Ask for a job to be ended; it is over when its state says so."""
        ...
