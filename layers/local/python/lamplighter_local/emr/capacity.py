"""Who has workers: the vCPUs of the account, and the maximum capacity of the application.

Owns: the sum of what is in use, and the texts of jobs that get nothing, as EMR documents them.
"""

from lamplighter_local.emr.behaviour import NOTHING, EmrBehaviour, Resources

NO_ACCOUNT_VCPUS = (
    "Job failed as account has reached the service limit on the maximum vCPU it can use"
    " concurrently."
)
NO_CAPACITY = "Job failed as application has exceeded maximumCapacity settings."
NO_WORKER = (
    "Job failed due to Worker could not be allocated as the application has exceeded"
    " maximumCapacity."
)


def abandoned(seconds: float) -> str:
    """Return what is said about a driver that never had an executor."""
    return (
        "Job failed, please check complete logs in configured logging destination. ExitCode: 1."
        " Last few exceptions: Abandoning job due to no executor being launched within"
        f" {seconds * 1000:.0f}ms"
    )


class Capacity:
    """What all workers have together, one by one taken and given back."""

    def __init__(self) -> None:
        self.used = NOTHING

    def can_queue_for(self, driver: Resources, behaviour: EmrBehaviour) -> bool:
        """Return whether a driver must wait for other workers of the application to end."""
        limit = behaviour.maximum_capacity
        return limit is not None and driver.is_within(limit) and not self._fits(driver, limit)

    def refusal(self, driver: Resources, behaviour: EmrBehaviour) -> str:
        """Return why a driver cannot be had now; nothing if it can."""
        limit = behaviour.maximum_capacity
        if limit is not None and not driver.is_within(limit):
            return NO_WORKER
        if limit is not None and not self._fits(driver, limit):
            return NO_CAPACITY
        return "" if self._fits_account(driver, behaviour) else NO_ACCOUNT_VCPUS

    def take(self, worker: Resources, count: int, behaviour: EmrBehaviour) -> int:
        """Take so many workers, or as many as there is room for; return how many."""
        taken = 0
        while taken < count and not self.refusal(worker, behaviour):
            self.used = self.used.plus(worker)
            taken += 1
        return taken

    def give_back(self, worker: Resources, count: int) -> None:
        """Let others have workers."""
        self.used = self.used.plus(worker, times=-count)

    def _fits(self, worker: Resources, limit: Resources) -> bool:
        return self.used.plus(worker).is_within(limit)

    def _fits_account(self, worker: Resources, behaviour: EmrBehaviour) -> bool:
        limit = behaviour.account_vcpus
        return limit is None or self.used.vcpus + worker.vcpus <= limit
