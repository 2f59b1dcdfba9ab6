"""Spark beside the clock: jobs run in a thread, so that timers and messages do not wait for them.

Owns: the thread. `spark_executor` has the jobs; whoever moves the clock asks how they are. The
thread fetches files from the emulator and does nothing else there.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from types import MappingProxyType

from lamplighter.errors import RefusedError
from lamplighter.executors.base import Job, JobRequest, Submission
from lamplighter.executors.emr import EmrServerless
from lamplighter_local.aws_lambda.local_python import BackgroundPython
from lamplighter_local.spark.executor import LocalSparkExecutor
from lamplighter_local.spark.java import NO_JAVA, find_java_home

# A Spark that is just being started cannot be ended before; it ends by itself when we are gone.
_END_FOR = 15.0


class BackgroundSpark(EmrServerless):
    """Takes the place of EMR Serverless: jobs run, one after the other, while `working` lasts."""

    def __init__(self, folder: Path, *, secrets: Mapping[str, str] = MappingProxyType({})) -> None:
        self.folder = folder
        self._spark = LocalSparkExecutor(folder, secrets=secrets)
        self.python = BackgroundPython(folder, secrets=secrets)
        # A job's id for each that was started, and None at the end.
        self._started: SimpleQueue[str | None] = SimpleQueue()
        self._job_run_ids: list[str] = []
        self._is_ending = False
        self._failure: Exception | None = None

    def start(self, request: JobRequest) -> str:
        """Let a job run as soon as those before it are over."""
        if find_java_home() is None:
            # The session has steps that need no Java, and only those that do may fail.
            raise RefusedError(NO_JAVA)
        job_run_id = self._spark.start(request)
        self._job_run_ids.append(job_run_id)
        self._started.put(job_run_id)
        return job_run_id

    def find(self, submission: Submission) -> str | None:
        """Return the id of the job that a submission has started, if there is one."""
        return self._spark.find(submission)

    def describe(self, job_run_id: str) -> Job | None:
        """Return a job as it is now; raise what the thread has died of."""
        if self._failure is not None:
            raise self._failure
        return self._spark.describe(job_run_id)

    def cancel(self, job_run_id: str) -> None:
        """End a job."""
        self._spark.cancel(job_run_id)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Run jobs until the block ends, and then leave neither a job nor Spark behind."""
        thread = threading.Thread(target=self._work, name="spark", daemon=True)
        with self._spark, self.python.working():
            thread.start()
            try:
                yield
            finally:
                self._is_ending = True
                self._started.put(None)
                for job_run_id in self._job_run_ids:
                    self._spark.cancel(job_run_id)
                thread.join(_END_FOR)

    def _work(self) -> None:
        try:
            while self._started.get() is not None and not self._is_ending:
                self._spark.work()
        except Exception as error:  # noqa: BLE001 - a thread has nobody else to tell
            self._failure = error
