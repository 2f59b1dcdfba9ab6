"""Jobs that take their process along: each costs only itself, and nothing is left running."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from lamplighter.executors.base import JobState
from lamplighter_job.shipping import runtime_files
from tests.patience import LONG_SECONDS, with_patience
from tests.spark.documents import context_document
from tests.spark.processes import is_running, require_end
from tests.spark.steps import Jobs, write_bundle

pytestmark = pytest.mark.slow

# Writes down the processes of the job: its own and Spark's.
WRITE_PIDS = """
import json, os
java = spark._jvm.java.lang.ProcessHandle.current().pid()
with open({path!r} + ".new", "w") as file:
    json.dump([os.getpid(), java], file)
os.rename({path!r} + ".new", {path!r})
"""


def wait_for(path: Path, *, seconds: float = LONG_SECONDS) -> list[int]:
    """Return the processes that a job has written down, once it has."""
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, f"{path} never came"
        time.sleep(0.05)
    pids: list[int] = json.loads(path.read_text())
    return pids


@pytest.mark.parametrize(
    ("program", "details"),
    [
        ("os._exit(7)", "its process ended with exit code 7 before the job was over"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "its process was killed by SIGKILL"),
    ],
)
def test_job_that_ends_its_process_fails_alone(jobs: Jobs, program: str, details: str) -> None:
    """The job has failed with the cause, what it printed is kept, and the next one runs."""
    job = jobs.run(f"import os, signal; print('last words'); {program}")
    assert (job.state, job.details) == (JobState.FAILED, details)
    assert not jobs.has_report(job)
    assert "last words\n" in jobs.log(job)
    assert jobs.run("spark.range(2)").state is JobState.SUCCESS


def test_job_that_hangs_is_ended_with_its_spark(jobs: Jobs, tmp_path: Path) -> None:
    """A job beyond its time is ended, its JVM too, and its log says where it stood."""
    pids = tmp_path / "pids"
    program = WRITE_PIDS.format(path=str(pids)) + "import time\nwhile True: time.sleep(1)"
    # A busy machine may need longer to come to where the job hangs.
    job = with_patience(
        lambda seconds: jobs.run(program, seconds=seconds), lambda _: not pids.exists()
    )
    assert job.state is JobState.FAILED
    assert re.fullmatch(r"it ran for more than \d+ s and was ended", job.details)
    assert 'jobs/program.py", line ' in jobs.log(job)
    require_end(wait_for(pids))


def test_job_cancelled_while_it_runs_is_ended(jobs: Jobs, tmp_path: Path) -> None:
    """Another thread cancels a job that has begun; its process and its JVM go with it."""
    pids = tmp_path / "pids"
    job_run_id = jobs.submit(WRITE_PIDS.format(path=str(pids)) + "import time; time.sleep(600)")

    def cancel() -> None:
        wait_for(pids)
        jobs.executor.cancel(job_run_id)

    thread = threading.Thread(target=cancel)
    thread.start()
    assert jobs.executor.work()
    thread.join()
    job = jobs.executor.describe(job_run_id)
    assert job is not None
    assert (job.state, job.details) == (JobState.CANCELLED, "it was cancelled while it ran")
    assert jobs.changes[-1] == (job_run_id, JobState.CANCELLED)
    require_end(wait_for(pids))


def test_spark_stopped_for_good_is_replaced(jobs: Jobs, tmp_path: Path) -> None:
    """A job that stops Spark behind PySpark's back succeeds, and the next one has another."""
    pids = tmp_path / "pids"
    job = jobs.run(WRITE_PIDS.format(path=str(pids)) + "spark._jsc.stop()")
    assert job.state is JobState.SUCCESS, job.details
    require_end(wait_for(pids))


PARENT = """
import sys
from pathlib import Path
from tests.spark.steps import jobs_in
with jobs_in(Path(sys.argv[1])) as jobs:
    jobs.run(sys.argv[2])
"""


def test_parent_that_dies_takes_its_spark_along(java: Path, tmp_path: Path) -> None:
    """A parent killed in the middle of a job leaves neither the worker nor a JVM behind."""
    pids = tmp_path / "pids"
    program = WRITE_PIDS.format(path=str(pids)) + "import time; time.sleep(600)"
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path, program],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    try:
        running = wait_for(pids)
        assert all(is_running(pid) for pid in running)
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    require_end(running)


def test_runner_as_shipped_runs_by_itself(java: Path, tmp_path: Path) -> None:
    """The files that a cluster gets run a step from a context on disk, exit code included."""
    for name, content in runtime_files().items():
        (tmp_path / name).write_bytes(content)
    script = """
from pyspark.sql import SparkSession
from lamplighter_job import current_context
spark = SparkSession.builder.getOrCreate()
current_context().outlet("orders").extra["rows"] = spark.range(4).count()
spark.stop()
raise SystemExit(0)
"""
    write_bundle(tmp_path, {"jobs/load.py": script})
    (tmp_path / "bundle").rename(tmp_path / "lamplighter_bundle")
    document = context_document(entry_point="jobs/load.py")
    (tmp_path / "context.json").write_text(json.dumps(document))
    done = subprocess.run(
        [sys.executable, "run_step.py", (tmp_path / "context.json").as_uri()],
        cwd=tmp_path,
        env=_environment(java, tmp_path / "lamplighter_job.zip"),
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["state"], report["outlets"]) == ("success", {"orders": {"rows": 4}})
    ours = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert {line["task_id"] for line in ours} == {"clean"}


def _environment(java: Path, package: Path) -> dict[str, Any]:
    return {
        **os.environ,
        "JAVA_HOME": str(java),
        "PYTHONPATH": str(package),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": (
            "--master local[1] --conf spark.ui.enabled=false"
            " --driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' pyspark-shell"
        ),
    }
