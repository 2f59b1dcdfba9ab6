"""A job as runs see it, and what every executor of jobs can do.

What only one service knows, such as its limits, its events and its prices, stays in its module.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from pendulum import DateTime

from lamplighter.dags.kinds import SparkTask
from lamplighter.dags.task import Task


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
class JobData:
    """The URIs of all that a job may read, and of what it may write as well."""

    inlets: tuple[str, ...] = ()
    outlets: tuple[str, ...] = ()


def data_of(task: Task) -> JobData | None:
    """Return the data that jobs of a task are restricted to; None if they are not."""
    if not isinstance(task, SparkTask) or not task.restrict_data:
        return None
    inlets, outlets = (
        tuple(uri for asset in assets if (uri := getattr(asset, "uri", None)) is not None)
        for assets in (task.inlets, task.outlets)
    )
    return JobData(inlets, outlets)


@dataclass(frozen=True)
class JobRequest:
    """Everything needed to start a job. One token never starts two jobs."""

    token: str
    name: str
    # The URI of `context.json`, which holds everything else; the job's only argument.
    context_uri: str
    # The archive of the bundle with the program.
    bundle_uri: str
    # The name of the bundle, and the folder of the context in the bucket: a pattern of bounded
    # length that no other submission's folder matches.
    bundle: str = ""
    folder: str = ""
    # None: whatever the role of the job allows.
    data: JobData | None = None
    # Sizes of driver and executors, by the names of the task's options.
    sizes: Mapping[str, str] = field(default_factory=dict)
    # Spark configuration.
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    py_files: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    # Of executions: the name or ARN of the state machine, and what it is given.
    state_machine: str = ""
    input: Mapping[str, Any] = field(default_factory=dict)
    timeout: timedelta | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Submission:
    """What is known of the job of one submission before its id is."""

    name: str
    token: str
    # No job of it is older.
    since: DateTime
    task: Task


@dataclass(frozen=True)
class Usage:
    """The billed usage of a job."""

    vcpu_hours: float = 0.0
    memory_gb_hours: float = 0.0
    storage_gb_hours: float = 0.0
    cost: float = 0.0  # in dollars


@dataclass(frozen=True)
class Job:
    """The current state of a job."""

    job_run_id: str
    state: JobState
    context_uri: str
    details: str = ""  # the executor's message about its end
    started_at: DateTime | None = None
    ended_at: DateTime | None = None
    # It failed for lack of capacity, which costs no try.
    lacked_capacity: bool = False
    # None until it is known, which may be long after the end.
    usage: Usage | None = None
    # What it reported, if its executor knows; else it is in its folder. Like `report.json`.
    report: Mapping[str, Any] | None = None


class StartRate(NamedTuple):
    """How many jobs may be started: on average a second, and at once after a pause."""

    per_second: float
    burst: int


class Executor(Protocol):
    """Runs jobs. Raises `TransientError` for temporary errors, `PermanentError` for others.

    A subclass must set `name` and implement `start`, `find`, `describe` and `cancel`.
    """

    # Recorded on steps, so that a job is always looked up where it was started.
    name: str
    # Whether a token may start a second job some time later: then jobs are looked up by name first.
    forgets_tokens: bool = True
    # The shortest time limit that it enforces; the scheduler enforces shorter ones.
    min_timeout: timedelta = timedelta(0)
    # The longest that it accepts; a task with a longer one is refused when it is registered.
    max_timeout: timedelta = timedelta.max
    # Whether `describe` returns the reports of jobs: they leave none in their folders.
    keeps_reports: bool = False
    # Whether it says what jobs cost, sooner or later; else a run's cost is without them.
    bills_jobs: bool = True
    # The logs of a job.
    streams: tuple[str, ...] = ("stdout", "stderr")

    def check(self, task: Task) -> list[str]:
        """Return what it could never run of a task's options, each with the fix, in one line."""
        limit = task.execution_timeout
        if limit is None or limit <= self.max_timeout:
            return []
        return [
            (
                f"execution_timeout: {limit} is longer than {self.name} lets a job run: use at most"
                f" {self.max_timeout}, or split the task"
            )
        ]

    def start(self, request: JobRequest) -> str:
        """Start a job and return its id; for a known token, return the id of the existing job."""
        ...

    def find(self, submission: Submission) -> str | None:
        """Return the id of the job that a submission has started, if there is one."""
        ...

    def describe(self, job_run_id: str) -> Job | None:
        """Return the current state of a job, or None if it does not exist."""
        ...

    def cancel(self, job_run_id: str) -> None:
        """Request that a job be cancelled; it continues until its state is final."""
        ...

    def start_rate(self) -> StartRate | None:
        """Return how often jobs may be started; None if there is no limit."""
        return None

    def capacity(self) -> Mapping[str, float]:
        """Return what all jobs together may use, by resource; empty if there is no limit."""
        return {}

    def footprint(self, sizes: Mapping[str, str]) -> Mapping[str, float]:  # noqa: ARG002 - for subclasses
        """Return the least that a job of these sizes needs to make progress, by resource."""
        return {}

    def read_event(self, event: Mapping[str, Any]) -> str | None:  # noqa: ARG002 - for subclasses
        """Return the job that an EventBridge event is about, or None if it is not one of ours.

        The rest of the event is ignored: the job is described again.
        """
        return None

    def log_uri(self, job_run_id: str, stream: str) -> str | None:  # noqa: ARG002 - as above
        """Return the URI of one of a job's logs; None if logs are not kept, or not as files."""
        return None

    def read_log(self, job_run_id: str, stream: str) -> Iterator[str] | None:  # noqa: ARG002 - as above
        """Return the lines of a log lazily, or None if it does not exist."""
        return None

    def first_error(self, job_run_id: str) -> str | None:  # noqa: ARG002 - as above
        """Return the first exception in the log of a failed job, or None if it is not there."""
        return None

    def ui_url(self, job_run_id: str) -> str | None:  # noqa: ARG002 - as above
        """Return the address of a job's UI, or None if it has none."""
        return None
