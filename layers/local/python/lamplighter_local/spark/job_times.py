"""How long jobs take by the machine's clock: simulated time stands while one runs."""

import time
from pathlib import Path
from typing import Protocol

from lamplighter.executors.base import Job, JobState
from lamplighter.runs.job_request import SubmissionKey
from lamplighter_local.spark.executor import LocalSparkExecutor, OnChange


class _Runner(Protocol):
    """What runs jobs on this machine."""

    listeners: list[OnChange]

    def describe(self, job_run_id: str) -> Job | None: ...

    def folder_of(self, job_run_id: str) -> Path: ...


class JobTimes:
    """The seconds that each job took, by its id and in the order in which they ended."""

    def __init__(self, spark: LocalSparkExecutor) -> None:
        self.seconds: dict[str, float] = {}
        self._runners: tuple[_Runner, _Runner] = (spark, spark.python)
        self._running: tuple[str, float] | None = None
        for runner in self._runners:
            runner.listeners.append(self._note)

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

    def _runner_of(self, job_run_id: str) -> _Runner:
        """Return what has run a job: Spark, if it knows it."""
        spark, python = self._runners
        return python if spark.describe(job_run_id) is None else spark

    def folder_of(self, job_run_id: str) -> Path:
        """Return where the log of a job lies."""
        return self._runner_of(job_run_id).folder_of(job_run_id)

    def place_of(self, job_run_id: str) -> SubmissionKey | None:
        """Return whose job it is."""
        job = self._runner_of(job_run_id).describe(job_run_id)
        return None if job is None else SubmissionKey.read(job.context_uri)
