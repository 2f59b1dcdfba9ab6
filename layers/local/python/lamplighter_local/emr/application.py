"""The application that jobs run on: it starts with a job, and stops when it has been idle."""

from datetime import timedelta
from typing import Any

from pendulum import DateTime

from lamplighter.zones import as_utc
from lamplighter_local.emr.behaviour import EmrBehaviour, Resources
from lamplighter_local.emr.job import ACCOUNT, REGION


class FakeApplication:
    """One application; its state follows from when it was started and when its last job ended."""

    def __init__(self, application_id: str, release_label: str) -> None:
        self.application_id = application_id
        self.release_label = release_label
        self._created_at: DateTime | None = None
        # When it is, or will be, started.
        self._started_at: DateTime | None = None

    def state(self, now: DateTime, behaviour: EmrBehaviour, busy_until: DateTime | None) -> str:
        """Return its state; it has been idle since `busy_until`, which is now if it is not."""
        if behaviour.idle_timeout_minutes is None:
            return "STARTED"
        if self._started_at is None:
            return "CREATED"
        if now < self._started_at:
            return "STARTING"
        idle_for = (now - max(self._started_at, busy_until or self._started_at)).total_seconds()
        stopping_for = idle_for - 60 * behaviour.idle_timeout_minutes
        if stopping_for < 0:
            return "STARTED"
        return "STOPPING" if stopping_for < behaviour.stopping_seconds else "STOPPED"

    def start(self, now: DateTime, behaviour: EmrBehaviour, state: str) -> DateTime:
        """Return when a job that is started now has an application, which it starts if need be."""
        if state in {"CREATED", "STOPPED"}:
            wait = timedelta(seconds=behaviour.application_start_seconds)
            self._started_at = as_utc(now + wait)
        return max(now, self._started_at or now)

    def description(self, now: DateTime, behaviour: EmrBehaviour, state: str) -> dict[str, Any]:
        """Return what `GetApplication` tells."""
        self._created_at = self._created_at or now
        path = f"/applications/{self.application_id}"
        found: dict[str, Any] = {
            "applicationId": self.application_id,
            "name": "local",
            "arn": f"arn:aws:emr-serverless:{REGION}:{ACCOUNT}:{path}",
            "releaseLabel": self.release_label,
            "type": "Spark",
            "state": state,
            "createdAt": self._created_at,
            "updatedAt": max(self._created_at, min(now, self._started_at or now)),
            "autoStartConfiguration": {"enabled": True},
            "autoStopConfiguration": _auto_stop(behaviour),
            "architecture": "X86_64",
        }
        if behaviour.maximum_capacity is not None:
            found["maximumCapacity"] = _capacity(behaviour.maximum_capacity)
        if behaviour.max_concurrent_runs is not None:
            found["schedulerConfiguration"] = _scheduler(behaviour)
        return found


def _auto_stop(behaviour: EmrBehaviour) -> dict[str, Any]:
    minutes = behaviour.idle_timeout_minutes
    if minutes is None:
        return {"enabled": False}
    return {"enabled": True, "idleTimeoutMinutes": int(minutes)}


def _scheduler(behaviour: EmrBehaviour) -> dict[str, int]:
    minutes = behaviour.queue_timeout_minutes
    found = {"maxConcurrentRuns": behaviour.max_concurrent_runs or 0}
    return found | ({} if minutes is None else {"queueTimeoutMinutes": int(minutes)})


def _capacity(limit: Resources) -> dict[str, str]:
    return {
        "cpu": f"{limit.vcpus:g} vCPU",
        "memory": f"{limit.memory_gb:g} GB",
        "disk": f"{limit.disk_gb:g} GB",
    }
