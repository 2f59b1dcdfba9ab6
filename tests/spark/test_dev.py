"""`lamplighter dev` as a process: whatever ends it, nothing that it started goes on."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tests.patience import LONG_SECONDS
from tests.spark.processes import is_running, require_end
from tests.spark.test_deaths import WRITE_PIDS, wait_for

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-c", "from lamplighter_cli.app import main; main()", "dev"]
DAG_FILE = """
import pendulum
from lamplighter import DAG, SparkTask

with DAG("long", schedule="@once", start_date=pendulum.datetime(2026, 1, 1)):
    SparkTask("wait", job="jobs.program:run")
"""


def start(root: Path, *options: str) -> "subprocess.Popen[str]":
    """Start the command on a bundle, as a shell does that pipes its output."""
    return subprocess.Popen(
        [*COMMAND, str(root), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "LAMPLIGHTER_STATE_DIR": str(root / "state")},
    )


def lines_until(stream: "IO[str] | None", text: str) -> list[str]:
    """Return what was written up to the line that holds a text."""
    assert stream is not None
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"{text!r} never came:\n{''.join(lines)}")


def test_dev_killed_in_the_middle_of_a_job_leaves_nothing(java: Path, tmp_path: Path) -> None:
    """Neither the worker nor a JVM outlives the command, and the next one starts as if new."""
    pids = tmp_path / "pids"
    program = WRITE_PIDS.format(path=str(pids)).replace("\n", "\n    ")
    (tmp_path / "dags").mkdir()
    (tmp_path / "jobs").mkdir()
    (tmp_path / "dags/long.py").write_text(DAG_FILE)
    (tmp_path / "jobs/program.py").write_text(
        f"import time\n\n\ndef run(spark, context):{program}\n    time.sleep(600)\n"
    )
    state = tmp_path / "state/dev.json"

    killed = start(tmp_path, "--catchup")
    try:
        running = wait_for(pids)
        assert all(is_running(pid) for pid in running)
        assert json.loads(state.read_text())["pid"] == killed.pid
    finally:
        killed.kill()
        killed.communicate()
    require_end(running)
    assert state.exists()

    again = start(tmp_path, "--instant")
    try:
        lines_until(again.stdout, "registered")
        assert json.loads(state.read_text())["pid"] == again.pid
        again.send_signal(signal.SIGTERM)
        said = again.communicate(timeout=LONG_SECONDS)[0].splitlines()
    finally:
        again.kill()
        again.wait()
    assert again.returncode == 128 + signal.SIGTERM
    assert said[-1] == "SIGTERM: all processes of this command have ended"
    assert not state.exists()
