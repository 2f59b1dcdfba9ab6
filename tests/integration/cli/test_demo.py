"""`lamplighter demo`, on a Spark that only pretends."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from pendulum import datetime
from rich.console import Console
from typer.testing import CliRunner, Result

from lamplighter.errors import LamplighterError
from lamplighter_cli.app import app
from lamplighter_cli.demo import _Screen
from lamplighter_local import demo
from lamplighter_local.demo import Done, Seen, best_sellers
from lamplighter_operations.views import Run
from tests.integration.cli.pretended_spark import pretend


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no orders be generated, and temporary folders be this test's."""
    monkeypatch.setattr(demo, "generate", lambda *_, **__: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def lamplighter(*arguments: object) -> Result:
    """Run the command `demo`."""
    return CliRunner().invoke(app, ["demo", *map(str, arguments)])


def refusal(*arguments: object) -> str:
    """Return the line with which the command is refused."""
    error = lamplighter(*arguments).exception
    assert isinstance(error, LamplighterError)
    return str(error)


def test_demo_of_a_day_runs_the_whole_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every DAG but that of workdays runs; lines tell of it, and a file has each run and step."""
    pretend(monkeypatch, lambda _: True)
    result = lamplighter("--days", 1, "--folder", tmp_path / "out")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert sum(line.startswith("Sun 2026-01-04") for line in lines) == 6
    assert any(line.startswith("Mon 2026-01-05 00:00 UTC  100%  30 runs") for line in lines)
    assert lines[-1].startswith("all runs succeeded, in ")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    runs = [(run["dag_id"], run["state"]) for run in report["runs"]]
    assert runs.count(("orders_hourly", "success")) == 24
    assert {dag for dag, _ in runs} == {
        "fx_twice_a_day",
        "orders_hourly",
        "revenue_daily",
        "weekly_report",
    }
    assert report["asset_events"] == {"fx": 2, "orders": 24, "revenue": 2, "weekly_report": 2}
    steps = report["runs"][-1]["steps"]
    assert [(step["task_id"], step["state"]) for step in steps] == [("build", "success")]
    assert not (tmp_path / "out" / "jobs").exists()


def failing_demo(folder: Path, **_: Any) -> Done:
    """Leave what a demo leaves, with a run that failed."""
    (folder / "jobs").mkdir()
    return Done((FAILED,), {}, {}, folder / "lake", folder / "report.json")


FAILED = Run(
    dag_id="orders_hourly",
    run_id="scheduled__2026-01-04T00:00:00+00:00",
    run_type="scheduled",
    triggered_by="timetable",
    dag_version="000001",
    state="failed",
    logical_date=datetime(2026, 1, 4),
    data_interval_start=datetime(2026, 1, 4),
    data_interval_end=datetime(2026, 1, 4, 1),
    run_after=datetime(2026, 1, 4, 1),
    created_at=datetime(2026, 1, 4, 1),
    queued_at=datetime(2026, 1, 4, 1),
    ended_at=datetime(2026, 1, 4, 2),
    conf={},
    events=(),
    steps=(),
)


def test_demo_with_a_failed_run_exits_one_and_keeps_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever must find out why a run failed finds the files of its jobs."""
    monkeypatch.setattr(demo, "run_demo", failing_demo)
    monkeypatch.setattr(demo, "find_java_home", lambda: Path("/java"))
    result = lamplighter("--folder", tmp_path / "out")
    assert result.exit_code == 1
    assert "some runs failed" in result.stdout
    assert (tmp_path / "out" / "jobs").is_dir()


def test_demo_ended_by_ctrl_c_is_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of a job, Ctrl-C ends all and the temporary folder goes; exit code 130."""

    def lose_patience(_: Path) -> bool:
        raise KeyboardInterrupt

    pretend(monkeypatch, lose_patience)
    result = lamplighter()
    assert result.exit_code == 130
    assert result.stderr == "stopped: all processes of this command have ended\n"
    assert list(tmp_path.iterdir()) == []


def test_demo_without_java_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The line names what to install, and no folder is made."""
    monkeypatch.setattr(demo, "find_java_home", lambda: None)
    assert "make toolchain" in refusal("--folder", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("folder", "said"), [("full", "is not empty"), ("full/file/out", "Not a directory")]
)
def test_folder_that_cannot_be_used_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, said: str
) -> None:
    """A folder with something in it is left alone, and one that cannot be made is named."""
    monkeypatch.setattr(demo, "find_java_home", lambda: Path("/java"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    line = refusal("--folder", tmp_path / folder)
    assert said in line
    assert str(tmp_path / folder) in line


def test_generator_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the program said last is passed on."""
    monkeypatch.undo()
    with pytest.raises(demo.GenerateError, match=r"could not be generated: .*No module named"):
        demo.generate(tmp_path, tmp_path / "lake", orders=1, days=1)


@pytest.mark.parametrize("width", [60, 160])
def test_screen_fits_into_a_terminal(width: int) -> None:
    """Runs, the running step, events, simulated time and progress fit into narrow and wide ones."""
    screen = _Screen()
    screen.update(
        Seen(
            now=datetime(2026, 1, 4, 6),
            part=0.25,
            runs={"orders_hourly": {"running": 1, "success": 5}, "revenue_daily": {}},
            events={"fx": 0, "orders": 5},
            steps_over=11,
            running="orders_hourly.clean",
        )
    )
    console = Console(width=width, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(screen)
    lines = captured.get().splitlines()
    assert lines[0].split() == ["DAG", "queued", "running", "success", "failed"]
    assert lines[1].split() == ["orders_hourly", "-", "1", "5", "-"]
    assert "step          orders_hourly.clean" in (line.rstrip() for line in lines)
    assert "asset events  orders 5" in (line.rstrip() for line in lines)
    assert "Sun 2026-01-04 06:00 UTC" in lines[-1]
    assert "25%" in lines[-1]


def test_best_sellers_are_those_of_the_newest_week(tmp_path: Path) -> None:
    """Of several weekly reports the newest is shown, as far as wanted; without one, none."""
    assert best_sellers(tmp_path, 2) == ("", [])
    for week in ("2025-12-29", "2026-01-05"):
        folder = tmp_path / "report_csv" / f"week={week}"
        folder.mkdir(parents=True)
        rows = "".join(f"CH,{rank},{week}\n" for rank in (1, 2, 3))
        (folder / "part-0.csv").write_text("country,rank,product_id\n" + rows)
    week, rows_found = best_sellers(tmp_path, 2)
    assert (week, [row["rank"] for row in rows_found]) == ("2026-01-05", ["1", "2"])
    assert rows_found[0]["product_id"] == "2026-01-05"
