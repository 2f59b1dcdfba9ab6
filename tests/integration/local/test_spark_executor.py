"""The local executor without Spark: what it remembers, and what becomes of jobs that do not run."""

import gzip
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, SparkTask, runtime
from lamplighter.errors import RefusedError
from lamplighter.executors.base import Executor, JobRequest, JobState, Submission
from lamplighter.settings import Settings
from lamplighter_local.movable_clock import MovableClock
from lamplighter_local.spark import executor as spark_executor
from lamplighter_local.spark.executor import LocalSparkExecutor
from lamplighter_local.spark.process import Answer
from tests.spark.steps import write_bundle

NOON = datetime(2026, 1, 5, 12)
HOUR = timedelta(hours=1)


def request(token: str = "first") -> JobRequest:  # noqa: S107 - no secret, an id
    """Return a request whose files are nowhere."""
    return JobRequest(token, "orders clean", "/nowhere/context.json", "/nowhere/bundle.zip")


def submission(token: str) -> Submission:
    """Return the submission that starts a job with a token."""
    return Submission("", token, NOON, SparkTask("clean", dag=DAG("orders"), job="jobs:clean"))


@pytest.fixture(name="time")
def movable_clock() -> Iterator[MovableClock]:
    """Let it be noon."""
    movable = MovableClock(NOON)
    with runtime.using(clock=movable):
        yield movable


@pytest.fixture(name="changes")
def no_changes() -> list[tuple[str, JobState]]:
    """Return what the executor has told, which is nothing yet."""
    return []


@pytest.fixture(name="executor")
def make_executor(
    tmp_path: Path, time: MovableClock, changes: list[tuple[str, JobState]]
) -> Iterator[LocalSparkExecutor]:
    """Yield an executor that tells its changes."""
    with LocalSparkExecutor(
        tmp_path / "jobs", on_change=lambda *change: changes.append(change)
    ) as executor:
        yield executor


def test_job_started_only_waits(executor: LocalSparkExecutor) -> None:
    """A job is submitted and nothing happens until someone lets it work."""
    protocol: Executor = executor
    job = protocol.describe(protocol.start(request()))
    assert job is not None
    assert (job.job_run_id, job.state, job.started_at) == ("local-000001", "SUBMITTED", None)
    assert job.context_uri == "/nowhere/context.json"
    assert executor.waiting == 1


def test_token_known_returns_the_job_of_then(executor: LocalSparkExecutor) -> None:
    """The same token never makes a second job, another one does."""
    ids = [executor.start(request(token)) for token in ("a", "a", "b", "a")]
    assert ids == ["local-000001", "local-000001", "local-000002", "local-000001"]
    assert executor.waiting == 2


def test_job_is_found_by_its_submission(executor: LocalSparkExecutor) -> None:
    """The job that a submission has started is found, and none of another one."""
    executor.start(request("a"))
    second = executor.start(request("b"))
    assert executor.find(submission("b")) == second
    assert executor.find(submission("c")) is None


def test_job_that_is_unknown_is_none(executor: LocalSparkExecutor) -> None:
    """There is nothing to say about a job that does not exist, and nothing to cancel."""
    executor.cancel("local-000009")
    assert executor.describe("local-000009") is None


def test_job_cancelled_before_it_begins_never_runs(
    executor: LocalSparkExecutor, changes: list[tuple[str, JobState]]
) -> None:
    """A waiting job is over at once, and whoever listens is told so, once."""
    job_run_id = executor.start(request())
    executor.cancel(job_run_id)
    executor.cancel(job_run_id)
    job = executor.describe(job_run_id)
    assert job is not None
    assert (job.state, job.ended_at) == (JobState.CANCELLED, NOON)
    assert changes == [(job_run_id, JobState.CANCELLED)]
    assert not executor.work()


def test_work_without_jobs_does_nothing(executor: LocalSparkExecutor) -> None:
    """Without a job there is no reason to start Spark."""
    assert not executor.work()


def test_work_without_java_is_refused_in_a_sentence(
    executor: LocalSparkExecutor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A machine without Java says what to install, and the job goes on waiting."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    executor.start(request())
    with pytest.raises(RefusedError, match=r"install JDK 17.*make toolchain"):
        executor.work()
    assert executor.waiting == 1


class FakeProcess:
    """A process without Spark, which answers as told and counts its starts."""

    started = 0
    answer = Answer({"exit_code": 0, "summary": "", "is_reusable": True})

    def __init__(self, folder: Path, *, cores: str, secrets: Mapping[str, str]) -> None:
        FakeProcess.started += 1
        assert (cores, dict(secrets)) == ("*", {})
        self.is_alive = True
        self.log = folder / "spark.log"
        self.log.touch()
        self.seconds: list[float] = []
        self.requests: list[Mapping[str, Any]] = []

    def ask(self, request: Mapping[str, Any], *, seconds: float) -> Answer:
        """Answer without doing anything."""
        self.seconds.append(seconds)
        self.requests.append(request)
        Path(request["context"]).with_name("report.json").write_text("{}")
        return self.answer

    def kill(self) -> None:
        """Be dead from now on."""
        self.is_alive = False

    def end(self) -> None:
        """Be dead from now on."""
        self.is_alive = False


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jobs run in a process that only pretends."""
    monkeypatch.setattr(FakeProcess, "started", 0)
    monkeypatch.setattr(spark_executor, "SparkProcess", FakeProcess)


def real_request(folder: Path, number: int = 1, **changes: Any) -> JobRequest:
    """Return a request whose files exist."""
    step = folder / f"step-{number}"
    step.mkdir()
    write_bundle(step, {})
    (step / "context.json").write_text("{}")
    files = {"context_uri": f"file://{step}/context.json", "bundle_uri": str(step / "bundle.zip")}
    return JobRequest(**{"token": str(number), "name": f"job {number}", **files, **changes})


def test_job_that_runs_has_its_files_and_times(
    executor: LocalSparkExecutor, without_spark: None, tmp_path: Path
) -> None:
    """What a job needs is put into its folder, and its report comes back to the context."""
    job_run_id = executor.start(real_request(tmp_path))
    assert executor.work()
    job = executor.describe(job_run_id)
    assert job is not None
    assert (job.state, job.started_at, job.ended_at) == (JobState.SUCCESS, NOON, NOON)
    assert (executor.folder_of(job_run_id) / "lamplighter_bundle" / "dags").parent.is_dir()
    assert (tmp_path / "step-1" / "report.json").exists()


@pytest.mark.parametrize(("timeout", "seconds"), [(None, 600), (HOUR, 600), (HOUR / 60, 60)])
def test_time_of_a_job_is_the_shorter_of_two(
    executor: LocalSparkExecutor,
    without_spark: None,
    tmp_path: Path,
    timeout: timedelta | None,
    seconds: float,
) -> None:
    """A job has its own timeout, and never more than any job has."""
    executor.start(real_request(tmp_path, timeout=timeout))
    executor.work()
    process = executor._process
    assert isinstance(process, FakeProcess)
    assert process.seconds == [seconds]


def test_jobs_run_in_their_order_in_one_process(
    executor: LocalSparkExecutor,
    without_spark: None,
    tmp_path: Path,
    changes: list[tuple[str, JobState]],
) -> None:
    """The oldest job comes first, and Spark stays warm between them."""
    ids = [executor.start(real_request(tmp_path, number)) for number in (1, 2)]
    while executor.work():
        pass
    assert [job for job, state in changes if state is JobState.RUNNING] == ids
    assert FakeProcess.started == 1


def test_process_that_is_spent_is_replaced(
    executor: LocalSparkExecutor,
    without_spark: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job that leaves a broken Spark is judged by its own end; the next one gets another."""
    spent = Answer({"exit_code": 0, "summary": "", "is_reusable": False})
    monkeypatch.setattr(FakeProcess, "answer", spent)
    ids = [executor.start(real_request(tmp_path, number)) for number in (1, 2)]
    while executor.work():
        pass
    found = [executor.describe(job_run_id) for job_run_id in ids]
    assert [job.state for job in found if job] == [JobState.SUCCESS, JobState.SUCCESS]
    assert FakeProcess.started == 2


def test_job_cancelled_as_it_begins_does_not_run(
    tmp_path: Path, without_spark: None, time: MovableClock
) -> None:
    """Whoever is told that a job runs may cancel it there and then."""
    changes: list[JobState] = []

    def cancel(job_run_id: str, state: JobState) -> None:
        changes.append(state)
        executor.cancel(job_run_id)

    with LocalSparkExecutor(tmp_path / "jobs", on_change=cancel) as executor:
        executor.start(real_request(tmp_path))
        assert executor.work()
        assert changes == [JobState.RUNNING, JobState.CANCELLED]
        executor.start(real_request(tmp_path, 2))
        assert executor.work()
    assert FakeProcess.started == 2


def test_report_that_cannot_be_stored_fails_the_job(
    executor: LocalSparkExecutor, without_spark: None, tmp_path: Path
) -> None:
    """A report that gets lost on its way is not taken for a success."""
    job_run_id = executor.start(real_request(tmp_path))
    (tmp_path / "step-1" / "report.json").mkdir()
    executor.work()
    job = executor.describe(job_run_id)
    assert job is not None
    assert job.state is JobState.FAILED
    assert "its report could not be stored" in job.details


def test_archive_of_a_job_is_unpacked_beside_it(
    executor: LocalSparkExecutor, without_spark: None, tmp_path: Path
) -> None:
    """An archive appears in the working folder under the name after its `#`."""
    write_bundle(tmp_path, {"jobs/model.txt": "42"})
    archives = (f"{tmp_path}/bundle.zip#models",)
    job_run_id = executor.start(real_request(tmp_path, archives=archives))
    executor.work()
    assert (executor.folder_of(job_run_id) / "models" / "jobs" / "model.txt").read_text() == "42"


def test_log_of_a_job_is_put_where_a_cluster_puts_it(
    executor: LocalSparkExecutor, without_spark: None, tmp_path: Path
) -> None:
    """Where the deployment keeps logs, a job's lies below its application and id, compressed."""
    place = tmp_path / "logs/applications/app/jobs/local-000001/SPARK_DRIVER"
    place.mkdir(parents=True)
    made = Settings(job_logs_uri=f"file://{tmp_path}/logs", emr_application_id="app")
    with runtime.using(settings=made):
        executor.start(real_request(tmp_path))
        (executor.folder_of("local-000001")).mkdir()
        (executor.folder_of("local-000001") / "log.txt").write_text("it began\n")
        executor.work()
    assert gzip.decompress((place / "stdout.gz").read_bytes()) == b"it began\n"


def test_log_that_cannot_be_put_there_fails_no_job(
    executor: LocalSparkExecutor, without_spark: None, tmp_path: Path
) -> None:
    """A job is judged by what it did, whatever becomes of its log."""
    made = Settings(job_logs_uri="file:///nowhere", emr_application_id="app")
    with runtime.using(settings=made):
        job_run_id = executor.start(real_request(tmp_path))
        executor.work()
    job = executor.describe(job_run_id)
    assert job is not None
    assert job.state is JobState.SUCCESS


def test_settings_of_a_job_win_over_those_of_all(
    tmp_path: Path, without_spark: None, time: MovableClock
) -> None:
    """An executor may have settings of Spark's for all jobs, and a job may say otherwise."""
    of_all = {"spark.a": "all", "spark.b": "all"}
    with LocalSparkExecutor(tmp_path / "jobs", spark_conf=of_all) as executor:
        executor.start(real_request(tmp_path, spark_conf={"spark.b": "own"}))
        executor.work()
        process = executor._process
    assert isinstance(process, FakeProcess)
    assert process.requests[0]["spark_conf"] == {"spark.a": "all", "spark.b": "own"}
