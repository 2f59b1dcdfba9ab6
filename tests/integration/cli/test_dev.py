"""`lamplighter dev`: what it shows, what it refuses, and how it ends."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import datetime
from rich.console import Console, RenderableType

from lamplighter.zones import UTC
from lamplighter_cli import console
from lamplighter_cli.dev_output import activity_line, screen
from lamplighter_local.dev.activity import Activity, RunningStep
from lamplighter_local.dev.session import SessionInfo, Snapshot
from lamplighter_operations.views import AssetProgress, Dag, Step
from tests.conftest import WriteBundle
from tests.integration.cli.conftest import Command
from tests.patience import LONG_SECONDS

NOW = datetime(2026, 1, 5, 12, 0, 5)
INFO = SessionInfo(Path("/shop"), "shop", "http://127.0.0.1:4566", None)
COMMAND = [sys.executable, "-c", "from lamplighter_cli.app import main; main()", "dev"]


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path) -> Iterator[Path]:
    """Keep the sessions of tests apart from those of people."""
    folder = tmp_path / "state"
    with patch.dict(os.environ, LAMPLIGHTER_STATE_DIR=str(folder)):
        yield folder


# What it shows.


def shown(what: RenderableType, *, width: int, height: int = 24) -> list[str]:
    """Return the lines of a terminal of that size."""
    out = Console(file=StringIO(), width=width, height=height)
    out.print(what)
    assert isinstance(out.file, StringIO)
    return [line.rstrip() for line in out.file.getvalue().splitlines()]


def dag(dag_id: str, **fields: Any) -> Dag:
    """Return a DAG."""
    bundle = {"bundle": "shop", "bundle_version": "v", "push": 1, "file": "dags/a.py"}
    usual = {"schedule": "0 * * * *", "catchup": False, "max_active_runs": 1, "version": "000001"}
    return Dag(dag_id=dag_id, **{**usual, **bundle, **fields})


def snapshot(
    *dags: Dag, running: tuple[RunningStep, ...] = (), **assets: AssetProgress
) -> Snapshot:
    """Return the state of things at noon."""
    return Snapshot(NOW, NOW.start_of("minute"), list(dags), assets, list(running))


def test_line_for_a_terminal_is_short_and_one_for_a_file_has_the_day() -> None:
    """Both have the time, what it is about, the state, and what there is to say of it."""
    activity = Activity(NOW, "hourly/run  load", "failed", "ValueError: no [orders]")
    told = "hourly/run  load  failed  ValueError: no [orders]"
    assert activity_line(activity, is_short=True).plain == f"12:00:05  {told}"
    assert activity_line(activity, is_short=False).plain == f"2026-01-05 12:00:05 UTC  {told}"


def test_screen_shows_dags_with_next_runs_and_steps_that_run() -> None:
    """A table of DAGs and one of steps, with times that a person need not compute."""
    size = Console(width=120, height=24).size
    hourly = dag("hourly", next_run_after=datetime(2026, 1, 5, 13), active=("x",))
    report = dag("report", schedule="Asset", waiting=("y",))
    broken = dag("other", has_import_errors=True, next_run_after=NOW)
    began = NOW.subtract(seconds=12)
    step = Step(task_id="load", state="running", try_number=2, started_at=began)
    progress = AssetProgress(updated=("orders",), missing=("fx",))
    running = RunningStep("hourly/run", step)
    now = snapshot(hourly, report, broken, running=(running,), report=progress)
    with patch.object(console, "_own_zone", lambda: UTC):
        lines = shown(screen(now, INFO, size), width=120)
    assert lines == [
        "",
        "shop  2026-01-05 12:00:05 UTC, last tick 12:00  http://127.0.0.1:4566",
        "DAG     schedule   state   next run                    runs",
        "hourly  0 * * * *  active  01-05 13:00 UTC, in 60 min  1 active",
        "report  Asset      active  1 of 2 assets updated       1 waiting",
        "other   0 * * * *  broken",
        "step          state    for   run",
        "load (try 2)  running  12 s  hourly/run",
    ]


@pytest.mark.parametrize("width", [20, 60, 200])
def test_screen_fits_into_any_terminal(width: int) -> None:
    """However many DAGs and steps there are, no line is folded and the rest is counted."""
    dags = [dag(f"dag_with_a_long_name_{number}", next_run_after=NOW) for number in range(60)]
    tasks = [Step(task_id=f"task_{n}", state="submitted", try_number=1) for n in range(40)]
    steps = [RunningStep("dag/run", step) for step in tasks]
    size = Console(width=width, height=24).size
    lines = shown(screen(snapshot(*dags, running=tuple(steps)), INFO, size), width=width)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= width
    assert any(line.startswith("and 51 more") for line in lines)
    assert any(line.startswith("and 32 more") for line in lines)


def test_screen_without_dags_says_where_to_put_one() -> None:
    """An empty bundle is no mistake yet."""
    lines = shown(screen(snapshot(), INFO, Console(width=80).size), width=80)
    assert lines[2] == "no DAGs yet: save a file in /shop/dags"


# What it refuses.


def test_dev_without_a_bundle_fails_in_a_line(lamplighter: Command, tmp_path: Path) -> None:
    """A folder that is missing, or has no dags/ below it, is named."""
    result = lamplighter("dev", tmp_path / "nowhere", "--instant")
    assert (result.code, result.out) == (1, "")
    assert f"error: {tmp_path / 'nowhere'} is not a bundle" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("text", ["data_root", "=x"])
def test_variable_without_a_name_or_a_text_fails_in_a_line(lamplighter: Command, text: str) -> None:
    """The message shows how to write it."""
    result = lamplighter("dev", "--var", text)
    assert result.code == 1
    assert result.err.startswith(f"error: --var {text!r}: write NAME=TEXT")


def test_dev_beside_another_fails_in_a_line(
    lamplighter: Command, write_bundle: WriteBundle, state_folder: Path
) -> None:
    """Whoever has the lock goes on."""
    root = write_bundle({})
    state_folder.mkdir()
    with (state_folder / "dev.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = lamplighter("dev", root, "--instant")
    assert result.code == 1
    assert "error: `lamplighter dev` is already running" in result.err


# How it ends.


@pytest.mark.slow
def test_dev_on_a_pipe_writes_lines_and_ends_by_ctrl_c(write_bundle: WriteBundle) -> None:
    """What to type elsewhere, then a line for each thing that happens, then one for the end."""
    root = write_bundle({"dags/empty.py": "import lamplighter\n"})
    process = subprocess.Popen(
        [*COMMAND, str(root), "--bundle", "shop", "--instant"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    said: list[str] = []
    try:
        for line in process.stdout:
            said.append(line)
            if "registered" in line:
                process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=LONG_SECONDS)[1]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert said[0].startswith("bundle shop runs at http://127.0.0.1:")
    assert "  lamplighter --local dags list\n" in said
    assert said[-1].endswith(" UTC  bundle shop  registered  no DAGs\n")
    assert err == "Ctrl-C: all processes of this command have ended\n"
