"""One job of the fake EMR Serverless: a list of states and of the instants they began at."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from moto.core.models import DEFAULT_ACCOUNT_ID
from pendulum import DateTime

from lamplighter.executors.base import JobState
from lamplighter_local.emr.scripts import MAX_DETAILS, Outcome
from lamplighter_local.emr.workers import JobSize

ACCOUNT = DEFAULT_ACCOUNT_ID
REGION = "us-east-1"
DEFAULT_TIMEOUT_MINUTES = 12 * 60


@dataclass(frozen=True)
class Change:
    """A state, and when a job came into it."""

    state: JobState
    at: DateTime
    details: str = ""
    # Whether it is the end that was planned for the job, and not one that EMR Serverless made.
    is_scripted: bool = False


@dataclass(frozen=True, kw_only=True)
class FakeJob:
    """A job as it is at one moment; what happens to it makes another record of it."""

    job_run_id: str
    application_id: str
    release_label: str
    name: str
    token: str
    dag: str
    run_key: str
    task: str
    submission: int
    # As it was sent.
    request: Mapping[str, Any] = field(repr=False)
    outcome: Outcome = field(repr=False)
    # How long it takes, its outcome apart.
    takes: float = field(repr=False)
    timeline: tuple[Change, ...]
    # What comes next if nobody interferes.
    ahead: tuple[Change, ...] = field(default=(), repr=False)
    # The workers that it wants.
    size: JobSize = field(repr=False)
    # Whether it is one of the concurrent runs of the application.
    has_begun: bool = field(default=False, repr=False)
    has_driver: bool = field(default=False, repr=False)
    # When each executor was launched.
    executors: tuple[DateTime, ...] = field(default=(), repr=False)

    def __deepcopy__(self, _: dict[int, Any]) -> Self:
        """Return the record itself, which never changes: a snapshot of many jobs stays cheap."""
        return self

    @property
    def arn(self) -> str:
        """The name that AWS gives it."""
        path = f"/applications/{self.application_id}/jobruns/{self.job_run_id}"
        return f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:{path}"

    @property
    def created_by(self) -> str:
        """Who has started it."""
        return f"arn:aws:sts::{ACCOUNT}:assumed-role/submit/local"

    @property
    def context_uri(self) -> str:
        """Its only argument, or nothing if it has others."""
        arguments = self.request["jobDriver"].get("sparkSubmit", {}).get("entryPointArguments", [])
        return arguments[0] if len(arguments) == 1 else ""

    @property
    def state(self) -> JobState:
        """Its present state."""
        return self.timeline[-1].state

    @property
    def details(self) -> str:
        """What there is to say about its state, which is never nothing and never much."""
        told = self.timeline[-1].details.strip() or f"The job run is {self.state}."
        return told[:MAX_DETAILS]

    @property
    def created_at(self) -> DateTime:
        """When it was started."""
        return self.timeline[0].at

    @property
    def running_at(self) -> DateTime | None:
        """When its program began, if it has."""
        begun = (change.at for change in self.timeline if change.state is JobState.RUNNING)
        return next(begun, None)

    @property
    def ended_at(self) -> DateTime | None:
        """When it was over, if it is."""
        return self.timeline[-1].at if self.state.is_over else None

    @property
    def timeout(self) -> float:
        """The seconds after which EMR Serverless ends it."""
        minutes = self.request.get("executionTimeoutMinutes", DEFAULT_TIMEOUT_MINUTES)
        return minutes * 60 or math.inf

    @property
    def lacks_executors(self) -> bool:
        """Whether its driver would launch more executors."""
        return self.state is JobState.RUNNING and len(self.executors) < self.size.executors

    @property
    def is_waiting(self) -> bool:
        """Whether it is in the queue, and would begin if another job ended."""
        is_queued = self.state is JobState.QUEUED and not self.has_begun
        return is_queued and self.outcome.ends_in != "QUEUED"

    def changed(self, change: Change) -> Self:
        """Return the job after a change."""
        return replace(self, timeline=(*self.timeline, change))
