"""Events of jobs as EventBridge hands them to our queue: late, twice or never, if wanted.

Owns: what is sent, and when. Refuses: states that the rule of a deployment does not let through.
"""

import heapq
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
from lamplighter.zones import as_utc
from lamplighter_local.emr.billing import Utilization
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
        # A heap: when an event comes, which one it is, and its text.
        self._held: list[tuple[DateTime, int, str]] = []
        self._made = 0
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
        if change.state in _SENT:
            self.send(_state_event(job, change), change.at)

    def add_utilization(self, job: FakeJob, used: Utilization, at: DateTime) -> None:
        """Let what a job has used become an event at an instant, or none."""
        self.send(_utilization_event(job, used, at), at)

    def send(self, event: dict[str, Any], at: DateTime) -> None:
        """Let an event come at an instant, or as badly as events are delivered."""
        if self._random.random() < self._faults.drop:
            return
        copies = 2 if self._random.random() < self._faults.double else 1
        text = json.dumps(event)
        for _ in range(copies):
            late = timedelta(seconds=self._random.uniform(0, self._faults.late_seconds))
            self._made += 1
            heapq.heappush(self._held, (as_utc(at + late), self._made, text))

    def next_at(self) -> DateTime | None:
        """Return when the next event comes."""
        return self._held[0][0] if self._held else None

    def take(self, until: DateTime) -> list[str]:
        """Return the events that have come, which are then on their way no longer."""
        texts = []
        while self._held and self._held[0][0] <= until:
            texts.append(heapq.heappop(self._held)[2])
        if self._faults.is_shuffled:
            self._random.shuffle(texts)
        return texts


def _state_event(job: FakeJob, change: Change) -> dict[str, Any]:
    """Return what EventBridge makes of a change: neither names nor tags nor details."""
    detail = {
        "jobRunId": job.job_run_id,
        "applicationId": job.application_id,
        "arn": job.arn,
        "releaseLabel": job.release_label,
        "state": change.state,
        "previousState": job.timeline[-2].state,
        "createdBy": job.created_by,
        "updatedAt": _stamp(change.at),
        "createdAt": _stamp(job.created_at),
    }
    name = f"{job.arn}#{change.state}"
    return _envelope(EVENT_TYPE, name, change.at, resources=[], detail=detail)


def _utilization_event(job: FakeJob, used: Utilization, at: DateTime) -> dict[str, Any]:
    """Return the last of the utilization updates; those of every half an hour are left out."""
    assert job.ended_at is not None
    started = {} if job.running_at is None else {"startedAt": _stamp(job.running_at)}
    detail = {
        "applicationId": job.application_id,
        "jobRunId": job.job_run_id,
        "attempt": 1,
        "mode": job.request.get("mode", "BATCH"),
        "createdAt": _stamp(job.created_at),
        **started,
        "calculatedFrom": _stamp(job.running_at or job.created_at),
        "calculatedTo": _stamp(job.ended_at),
        "resourceUtilizationFinal": True,
        "resourceUtilizationForInterval": used.total,
        "billedResourceUtilizationForInterval": used.billed,
        "totalResourceUtilization": used.total,
        "totalBilledResourceUtilization": used.billed,
    }
    name = f"{job.arn}#utilization"
    return _envelope(UTILIZATION_TYPE, name, at, resources=[job.arn], detail=detail)


def _envelope(
    kind: str, name: str, at: DateTime, *, resources: list[str], detail: dict[str, Any]
) -> dict[str, Any]:
    """Return an event of EventBridge; a repetition has the same id."""
    return {
        "version": "0",
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, name)),
        "detail-type": kind,
        "source": "aws.emr-serverless",
        "account": ACCOUNT,
        "time": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": resources,
        "detail": detail,
    }


def _stamp(at: DateTime) -> str:
    # As pendulum would, which takes ten times as long.
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
