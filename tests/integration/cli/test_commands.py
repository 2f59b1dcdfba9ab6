"""The command line as a user types it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lamplighter import __version__
from lamplighter_cli.app import app

WriteBundle = Callable[[dict[str, str]], Path]
EXAMPLES = str(Path(__file__).parents[3] / "examples")


def lamplighter(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command in a process of its own, as a shell would."""
    return subprocess.run(
        [sys.executable, "-c", "from lamplighter_cli.app import main; main()", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_check_of_the_examples_finds_no_problem() -> None:
    """The shipped examples pass, and the result is plain text where nobody looks."""
    result = lamplighter("check", EXAMPLES)
    assert result.returncode == 0
    assert result.stdout.endswith("1 file, 5 DAGs, 0 warnings, 0 errors\n")
    assert "\x1b[" not in result.stdout + result.stderr


@pytest.mark.parametrize("bundle", ["watchers", "watchers_queue"])
def test_check_of_the_examples_of_watchers_finds_no_problem(bundle: str) -> None:
    """Their triggers are modules of the bundle, and nothing is connected to check them."""
    result = CliRunner().invoke(app, ["check", str(Path(EXAMPLES) / bundle)])
    assert result.exit_code == 0
    assert result.stdout.endswith("DAGs, 0 warnings, 0 errors\n")


def test_check_with_errors_exits_one_as_json(write_bundle: WriteBundle) -> None:
    """Errors are exit code 1, and JSON has exactly the documented shape."""
    root = write_bundle(
        {"dags/a.py": "\n1 / 0\n", "dags/b.py": "from lamplighter import DAG\nDAG('b')"}
    )
    result = CliRunner().invoke(app, ["check", str(root), "--json"])
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    assert report["errors"] == [
        {"file": "dags/a.py", "line": 2, "message": "ZeroDivisionError: division by zero"}
    ]
    assert [dag["dag_id"] for dag in report["dags"]] == ["b"]
    assert report["warnings"] == []


def test_check_for_people_shows_place_and_frames(write_bundle: WriteBundle) -> None:
    """The line that failed is named with the author's frames below it."""
    root = write_bundle({"dags/a.py": "def f():\n    1 / 0\nf()\n"})
    lines = CliRunner().invoke(app, ["check", str(root)]).stdout.splitlines()
    assert "error: dags/a.py:2: ZeroDivisionError: division by zero" in lines
    assert "    dags/a.py:3 in <module>" in lines


def test_check_for_people_shows_output_of_bad_files(write_bundle: WriteBundle) -> None:
    """Below an error stands what the file printed last; files without errors stay silent."""
    bad = "for n in range(9): print(n)\n1 / 0\n"
    root = write_bundle({"dags/a.py": bad, "dags/b.py": "print('quiet')"})
    lines = CliRunner().invoke(app, ["check", str(root)]).stdout.splitlines()
    assert [line for line in lines if "|" in line] == [f"    | {n}" for n in range(4, 9)]


def test_check_of_no_bundle_is_one_line(tmp_path: Path) -> None:
    """A wrong path is one line on stderr and exit code 1, without a traceback."""
    result = lamplighter("check", str(tmp_path))
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1


def test_next_as_json_has_the_documented_fields() -> None:
    """The coming runs of an hourly DAG are listed with ids, dates and instants in UTC."""
    arguments = ["next", "orders_hourly", "--dags", EXAMPLES, "-n", "2", "--json"]
    result = CliRunner().invoke(app, [*arguments, "--at", "2026-03-29T00:30:00Z"])
    assert json.loads(result.stdout) == [
        {
            "run_id": "scheduled__2026-03-29T00:00:00+00:00",
            "logical_date": "2026-03-29T00:00:00+00:00",
            "data_interval_start": "2026-03-29T00:00:00+00:00",
            "data_interval_end": "2026-03-29T01:00:00+00:00",
            "run_after": "2026-03-29T01:00:00+00:00",
        },
        {
            "run_id": "scheduled__2026-03-29T01:00:00+00:00",
            "logical_date": "2026-03-29T01:00:00+00:00",
            "data_interval_start": "2026-03-29T01:00:00+00:00",
            "data_interval_end": "2026-03-29T02:00:00+00:00",
            "run_after": "2026-03-29T02:00:00+00:00",
        },
    ]


def test_next_marks_the_day_clocks_change() -> None:
    """The interval across the change of the clocks is marked, in both zones' times."""
    arguments = ["next", "fx_twice_a_day", "--dags", EXAMPLES, "-n", "2"]
    text = CliRunner().invoke(app, [*arguments, "--at", "2026-03-28T20:00:00Z"]).stdout
    assert text.count("clocks go forward 1 h") == 1
    assert "Sat 2026-03-28 15:30 → Sun 03-29 04:00" in text
    assert "Sat 2026-03-28 16:30 → Sun 03-29 06:00" in text


NIGHTLY = """
import pendulum
from lamplighter import DAG
DAG("hourly", schedule="0 * * * *", start_date=pendulum.datetime(2026, 1, 1, tz="Europe/Zurich"))
"""


def test_next_in_the_repeated_hour_tells_both_ends(write_bundle: WriteBundle) -> None:
    """The hour from 02:00 to 02:00 is an interval; each end has its offset."""
    root = write_bundle({"dags/hourly.py": NIGHTLY})
    arguments = ["next", "hourly", "--dags", str(root), "-n", "3", "--at", "2026-10-25T02:00"]
    text = CliRunner().invoke(app, arguments).stdout
    assert "from 2026-10-25 01:00 UTC (02:00+01:00 Europe/Zurich)" in text
    intervals = ["02:00+02:00 → 02:00+01:00", "02:00+01:00 → 03:00", "03:00 → 04:00"]
    assert [each in text for each in intervals] == [True] * 3
    assert "2026-10-25 02:00:00+01:00" in text
    assert text.count("clocks go back 1 h") == 1


def test_next_from_a_date_begins_in_the_zone_of_the_dag(write_bundle: WriteBundle) -> None:
    """The first interval of a day is the DAG's, and the answer names the zone."""
    root = write_bundle({"dags/hourly.py": NIGHTLY})
    arguments = ["next", "hourly", "--dags", str(root), "-n", "1", "--at", "2026-07-01"]
    text = CliRunner().invoke(app, arguments).stdout
    assert "from 2026-06-30 22:00 UTC (2026-07-01 00:00 Europe/Zurich)" in text
    assert "scheduled__2026-06-30T21:00:00+00:00" in text


def test_next_marks_the_gap_of_a_weekend() -> None:
    """Days that no interval covers are marked before the run that follows them."""
    arguments = ["next", "after_workday", "--dags", EXAMPLES, "-n", "3"]
    text = CliRunner().invoke(app, [*arguments, "--at", "2026-03-27T00:00:00Z"]).stdout
    assert text.count("gap of 2 days before") == 1


def test_next_of_an_asset_schedule_names_its_assets() -> None:
    """A DAG on assets has no times; it says what it waits for, and JSON is an empty list."""
    text = CliRunner().invoke(app, ["next", "revenue_daily", "--dags", EXAMPLES]).stdout
    assert "runs when its assets are updated: (orders and fx)" in text
    as_json = (
        CliRunner().invoke(app, ["next", "revenue_daily", "--dags", EXAMPLES, "--json"]).stdout
    )
    assert json.loads(as_json) == []


def test_next_of_unknown_dag_names_the_others() -> None:
    """A wrong id is one line that lists the ids there are."""
    result = lamplighter("next", "nothing", "--dags", EXAMPLES)
    assert result.returncode == 1
    assert result.stderr.startswith("error: there is no DAG 'nothing' in this bundle (there are:")
    assert "orders_hourly" in result.stderr


def test_next_from_a_bad_instant_says_how_to_write_it() -> None:
    """A moment that cannot be read is answered with an example."""
    result = lamplighter("next", "orders_hourly", "--dags", EXAMPLES, "--at", "tomorrow")
    assert (result.returncode, "2026-01-31T06:00:00Z" in result.stderr) == (1, True)


def test_version_option_prints_the_version() -> None:
    """The version is printed alone."""
    assert CliRunner().invoke(app, ["--version"]).stdout.strip() == __version__
