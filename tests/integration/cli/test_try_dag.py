"""`lamplighter test`: one run of one DAG, tried out here."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from lamplighter.errors import LamplighterError
from lamplighter_cli.app import app
from lamplighter_local import try_run
from tests.integration.cli.pretended_spark import pretend

WriteBundle = Callable[[dict[str, str]], Path]
EXAMPLES = Path(__file__).parents[3] / "examples"
# Two DAGs that would have runs all the time, and one task that may be repeated much later.
BUSY = """
from datetime import timedelta
import pendulum
from lamplighter import DAG, SparkTask

start = pendulum.datetime(2026, 1, 1)
with DAG("busy", schedule="* * * * *", start_date=start, params={"size": 1}):
    first = SparkTask(
        "first",
        entry_point="jobs/first.py",
        arguments=["{{ data_interval_end }}", "{{ var.value.root }}"],
        retries=1,
        retry_delay=timedelta(hours=3),
    )
    first >> SparkTask("after", job="jobs.second:run")
with DAG("other", schedule="@continuous", start_date=start, max_active_runs=1):
    SparkTask("other", entry_point="jobs/first.py")
"""


@pytest.fixture
def busy(write_bundle: WriteBundle) -> Path:
    """Return a bundle in which much would happen by itself."""
    programs = {"jobs/first.py": "", "jobs/second.py": "def run(spark, context): ..."}
    return write_bundle({"dags/busy.py": BUSY, **programs})


def lamplighter(*arguments: object) -> Result:
    """Run the command `test`."""
    return CliRunner().invoke(app, ["test", *map(str, arguments)])


def refusal(*arguments: object) -> str:
    """Return the line with which the command is refused."""
    error = lamplighter(*arguments).exception
    assert isinstance(error, LamplighterError)
    return str(error)


def test_run_not_executed_shows_what_would_start(busy: Path) -> None:
    """Steps are shown with their programs, their rendered arguments and parameters."""
    options = ("--at", "2026-02-01T05:00:00Z", "--var", "root=/my lake", "--conf", '{"size": 2}')
    result = lamplighter("busy", "--dags", busy, *options)
    assert result.exit_code == 0
    assert "busy/manual__2026-02-01T05:00:00+00:00" in result.stdout
    assert "no step was executed" in result.stdout
    arguments = "2026-02-01T05:01:00+00:00 '/my lake'"
    assert f'  first: jobs/first.py {arguments}  params {{"size": 2}}' in result.stdout


def test_run_on_spark_is_the_only_one_and_is_retried(
    busy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed step is repeated after its delay, and no schedule starts anything meanwhile."""
    contexts: list[dict[str, Any]] = []

    def fail_at_first(context: Path) -> bool:
        contexts.append(json.loads(context.read_text()))
        return len(contexts) > 1

    pretend(monkeypatch, fail_at_first)
    options = ("--at", "2026-02-01T05:00:00Z", "--var", "root=/lake", "--spark", "--json")
    result = lamplighter("busy", "--dags", busy, *options)
    assert result.exit_code == 0
    tried = json.loads(result.stdout)
    assert [(each["task_id"], each["state"], each["tries"]) for each in tried["steps"]] == [
        ("first", "success", 2),
        ("after", "success", 1),
    ]
    assert [(each["task_id"], each["try_number"]) for each in contexts] == [
        ("first", 1),
        ("first", 2),
        ("after", 1),
    ]
    logs = [attempt["log"] for attempt in tried["steps"][0]["attempts"]]
    assert logs == ["pretended local-000001\n", "pretended local-000002\n"]
    assert tried["is_executed"] is True
    assert tried["data_interval_end"] == "2026-02-01T05:01:00+00:00"


def test_run_that_fails_exits_one_with_error_and_log(
    busy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error stands beside the step, the logs below, and the exit code is 1."""
    pretend(monkeypatch, lambda _: False)
    options = ("--at", "2026-02-01T05:00:00Z", "--var", "root=/lake", "--spark")
    result = lamplighter("busy", "--dags", busy, *options)
    assert result.exit_code == 1
    assert "ValueError: no orders" in result.stdout
    assert "upstream_failed" in result.stdout
    assert result.stdout.count("==> job ") == 2
    assert "pretended local-000002\n" in result.stdout


def test_run_of_a_custom_timetable_has_its_interval() -> None:
    """The data interval is the one that the author's timetable has for the date."""
    options = ("--dags", EXAMPLES, "--var", "data_root=/lake", "--json")
    result = lamplighter("fx_twice_a_day", "--at", "2026-01-05T05:00:00Z", *options)
    tried = json.loads(result.stdout)
    assert tried["data_interval_start"] == "2026-01-05T05:00:00+00:00"
    assert tried["data_interval_end"] == "2026-01-05T15:30:00+00:00"
    assert tried["steps"][0]["job"] == "jobs.fx:load"


def test_date_that_a_custom_timetable_lacks_is_refused() -> None:
    """A Saturday is no workday, and the command that shows the days is named."""
    line = refusal("after_workday", "--dags", EXAMPLES, "--at", "2026-01-10T05:00:00Z")
    assert "has no run for 2026-01-10T05:00:00+00:00" in line
    assert "lamplighter next" in line


def test_dag_that_is_unknown_is_refused_with_the_others(busy: Path) -> None:
    """The ids that there are stand in the line."""
    line = refusal("nothing", "--dags", busy, "--at", "2026-02-01")
    assert "there is no DAG 'nothing' in this bundle (there are: busy, other)" in line


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--at", "tomorrow"), "2026-01-31T06:00:00Z"),
        (("--conf", "{"), "is not JSON"),
        (("--conf", "[]"), "write an object"),
        (("--var", "root"), "write NAME=TEXT"),
        (("--dags", "/nowhere"), "/nowhere"),
    ],
)
def test_option_that_cannot_be_read_is_refused(options: tuple[str, str], said: str) -> None:
    """Each mistake is one line that says what to write."""
    line = refusal("busy", *options)
    assert said in line
    assert "\n" not in line


def test_spark_without_java_is_refused(busy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names what to install, before anything is started."""
    monkeypatch.setattr(try_run, "find_java_home", lambda: None)
    assert "make toolchain" in refusal("busy", "--dags", busy, "--spark")
