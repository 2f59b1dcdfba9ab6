"""Runs jobs one at a time in a Spark on this machine, as EMR Serverless would on many.

A job waits until `work` is called, so that whoever moves the clock also says when jobs run.

Owns: the jobs and their states. Refuses: deciding when they run; `spark_process` has Spark.
"""

import gzip
import hashlib
import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType, TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError
from pendulum import DateTime

from lamplighter import clock, settings
from lamplighter.bundles.archive import open_archive
from lamplighter.errors import DefinitionError, in_short
from lamplighter.executors.base import Job, JobRequest, JobState, Submission, Usage
from lamplighter.executors.emr import EmrServerless
from lamplighter_local.aws_lambda.local_python import LocalPython
from lamplighter_local.spark import storage
from lamplighter_local.spark.process import SparkProcess

OnChange = Callable[[str, JobState], object]

CONTEXT = "context.json"
REPORT = "report.json"
LOG = "log.txt"
# Where a cluster unpacks it, too, so that a program finds its files by the same path.
BUNDLE = "lamplighter_bundle"

# All that fetching and unpacking what a request names can end with.
_NOT_THERE = (BotoCoreError, ClientError, OSError, DefinitionError, shutil.ReadError)


@dataclass
class _Entry:
    """A job as this executor keeps it."""

    job_run_id: str
    request: JobRequest
    submitted_at: DateTime
    state: JobState = JobState.SUBMITTED
    details: str = ""
    started_at: DateTime | None = None
    ended_at: DateTime | None = None


class LocalSparkExecutor(EmrServerless):
    """Takes the place of EMR Serverless, with one warm Spark that the first job starts.

    So steps name the same executor as in a cloud, and other processes find logs in the same place.

    Args:
        folder: Where each job has a folder with its context, report and `log.txt`. Bundles, Spark's
            own log and its warehouse lie beside them.
        cores: How many cores Spark uses, as in `local[2]`.
        job_seconds: A job that runs longer is ended; so is one that exceeds its own timeout.
        on_change: Called with id and state when a job begins and when it is over.
        spark_conf: Settings of Spark's that each job has, unless it says otherwise itself.
        secrets: What references of jobs lead to; no others are found.
    """

    def __init__(
        self,
        folder: Path,
        *,
        cores: str | int = "*",
        job_seconds: float = 600,
        on_change: OnChange | None = None,
        spark_conf: Mapping[str, str] = MappingProxyType({}),
        secrets: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._folder = folder.resolve()
        self._cores = str(cores)
        self._job_seconds = job_seconds
        self._spark_conf = dict(spark_conf)
        self._secrets = dict(secrets)
        # Who is told when a job begins and when it is over.
        self.listeners: list[OnChange] = [] if on_change is None else [on_change]
        # What runs Python tasks beside it.
        self.python = LocalPython(self._folder, secrets=secrets)
        self._entries: dict[str, _Entry] = {}
        self._tokens: dict[str, str] = {}
        self._process: SparkProcess | None = None
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None
        shutil.rmtree(self._folder / "tmp", ignore_errors=True)

    # What every executor offers.

    def start(self, request: JobRequest) -> str:
        """Remember a job for `work`; with a token that is known, return the job of then."""
        with self._lock:
            known = self._tokens.get(request.token)
            if known is not None:
                return known
            job_run_id = f"local-{len(self._entries) + 1:06}"
            self._entries[job_run_id] = _Entry(job_run_id, request, clock.now())
            self._tokens[request.token] = job_run_id
            return job_run_id

    def find(self, submission: Submission) -> str | None:
        """Return the id of the job that a submission has started, if there is one."""
        with self._lock:
            return self._tokens.get(submission.token)

    def describe(self, job_run_id: str) -> Job | None:
        """Return the current state of a job, or None if it does not exist."""
        with self._lock:
            entry = self._entries.get(job_run_id)
            if entry is None:
                return None
            return Job(
                job_run_id=job_run_id,
                state=entry.state,
                context_uri=entry.request.context_uri,
                details=entry.details,
                started_at=entry.started_at,
                ended_at=entry.ended_at,
                usage=Usage(),  # this machine sends no bill
            )

    def cancel(self, job_run_id: str) -> None:
        """End a job: at once if it has not begun, else by ending the process that it runs in."""
        with self._lock:
            entry = self._entries.get(job_run_id)
            if entry is None:
                return
            if entry.state is JobState.RUNNING:
                entry.state = JobState.CANCELLING
                if self._process is not None:
                    self._process.kill()
            has_begun = entry.state is not JobState.SUBMITTED
        if not has_begun:
            self._end(entry, JobState.CANCELLED, "it was cancelled before it began")

    # What this one offers beside it.

    @property
    def waiting(self) -> int:
        """The number of jobs that have not begun."""
        return sum(entry.state is JobState.SUBMITTED for entry in list(self._entries.values()))

    def folder_of(self, job_run_id: str) -> Path:
        """Return where the context, the report and the log of a job lie."""
        return self._folder / job_run_id

    def work(self) -> bool:
        """Run the oldest job that waits to its end; return whether there was one."""
        entry = self._oldest()
        if entry is None:
            return False
        # Before anyone is told that the job runs: a machine without Java cannot run it at all.
        process = self._warm_process()
        with self._lock:
            if entry.state is not JobState.SUBMITTED:
                return True  # cancelled meanwhile
            entry.state, entry.started_at = JobState.RUNNING, clock.now()
        self._tell(entry)
        self._end(entry, *self._run(entry, process))
        return True

    def _oldest(self) -> _Entry | None:
        with self._lock:
            waiting = (e for e in self._entries.values() if e.state is JobState.SUBMITTED)
            return next(waiting, None)

    def _warm_process(self) -> SparkProcess:
        if self._process is None or not self._process.is_alive:
            if self._process is not None:
                self._process.end()
            self._process = SparkProcess(self._folder, cores=self._cores, secrets=self._secrets)
        return self._process

    # One job.

    def _fetch(self, entry: _Entry) -> dict[str, Any]:
        """Put all that a job needs into its folder; return what its process is asked."""
        folder, request = self.folder_of(entry.job_run_id), entry.request
        folder.mkdir(exist_ok=True)
        (folder / CONTEXT).write_bytes(storage.read(request.context_uri))
        bundle = self._unpacked(request.bundle_uri)
        (folder / BUNDLE).symlink_to(bundle)
        for archive in request.archives:
            _unpack_beside(archive, folder)
        return {
            "context": str(folder / CONTEXT),
            "bundle": str(bundle),
            "spark_conf": self._spark_conf | dict(request.spark_conf),
            "py_files": [_importable(uri, folder / "py_files") for uri in request.py_files],
            "log": str(folder / LOG),
        }

    def _unpacked(self, bundle_uri: str) -> Path:
        """Return the folder of a bundle, the same one for the same content."""
        data = storage.read(bundle_uri)
        into = self._folder / "bundles" / hashlib.sha256(data).hexdigest()[:16]
        return into if into.is_dir() else open_archive(data, into)

    def _run(self, entry: _Entry, process: SparkProcess) -> tuple[JobState, str]:
        """Run a job in the warm process and return how it ended."""
        try:
            request = self._fetch(entry)
        except _NOT_THERE as error:
            return JobState.FAILED, f"what the job needs cannot be had: {error}"
        if self._is_cancelled(entry):
            return JobState.CANCELLED, ""
        said_before = process.log.stat().st_size
        answer = process.ask(request, seconds=self._seconds(entry.request))
        self._append_spark_log(process, said_before, Path(request["log"]))
        # As on a cluster, where no job fails for its log.
        with suppress(*_NOT_THERE):
            self._hand_in_log(entry)
        try:
            self._return_report(entry)
        except _NOT_THERE as error:
            return JobState.FAILED, f"its report could not be stored: {error}"
        if answer.document is None:
            return JobState.FAILED, answer.cause_of_death
        if not answer.document["is_reusable"]:
            process.kill()
        is_success = answer.document["exit_code"] == 0
        return JobState.SUCCESS if is_success else JobState.FAILED, answer.document["summary"]

    def _is_cancelled(self, entry: _Entry) -> bool:
        with self._lock:
            return entry.state is JobState.CANCELLING

    def _seconds(self, request: JobRequest) -> float:
        if request.timeout is None:
            return self._job_seconds
        return min(self._job_seconds, request.timeout.total_seconds())

    def _append_spark_log(self, process: SparkProcess, since: int, log: Path) -> None:
        """Add to a job's log what the JVM has said meanwhile, which has no other place for it."""
        with process.log.open("rb") as source, log.open("ab") as target:
            source.seek(since)
            shutil.copyfileobj(source, target)

    def _return_report(self, entry: _Entry) -> None:
        """Put the report beside the context that was fetched; a job that died has none."""
        report = self.folder_of(entry.job_run_id) / REPORT
        if report.is_file():
            beside = entry.request.context_uri.rpartition("/")[0]
            storage.write(f"{beside}/{REPORT}", report.read_bytes())

    def _hand_in_log(self, entry: _Entry) -> None:
        """Put the log where EMR Serverless would, if the deployment has a place for logs."""
        if settings.current().job_logs_uri:
            log = self.folder_of(entry.job_run_id) / LOG
            uri = self.log_uri(entry.job_run_id, "stdout")
            storage.write(uri, gzip.compress(log.read_bytes(), compresslevel=1))

    def _end(self, entry: _Entry, state: JobState, details: str) -> None:
        with self._lock:
            if entry.state is JobState.CANCELLING:
                state, details = JobState.CANCELLED, "it was cancelled while it ran"
            entry.state, entry.details = state, in_short(details)
            entry.ended_at = clock.now()
        self._tell(entry)

    def _tell(self, entry: _Entry) -> None:
        for listener in self.listeners:
            listener(entry.job_run_id, entry.state)


def _copied(uri: str, into: Path) -> Path:
    """Fetch a file into a folder under its own name; return its path."""
    into.mkdir(exist_ok=True)
    path = into / PurePosixPath(urlsplit(uri).path).name
    path.write_bytes(storage.read(uri))
    return path


def _importable(uri: str, into: Path) -> str:
    """Fetch a library; return what the import path needs: an archive itself, a module's folder."""
    path = _copied(uri, into)
    return str(path.parent if path.suffix == ".py" else path)


def _unpack_beside(uri: str, folder: Path) -> None:
    """Unpack an archive as `spark.archives` does: under the name after `#`, or its own."""
    address, _, name = uri.partition("#")
    packed = _copied(address, folder / "archives")
    shutil.unpack_archive(packed, folder / (name or packed.name))
