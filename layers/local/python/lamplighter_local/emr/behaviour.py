"""How a fake EMR Serverless behaves: the quotas of an account, and the settings of an application.

Owns: AWS's defaults. Whatever is None is left out: there is then no such limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from lamplighter.errors import RefusedError


class Resources(NamedTuple):
    """What a worker has, or what workers have together."""

    vcpus: float = 0
    memory_gb: float = 0
    disk_gb: float = 0

    def plus(self, other: "Resources", *, times: int = 1) -> "Resources":
        """Return the sum with so many of the other."""
        return Resources(*(mine + times * its for mine, its in zip(self, other, strict=True)))

    def is_within(self, limit: "Resources") -> bool:
        """Return whether no part is above its limit."""
        return all(mine <= its for mine, its in zip(self, limit, strict=True))


NOTHING = Resources()


class Rate(NamedTuple):
    """How often an operation may be called: steadily, and at once after a pause."""

    per_second: float
    burst: int


# Per account and Region.
AWS_RATES: Mapping[str, Rate] = MappingProxyType(
    {
        "StartJobRun": Rate(1, 25),
        "ListJobRuns": Rate(1, 25),
        "CancelJobRun": Rate(1, 25),
        "GetJobRun": Rate(10, 50),
        "GetApplication": Rate(10, 50),
        "GetDashboardForJobRun": Rate(1, 2),
    }
)


@dataclass(frozen=True, kw_only=True)
class EmrBehaviour:
    """What an account allows, how an application is configured, and how long things take.

    Args:
        rates: Of operations, by name; one that is not named is never throttled.
        account_vcpus: All vCPUs of the account at once. A job whose driver exceeds them fails.
        maximum_capacity: Of the application. A driver that exceeds it waits in the queue, or the
            job fails if there is no queue; executors are not launched.
        max_concurrent_runs: Further jobs are QUEUED; None: the application has no queue.
        queue_timeout_minutes: After which a QUEUED job fails.
        max_queued_jobs: Further starts are refused.
        start_seconds: From the start to RUNNING, between the two, and the time that a job takes
            comes after it; None: as `FakeEmr` is told, within the time that a job takes.
        max_timeout_minutes: The longest execution timeout of a batch job; None: it may have none.
        executor_wait_seconds: After which a driver without an executor gives up.
        billing_delay_seconds: From the end of a job until its utilization is known, which is also
            sent as an event; None: known at the end, and no event.
        free_disk_gb: Of each worker, not billed.
        idle_timeout_minutes: After which the application stops; None: it is always started.
        application_start_seconds: What a job waits when the application must be started.
        stopping_seconds: How long it is STOPPING, when starts are refused.
        client_token_seconds: How long a client token is remembered; None: for ever.
        worker: The only worker of each job; None: workers are those that the job asks for.
        seed: Where chance begins.
    """

    rates: Mapping[str, Rate] = field(default_factory=lambda: AWS_RATES, hash=False)
    account_vcpus: float | None = 16
    maximum_capacity: Resources | None = None
    max_concurrent_runs: int | None = 15
    queue_timeout_minutes: float | None = 360
    max_queued_jobs: int | None = 2_000
    start_seconds: tuple[float, float] | None = (60, 90)
    max_timeout_minutes: int | None = 10_080
    executor_wait_seconds: float = 1_200
    billing_delay_seconds: float | None = 30
    free_disk_gb: float = 20
    idle_timeout_minutes: float | None = 15
    application_start_seconds: float = 30
    stopping_seconds: float = 30
    client_token_seconds: float | None = 600
    worker: Resources | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse limits that no job could keep."""
        for operation, rate in self.rates.items():
            if not (rate.per_second > 0 and rate.burst >= 1):
                raise RefusedError(f"rate of {operation}: allow more than 0 per second, burst 1")
        if self.start_seconds is None:
            if self.worker is None:
                raise RefusedError("start_seconds=None: say which worker each job has")
        elif not 0 <= self.start_seconds[0] <= self.start_seconds[1]:
            raise RefusedError(f"start_seconds={self.start_seconds}: give least and greatest")

    def __deepcopy__(self, _: dict[int, Any]) -> Self:
        """Return itself, which never changes."""
        return self


# Nothing is limited, and a job is billed for the same worker whatever it asks for.
INSTANT = EmrBehaviour(
    rates={},
    account_vcpus=None,
    max_concurrent_runs=None,
    queue_timeout_minutes=None,
    max_queued_jobs=None,
    start_seconds=None,
    max_timeout_minutes=None,
    billing_delay_seconds=None,
    free_disk_gb=0,
    idle_timeout_minutes=None,
    client_token_seconds=None,
    worker=Resources(vcpus=2, memory_gb=8, disk_gb=20),
)
