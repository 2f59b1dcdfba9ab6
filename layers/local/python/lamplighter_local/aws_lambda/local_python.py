"""Runs jobs of Python tasks on this machine, with the code of the function `task`.

A job waits until `work` is called, so that whoever moves the clock also says when jobs run. Each
has a process of its own; none of them needs Java.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lamplighter import clock, queues, settings
from lamplighter.executors.aws_lambda import LambdaFunction
from lamplighter.executors.base import Job, JobState
from lamplighter.executors.python_job import Host, run_job
from lamplighter.store.jobs import cancel_job
from lamplighter_job.secrets import GIVEN as SECRETS
from lamplighter_local.aws_lambda.invocations import end_of_invocation, taking_invocations
from lamplighter_local.emulator.moto_memory import put_log_lines

OnChange = Callable[[str, JobState], object]

LOG = "log.txt"
# A job that runs is ended within seconds when the block is over.
_END_FOR = 15.0


class LocalPython:
    """The invocations of `task` that wait, and the jobs that it has run."""

    def __init__(self, folder: Path, *, secrets: Mapping[str, str]) -> None:
        self._folder = folder.resolve()
        self._secrets = dict(secrets)
        # Who is told when a job begins and when it is over.
        self.listeners: list[OnChange] = []
        self._waiting: deque[str] = deque()
        self._folders: dict[str, Path] = {}
        self._at_work: str | None = None

    def answering_calls(self, send: Callable[..., Any]) -> Callable[..., Any]:
        """Return what takes invocations of `task`, and sends all other calls."""
        return taking_invocations(send, self.invoke)

    def invoke(self, job_id: str) -> None:
        """Let a job be run as soon as those before it are over."""
        self._waiting.append(job_id)

    def describe(self, job_run_id: str) -> Job | None:
        """Return the current state of a job, or None if it does not exist."""
        return LambdaFunction().describe(job_run_id)

    def folder_of(self, job_run_id: str) -> Path:
        """Return where the log of a job lies."""
        return self._folders.setdefault(
            job_run_id, self._folder / f"python-{len(self._folders) + 1:06}"
        )

    def work(self) -> bool:
        """Run the oldest job that waits to its end; return whether there was one."""
        if not self._waiting:
            return False
        job_id = self._waiting.popleft()
        lines: list[str] = []
        environment = {SECRETS: json.dumps(self._secrets)}
        self._tell(job_id, JobState.RUNNING)
        limit = settings.current().task_timeout_seconds
        # This machine sends no bill.
        self._at_work = job_id
        has_run = run_job(job_id, Host(limit, None, lines.append, environment))
        self._at_work = None
        if has_run:
            self._keep_log(job_id, lines)
            job = self.describe(job_id)
            self._tell(job_id, JobState.FAILED if job is None else job.state)
        body = json.dumps(end_of_invocation(job_id, clock.now()))
        queues.send("jobstates", [{"MessageBody": body}])
        return True

    def _tell(self, job_id: str, state: JobState) -> None:
        for listener in self.listeners:
            listener(job_id, state)

    def _keep_log(self, job_id: str, lines: list[str]) -> None:
        """Write a log to a file, and where CloudWatch has it, for other processes."""
        folder = self.folder_of(job_id)
        folder.mkdir(parents=True, exist_ok=True)
        said = [json.loads(line)["message"] for line in lines]
        (folder / LOG).write_text("".join(f"{text}\n" for text in said), encoding="utf-8")
        put_log_lines(
            f"/aws/lambda/{settings.current().task_function}", folder.name, lines, clock.now()
        )


class BackgroundPython(LocalPython):
    """Runs jobs beside the clock, one after the other, while `working` lasts."""

    def __init__(self, folder: Path, *, secrets: Mapping[str, str]) -> None:
        super().__init__(folder, secrets=secrets)
        self._has_work = threading.Event()
        self._is_ending = False

    def invoke(self, job_id: str) -> None:
        """Let a job be run as soon as those before it are over."""
        super().invoke(job_id)
        self._has_work.set()

    def work(self) -> bool:
        """Leave the work to the thread."""
        return False

    @contextmanager
    def working(self) -> Iterator[None]:
        """Run jobs until the block ends."""
        thread = threading.Thread(target=self._work, name="python", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._is_ending = True
            self._has_work.set()
            if self._at_work is not None:
                cancel_job(self._at_work)
            thread.join(_END_FOR)

    def _work(self) -> None:
        while not self._is_ending:
            self._has_work.wait()
            self._has_work.clear()
            while not self._is_ending and super().work():
                pass
