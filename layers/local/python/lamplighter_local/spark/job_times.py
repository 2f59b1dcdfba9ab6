"""How long jobs take by the machine's clock: simulated time stands while one runs."""

import time

from lamplighter.executors import JobState
from lamplighter.runs.job_request import SubmissionKey
from lamplighter_local.spark.executor import LocalSparkExecutor


class JobTimes:
    """The seconds that each job took, by its id and in the order in which they ended."""

    def __init__(self, spark: LocalSparkExecutor) -> None:
        self.seconds: dict[str, float] = {}
        self._spark = spark
        self._running: tuple[str, float] | None = None
        spark.listeners.append(self._note)

    def _note(self, job_run_id: str, state: JobState) -> None:
        if state is JobState.RUNNING:
            self._running = job_run_id, time.monotonic()
        elif self._running is not None and self._running[0] == job_run_id:
            self.seconds[job_run_id] = time.monotonic() - self._running[1]
            self._running = None

    @property
    def running(self) -> SubmissionKey | None:
        """Whose job runs now."""
        return None if self._running is None else self.place_of(self._running[0])

    def place_of(self, job_run_id: str) -> SubmissionKey | None:
        """Return whose job it is."""
        job = self._spark.describe(job_run_id)
        return None if job is None else SubmissionKey.read(job.context_uri)
