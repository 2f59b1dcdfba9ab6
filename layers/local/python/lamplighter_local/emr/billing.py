"""What a job has used, and what is billed for it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

from pendulum import DateTime

from lamplighter.zones import as_utc
from lamplighter_local.emr.behaviour import NOTHING, EmrBehaviour, Resources
from lamplighter_local.emr.job import FakeJob

# Of each worker.
_LEAST_SECONDS = 60.0

Hours = dict[str, float]


class Utilization(NamedTuple):
    """In the words of EMR Serverless."""

    total: Hours
    billed: Hours


def utilization(job: FakeJob, behaviour: EmrBehaviour) -> Utilization:
    """Return what the workers of a job that is over have used; one that never ran has none."""
    total = billed = NOTHING
    for worker, seconds in _workers(job):
        total = total.plus(_hours(worker, seconds))
        disk = max(0, worker.disk_gb - behaviour.free_disk_gb)
        billable = worker._replace(disk_gb=disk)
        billed = billed.plus(_hours(billable, max(seconds, _LEAST_SECONDS)))
    return Utilization(_named(total), _named(billed))


def known_at(job: FakeJob, behaviour: EmrBehaviour) -> DateTime | None:
    """Return when the utilization of a job is told; None while it is not over."""
    if job.ended_at is None:
        return None
    return as_utc(job.ended_at + timedelta(seconds=behaviour.billing_delay_seconds or 0))


def _workers(job: FakeJob) -> Iterator[tuple[Resources, float]]:
    """Yield each worker of a job with the seconds that it had it."""
    if job.running_at is None or job.ended_at is None:
        return
    yield job.size.driver, (job.ended_at - job.running_at).total_seconds()
    for launched_at in job.executors:
        yield job.size.executor, (job.ended_at - launched_at).total_seconds()


def _hours(worker: Resources, seconds: float) -> Resources:
    hours = seconds / 3600
    return Resources(*(part * hours for part in worker))


def _named(hours: Resources) -> Hours:
    names = ("vCPUHour", "memoryGBHour", "storageGBHour")
    return dict(zip(names, map(float, hours), strict=True))
