"""State changes of jobs as EventBridge hands them to our queue: late, twice or never, if wanted.

Owns: what is sent, and when. Refuses: states that the rule of a deployment does not let through.
"""

import json
import random
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pendulum import DateTime

from lamplighter.errors import RefusedError
from lamplighter.executors.base import JobState
from lamplighter.executors.emr import EVENT_TYPE, UTILIZATION_TYPE
from lamplighter.zones import as_utc, iso
from lamplighter_local.emr.job import ACCOUNT, REGION, Change, FakeJob

_SENT = frozenset({JobState.RUNNING, JobState.SUCCESS, JobState.FAILED, JobState.CANCELLED})


@dataclass(frozen=True)
class EventFaults:
    """How badly events are delivered, from the next change on.

    Args:
        drop: The chance of an event never to come.
        double: The chance of an event that comes to come twice, as the same event.
        late_seconds: Each comes up to so much later than the change.
        is_shuffled: Those that come at once come in any order.
        seed: Where chance begins.
    """

    drop: float = 0.0
    double: float = 0.0
    late_seconds: float = 0.0
    is_shuffled: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse chances that are none, and events before their change."""
        if not (0 <= self.drop <= 1 and 0 <= self.double <= 1 and self.late_seconds >= 0):
            raise RefusedError("chances are between 0 and 1, and late_seconds is 0 or more")


class JobEvents:
    """The events that are on their way."""

    def __init__(self) -> None:
        self._held: list[tuple[DateTime, str]] = []
        self.faults = EventFaults()

    @property
    def faults(self) -> EventFaults:
        """How badly events are delivered."""
        return self._faults

    @faults.setter
    def faults(self, faults: EventFaults) -> None:
        self._faults = faults
        self._random = random.Random(faults.seed)  # noqa: S311 - chance must be repeatable here

    def add(self, job: FakeJob, change: Change) -> None:
        """Let the last change of a job become an event, or none."""
        if change.state not in _SENT or self._random.random() < self._faults.drop:
            return
        copies = 2 if self._random.random() < self._faults.double else 1
        text = json.dumps(_envelope(job, change))
        for _ in range(copies):
            late = timedelta(seconds=self._random.uniform(0, self._faults.late_seconds))
            self._held.append((as_utc(change.at + late), text))

    def add_bill(self, job: FakeJob, at: DateTime) -> None:
        """Let the bill of a job that is over become an event, or none."""
        if self._random.random() >= self._faults.drop:
            self._held.append((at, json.dumps(_bill_envelope(job, at))))

    def next_at(self) -> DateTime | None:
        """Return when the next event comes."""
        return min((at for at, _ in self._held), default=None)

    def take(self, until: DateTime) -> list[str]:
        """Return the events that have come, which are then on their way no longer."""
        due = sorted((event for event in self._held if event[0] <= until), key=lambda e: e[0])
        self._held = [event for event in self._held if event[0] > until]
        texts = [text for _, text in due]
        if self._faults.is_shuffled:
            self._random.shuffle(texts)
        return texts


def _bill_envelope(job: FakeJob, at: DateTime) -> dict[str, Any]:
    return {
        "version": "0",
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{job.arn}#bill")),
        "detail-type": UTILIZATION_TYPE,
        "source": "aws.emr-serverless",
        "account": ACCOUNT,
        "time": f"{at:YYYY-MM-DDTHH:mm:ss}Z",
        "region": REGION,
        "resources": [job.arn],
        "detail": {
            "jobRunId": job.job_run_id,
            "applicationId": job.application_id,
            "resourceUtilizationFinal": True,
        },
    }


def _envelope(job: FakeJob, change: Change) -> dict[str, Any]:
    """Return what EventBridge makes of a change; a repetition has the same id."""
    return {
        "version": "0",
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{job.arn}#{change.state}")),
        "detail-type": EVENT_TYPE,
        "source": "aws.emr-serverless",
        "account": ACCOUNT,
        "time": f"{change.at:YYYY-MM-DDTHH:mm:ss}Z",
        "region": REGION,
        "resources": [],
        "detail": {
            "jobRunId": job.job_run_id,
            "applicationId": job.application_id,
            "arn": job.arn,
            "releaseLabel": job.release_label,
            "state": change.state,
            "previousState": job.timeline[-2].state,
            "createdBy": job.created_by,
            "createdAt": iso(job.created_at),
            "updatedAt": iso(change.at),
        },
    }
