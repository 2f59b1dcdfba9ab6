"""`lamplighter simulate`: what the coming days will be like."""

import csv
import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter.bundles.parsing import CheckedDag
from lamplighter.errors import RefusedError
from lamplighter_cli import extras
from lamplighter_cli.app import main
from lamplighter_cli.simulate import durations

WriteBundle = Callable[[dict[str, str]], Path]

BUNDLE = """
import pendulum
from lamplighter import DAG, Asset, SparkTask

start = pendulum.datetime(2026, 1, 1)
made = Asset("made")

with DAG("hourly", schedule="0 * * * *", start_date=start, max_active_runs=1):
    SparkTask("v1.load", entry_point="jobs/a.py", arguments=["{{ var.value.root }}"])
    SparkTask("b", entry_point="jobs/a.py", arguments=["{{ var.value['other'] }}"])
with DAG("nightly", schedule="30 4 * * *", start_date=start, catchup=False):
    SparkTask("make", entry_point="jobs/a.py", outlets=[made])
with DAG("after", schedule=[made]):
    SparkTask("use", entry_point="jobs/a.py")
with DAG("never", schedule=None):
    SparkTask("a", entry_point="jobs/a.py")
"""


def lamplighter(*arguments: object) -> tuple[int, str, str]:
    """Run the command; return its exit code and what it wrote to stdout and stderr."""
    code, out, err = 0, io.StringIO(), io.StringIO()
    argv = ["lamplighter", "simulate", *map(str, arguments)]
    with patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module", name="bundle")
def make_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle with a DAG of each kind."""
    root = tmp_path_factory.mktemp("bundle")
    (root / "dags").mkdir()
    (root / "jobs").mkdir()
    (root / "dags" / "all.py").write_text(BUNDLE, encoding="utf-8")
    (root / "jobs" / "a.py").write_text("", encoding="utf-8")
    return root


@pytest.fixture(scope="module", name="day")
def simulate_a_day(
    bundle: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Path]:
    """Return the JSON of a day in which steps of one task take 90 minutes, and a folder."""
    folder = tmp_path_factory.mktemp("files")
    code, out, err = lamplighter(
        bundle,
        *("--at", "2026-03-01T00:00:00Z", "--days", 1, "--takes", "hourly.v1.load=1h30m"),
        *("--json", "--csv", folder / "runs.csv", "--plot", folder / "runs.png"),
    )
    assert (code, err) == (0, "")
    return json.loads(out), folder


def test_json_has_documented_keys_and_numbers(day: tuple[dict[str, Any], Path]) -> None:
    """Counts, peaks, lateness and debt are told by DAG; the debt is not among the runs."""
    told, _ = day
    hours = told.pop("hours")
    dags = {dag["dag_id"]: dag for dag in told.pop("dags")}
    assert told == {
        "start": "2026-03-01T00:00:00+00:00",
        "end": "2026-03-02T00:00:00+00:00",
        "catchup": False,
        "runs": 18,
        "steps": 34,
        "failed": 0,
        "owed": 1417,
        "most_runs_at_once": {"count": 2, "at": "2026-03-01T04:30:00+00:00"},
        "most_steps_at_once": {"count": 2, "at": "2026-03-01T01:00:00+00:00"},
    }
    assert dags["hourly"] == {
        "dag_id": "hourly",
        "runs": 16,
        "steps": 32,
        "failed": 0,
        "most_at_once": 1,
        "late_runs": 15,
        "latest_seconds": 27000.0,
        "behind_since": "2026-03-01T17:00:00+00:00",
        "owed": 1416,
    }
    assert [dags[dag_id]["runs"] for dag_id in ("nightly", "after", "never")] == [1, 1, 0]
    assert sum(hour["runs"] for hour in hours) == told["runs"]
    assert hours[2] == {
        "hour": "2026-03-01T04:00:00+00:00",
        "runs": 3,
        "dags": {"after": 1, "hourly": 1, "nightly": 1},
    }


def test_csv_has_a_row_for_each_run(day: tuple[dict[str, Any], Path]) -> None:
    """Rows are in the order of creation, with instants in UTC and the lateness in seconds."""
    told, folder = day
    with (folder / "runs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == told["runs"]
    assert [row["created_at"] for row in rows] == sorted(row["created_at"] for row in rows)
    assert rows[0] == {
        "dag_id": "hourly",
        "run_id": "scheduled__2026-03-01T00:00:00+00:00",
        "run_type": "scheduled",
        "state": "success",
        "logical_date": "2026-03-01T00:00:00+00:00",
        "data_interval_start": "2026-03-01T00:00:00+00:00",
        "data_interval_end": "2026-03-01T01:00:00+00:00",
        "run_after": "2026-03-01T01:00:00+00:00",
        "created_at": "2026-03-01T01:00:00+00:00",
        "ended_at": "2026-03-01T02:30:00+00:00",
        "late_seconds": "0.0",
        "steps": "2",
    }


def test_plot_is_a_picture(day: tuple[dict[str, Any], Path]) -> None:
    """The file is what its name says."""
    assert (day[1] / "runs.png").read_bytes().startswith(b"\x89PNG")


def test_people_read_counts_peaks_and_debt(bundle: Path) -> None:
    """With catchup the owed runs are among the others, and the output says so."""
    code, out, _ = lamplighter(bundle, "--at", "2026-01-01T04:00:00Z", "--days", 1, "--catchup")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert lines[0] == "From 2026-01-01 04:00 UTC to 2026-01-02 04:00 UTC"
    # Those of four hours before, and the day's own.
    assert "hourly 28 28.0 56 1 4" in lines
    assert "never 0 0.0 0 0" in lines
    assert "Most runs at once: 1, first at 2026-01-01 04:00 UTC" in lines
    assert "4 runs that were due at the start were created as slots became free." in lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "nowhere is not a bundle"),
        ((".", "--at", "soon"), "'soon' is not an instant"),
        ((".", "--takes", "hourly.load=1h"), "no task hourly.load (hourly.v1.load"),
        ((".", "--var", "root"), "write NAME=TEXT"),
        ((".", "--csv", "no/where.csv"), "cannot be written: No such file or directory"),
        ((".", "--csv", "."), "cannot be written: Is a directory"),
        ((".", "--plot", "runs.pdf"), "must end in .png or .svg"),
    ],
)
def test_wrong_use_is_one_line(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    """What cannot be done is refused before any day passes, and leaves no file."""
    monkeypatch.chdir(bundle)
    code, out, err = lamplighter(*arguments)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert message in err
    assert sorted(path.name for path in bundle.iterdir()) == ["dags", "jobs"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dots.in.dag.task=1x", "'1x' is not a duration"),
        ("dots.in.dag.task=", "'' is not a duration"),
        ("dots.in.dag.task", "write it like DAG.TASK=90m"),
        ("dots.in.dag.task=999999999999d", "too long"),
        ("dots.in.task=1h", "there is no task dots.in.task (dots.in.dag.task"),
    ],
)
def test_wrong_duration_is_refused(text: str, message: str) -> None:
    """The task must exist, dots in ids or not, and the duration must be one."""
    document = {"tasks": [{"task_id": "task"}]}
    dag = CheckedDag("dots.in.dag", "dags/a.py", 1, "@daily", "", "", document)
    assert durations(["dots.in.dag.task=2m"], [dag]) == {
        ("dots.in.dag", "task"): timedelta(minutes=2)
    }
    with pytest.raises(RefusedError) as refused:
        durations([text], [dag])
    assert message in str(refused.value)


@pytest.mark.parametrize("days", ["0", "367", "many"])
def test_wrong_days_are_a_usage_error(bundle: Path, days: str) -> None:
    """A number of days that makes no sense is refused by the parser."""
    assert lamplighter(bundle, "--days", days)[0] == 2


def test_missing_matplotlib_is_one_line_that_names_the_extra(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has not installed it learns how, before any day passes."""
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    code, _, err = lamplighter(bundle, "--plot", tmp_path / "a.png")
    assert code == 2
    assert err == "error: matplotlib is not installed: pip install 'lamplighter[plot]'\n"


def test_missing_emulator_is_one_line_that_names_the_extra(bundle: Path) -> None:
    """An installation for operators only has no moto, and says what to install."""
    with patch.dict(sys.modules, {"lamplighter_local.simulation.simulate": None}):
        code, _, err = lamplighter(bundle)
    assert code == 2
    assert err.endswith("is not installed: pip install 'lamplighter[local]'\n")


def test_bundle_with_errors_is_not_simulated(write_bundle: WriteBundle) -> None:
    """The errors are shown as `check` shows them; so is a bundle without a DAG."""
    code, _, err = lamplighter(write_bundle({"dags/a.py": "1 / 0"}))
    assert code == 1
    assert "dags/a.py:1: ZeroDivisionError: division by zero" in err
    code, _, err = lamplighter(write_bundle({"dags/a.py": ""}))
    assert code == 1
    assert "defines no DAG" in err
