"""What becomes of the jobs of a fake EMR Serverless: decided by DAG and task, before they start.

Owns: outcomes, their order, and how a job says which step it belongs to. Refuses: outcomes that a
job on EMR Serverless cannot have.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

from lamplighter.errors import RefusedError
from lamplighter.runs.job_request import SubmissionKey
from lamplighter_job.json_values import json_object
from lamplighter_local.emr.capacity import NO_CAPACITY

# EMR Serverless never tells more about a state.
MAX_DETAILS = 256


class StepKey(NamedTuple):
    """The step that a job works for, and which of the step's jobs it is."""

    dag: str = ""
    run_key: str = ""
    task: str = ""
    submission: int = 0


def step_of(context_uri: str) -> StepKey:
    """Return the step that the only argument of a job names; an empty key if it names none."""
    place = SubmissionKey.read(context_uri)
    if place is None:
        return StepKey()
    return StepKey(place.dag_id, place.run_key, place.task_id, place.submission)


@dataclass(frozen=True)
class Outcome:
    """How a job ends.

    Args:
        state: The last state of the job.
        report: What it puts as `report.json` beside its context when it ends; None puts nothing.
        details: What EMR Serverless says about the end.
        takes: Seconds from the start to the end; None is as long as jobs of its step take.
        ends_in: The state from which it ends. A job that ends in `SCHEDULED` or `QUEUED` has never
            run, and is not billed.
    """

    state: Literal["SUCCESS", "FAILED", "CANCELLED"] = "SUCCESS"
    report: Mapping[str, Any] | None = None
    details: str = ""
    takes: float | None = None
    ends_in: Literal["RUNNING", "SCHEDULED", "QUEUED"] = "RUNNING"

    def __post_init__(self) -> None:
        """Refuse ends that come before the beginning, and successes of jobs that never ran."""
        if self.takes is not None and not self.takes >= 0:
            raise RefusedError(f"a job cannot take {self.takes} seconds: use 0 or more")
        if self.state == "SUCCESS" and self.ends_in != "RUNNING":
            raise RefusedError(f"a job that ends in {self.ends_in} has never run: let it fail")

    @classmethod
    def leaving(cls, outputs: Mapping[str, Any]) -> Self:
        """Return the end of a job that leaves outputs for later steps."""
        return cls(report={**_report("success", ""), "outputs": json_object(outputs, "outputs")})

    @classmethod
    def skipped(cls, reason: str = "") -> Self:
        """Return the end of a job that found nothing to do and says so."""
        return cls(report=_report("skipped", reason))

    @classmethod
    def failed(cls, text: str) -> Self:
        """Return the end of a job whose program raised an error that it could still report."""
        details = f"Job failed, exit code 1: {text}"
        return cls(state="FAILED", report=_report("failed", text), details=details)

    @classmethod
    def capacity(cls) -> Self:
        """Return the end of a job that got no workers."""
        return cls(state="FAILED", details=NO_CAPACITY, ends_in="SCHEDULED")

    @classmethod
    def queue_timeout(cls, minutes: float = 360) -> Self:
        """Return the end of a job that waited too long for others to end."""
        details = (
            f"Job failed: it was in the queue for longer than the queue timeout of {minutes:g}"
            " minutes"
        )
        return cls(state="FAILED", details=details, takes=minutes * 60, ends_in="QUEUED")

    @classmethod
    def hangs(cls) -> Self:
        """Return the lot of a job that does not end by itself, only by a cancel or its timeout."""
        return cls(takes=math.inf)


def _report(state: str, reason: str) -> dict[str, Any]:
    return {"version": 1, "state": state, "reason": reason or None, "outlets": {}, "aliases": {}}


_PLAIN = Outcome()


class JobScripts:
    """The outcomes that jobs will have; without one, a job succeeds."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, str], list[Outcome]] = {}
        self._otherwise: dict[tuple[str, str], Outcome] = {}
        self._seconds: dict[tuple[str, str], float] = {}

    def add(self, dag: str, task: str, outcome: Outcome, *, times: int = 1) -> None:
        """Let the next jobs of a task that have no outcome yet have this one."""
        self._next.setdefault((dag, task), []).extend([outcome] * times)

    def take(self, dag: str, task: str) -> Outcome:
        """Return the outcome of the job that starts now, which is then used up."""
        planned = self._next.get((dag, task))
        return planned.pop(0) if planned else self._otherwise.get((dag, task), _PLAIN)

    def set_otherwise(self, dag: str, task: str, outcome: Outcome) -> None:
        """Let jobs of a task end like this from now on, if they have no outcome of their own."""
        self._otherwise[dag, task] = outcome

    def set_seconds(self, dag: str, task: str, seconds: float) -> None:
        """Let jobs of a task take so long from now on."""
        if not seconds >= 0:
            raise RefusedError(f"a job cannot take {seconds} seconds: use 0 or more")
        self._seconds[dag, task] = seconds

    def seconds(self, dag: str, task: str, *, otherwise: float) -> float:
        """Return how long jobs of a task take."""
        return self._seconds.get((dag, task), otherwise)
