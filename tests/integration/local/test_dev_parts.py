"""The threads of a `dev` session, each alone: the one that runs jobs, the one that watches."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import boto3
import pytest
from pendulum import datetime

from lamplighter import DAG, SparkTask
from lamplighter.errors import RefusedError
from lamplighter.executors.base import JobRequest, JobState, Submission
from lamplighter_local.dev import background_spark
from lamplighter_local.dev import file_watch as dev_watch
from lamplighter_local.dev.background_spark import BackgroundSpark
from lamplighter_local.dev.file_watch import watching_files
from lamplighter_local.dev.log import collected_logs
from lamplighter_local.dev.server import serving
from lamplighter_local.emulator.moto_guard import guarded_moto
from lamplighter_local.emulator.moto_memory import queues
from lamplighter_local.handlers import SESSION_LOG
from lamplighter_local.spark.executor import LocalSparkExecutor
from tests.patience import LONG_SECONDS


@pytest.fixture(autouse=True)
def java() -> Iterator[None]:
    """Let this machine have a Java, which no test here needs."""
    with patch.object(background_spark, "find_java_home", lambda: Path("java")):
        yield


def request(name: str) -> JobRequest:
    """Return the request for a job of that name."""
    return JobRequest(token=name, name=name, context_uri="", bundle_uri="")


def submission(token: str) -> Submission:
    """Return the submission that starts a job with a token."""
    return Submission(
        "", token, datetime(2026, 1, 1), SparkTask("clean", dag=DAG("orders"), job="jobs:clean")
    )


def wait_until(is_so: Callable[[], bool]) -> None:
    """Return when something has become true."""
    until = time.monotonic() + LONG_SECONDS
    while not is_so():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.02)


def test_jobs_run_while_their_starter_goes_on(tmp_path: Path) -> None:
    """Starting returns at once; each job is run by the other thread, in order."""
    spark, go, ran = BackgroundSpark(tmp_path), threading.Event(), list[str]()

    def run(_: LocalSparkExecutor) -> bool:
        assert go.wait(LONG_SECONDS)
        ran.append(threading.current_thread().name)
        return True

    with patch.object(LocalSparkExecutor, "work", run), spark.working():
        first = spark.start(request("a"))
        assert spark.start(request("b")) != first
        assert ran == []
        go.set()
        wait_until(lambda: len(ran) == 2)
    assert ran == ["spark", "spark"]
    assert spark.find(submission("a")) == first


def test_end_while_jobs_wait_cancels_them(tmp_path: Path) -> None:
    """Nothing that was started and has not begun is begun any more."""
    spark, is_there = BackgroundSpark(tmp_path), threading.Event()

    def run(_: LocalSparkExecutor) -> bool:
        is_there.set()
        return True

    with patch.object(LocalSparkExecutor, "work", run), spark.working():
        job_run_id = spark.start(request("a"))
        assert is_there.wait(LONG_SECONDS)
    job = spark.describe(job_run_id)
    assert job is not None
    assert job.state is JobState.CANCELLED


def test_spark_that_cannot_start_is_told_to_whoever_asks(tmp_path: Path) -> None:
    """What ends the thread is raised where the clock is moved, and not lost."""
    spark = BackgroundSpark(tmp_path)

    def fail(_: LocalSparkExecutor) -> bool:
        raise RefusedError("no Java")

    with patch.object(LocalSparkExecutor, "work", fail), spark.working():
        job_run_id = spark.start(request("a"))
        wait_until(lambda: spark._failure is not None)
        with pytest.raises(RefusedError, match="no Java"):
            spark.describe(job_run_id)


def test_watch_tells_once_of_what_was_saved(tmp_path: Path) -> None:
    """A new file below the folder is noticed, also in a new folder; then there is silence."""
    with watching_files(tmp_path) as watch:
        assert not watch.take()
        file = tmp_path / "dags/deep/new.py"
        file.parent.mkdir(parents=True)

        def is_noticed() -> bool:
            # Again and again: the thread may have begun to listen after the first time.
            file.write_text(str(time.monotonic()), encoding="utf-8")
            return watch.take()

        wait_until(is_noticed)


def test_watch_that_the_system_refuses_is_told(tmp_path: Path) -> None:
    """The error names the way without the system's help."""

    def refuse(*_: object, **options: object) -> Iterator[set[object]]:
        raise OSError("no watches left")
        yield set()

    with patch.object(dev_watch, "watch", refuse), watching_files(tmp_path) as watch:
        wait_until(lambda: watch._failure is not None)
        with pytest.raises(RefusedError, match="no watches left; set WATCHFILES_FORCE_POLLING=1"):
            watch.take()


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_requests_wait_while_the_endpoint_is_busy() -> None:
    """Whoever sends without pause cannot keep the functions from coming to an end."""
    with guarded_moto() as lock, serving(lock, sandbox="sandbox") as endpoint:
        client = boto3.client(
            "sqs",
            endpoint_url=endpoint.url,
            region_name="us-east-1",
            aws_access_key_id=endpoint.key.id,
            aws_secret_access_key=endpoint.key.secret,
        )
        thread = threading.Thread(target=client.create_queue, kwargs={"QueueName": "later"})
        with endpoint.busy():
            thread.start()
            thread.join(0.2)
            assert queues() == []
        thread.join()
        assert [queue.name for queue in queues()] == ["later"]
        client.close()


def test_stream_that_is_opened_every_minute_is_shown_once() -> None:
    """Its key and its watchers are worth one line, and not one a minute."""
    opened = logging.LoggerAdapter(logging.getLogger(SESSION_LOG), {"watchers": ["a/w", "b/w"]})
    with collected_logs() as logs:
        for _ in range(2):
            opened.info("Shared stream group started key=%r", "log")
        shown = [(each.about, each.state, each.detail) for each in logs.take()]
    assert shown == [
        ("watch", "shared", "Shared stream group started key='log' (watchers ['a/w', 'b/w'])")
    ]
