"""`lamplighter test`: one run of one DAG, tried out here."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import datetime
from typer.testing import CliRunner, Result

from lamplighter.bundles import parsing
from lamplighter.bundles.parsing import ask_worker, start_worker
from lamplighter.errors import LamplighterError
from lamplighter.zones import parse_instant
from lamplighter_cli.app import app
from lamplighter_local import try_run
from lamplighter_local.deployment import LocalDeployment
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
EXPORT = """
from lamplighter import DAG, StepFunctionsTask

with DAG("export", schedule=None):
    StepFunctionsTask("first", state_machine="crawl", input={"day": "{{ ds }}"})
"""


@pytest.fixture
def busy(write_bundle: WriteBundle) -> Path:
    """Return a bundle in which much would happen by itself."""
    programs = {"jobs/first.py": "", "jobs/second.py": "def run(spark, context): ..."}
    return write_bundle({"dags/busy.py": BUSY, **programs})


@pytest.fixture(scope="module", autouse=True)
def warm_worker() -> Iterator[None]:
    """Let one process import the DAG files of all tests here: each takes long to start."""
    worker = start_worker()
    with patch.object(
        parsing,
        "ask_workers",
        lambda requests, **_: (ask_worker(worker, request) for request in requests),
    ):
        yield
    worker.communicate()


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
    arguments = "2026-02-01T05:00:00+00:00 '/my lake'"
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
    assert tried["data_interval_end"] == "2026-02-01T05:00:00+00:00"


def test_state_machine_is_shown_and_not_executed(
    write_bundle: WriteBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Spark its input is shown; with it, one is told what was taken for a success."""
    pretend(monkeypatch, lambda _: True)
    bundle = write_bundle({"dags/export.py": EXPORT})
    options = ("export", "--dags", bundle, "--at", "2026-02-01T05:00:00Z")
    result = lamplighter(*options)
    assert result.exit_code == 0
    assert '  first: state machine crawl with {"day": "2026-02-01"}' in result.stdout
    result = lamplighter(*options, "--spark")
    assert result.exit_code == 0
    assert "not executed, and taken for a success: first" in result.stdout


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


def test_run_of_a_custom_timetable_tells_its_dates_in_the_zone_of_the_dag() -> None:
    """A date without an offset is the DAG's, and its timetable infers the data interval."""
    options = ("--dags", EXAMPLES, "--var", "data_root=/lake")
    result = lamplighter("fx_twice_a_day", "--at", "2026-01-05T06:00", *options)
    said = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert said[2:4] == [
        "logical date 2026-01-05 05:00 UTC (06:00 Europe/Zurich)",
        (
            "data interval 2026-01-04 15:30 UTC (16:30 Europe/Zurich) to 2026-01-05 05:00 UTC"
            " (06:00 Europe/Zurich)"
        ),
    ]
    assert "  load: jobs.fx:load" in result.stdout


KINDS = """
import pendulum
from lamplighter import DAG
from lamplighter.timetables.base import DataInterval, Timetable
from lamplighter.timetables.events import EventsTimetable

class TwoDays(Timetable):
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        return None
    def infer_manual_data_interval(self, *, run_after):
        return DataInterval(run_after.subtract(days=2), run_after)

event = pendulum.datetime(2026, 1, 20)
start = pendulum.datetime(2026, 1, 1)
DAG("cron", schedule="30 6 * * *", start_date=start)
DAG("events", schedule=EventsTimetable([event], restrict_to_events=True), start_date=start)
DAG("custom", schedule=TwoDays(), start_date=start)
"""


def test_run_has_the_interval_of_a_real_manual_run(write_bundle: WriteBundle) -> None:
    """Whatever the timetable, `test` and `runs trigger` of one date agree."""
    root, at = write_bundle({"dags/kinds.py": KINDS}), "2026-02-01T05:10:00Z"
    with LocalDeployment(root, at=at, catch_up=False) as lamp:
        triggered = {dag.dag_id: lamp.trigger(dag.dag_id, logical_date=at) for dag in lamp.dags()}
    real = {
        dag_id: (run.data_interval_start, run.data_interval_end)
        for dag_id, run in triggered.items()
    }
    assert real["custom"] == (datetime(2026, 1, 30, 5, 10), datetime(2026, 2, 1, 5, 10))
    tried = {
        dag_id: json.loads(lamplighter(dag_id, "--dags", root, "--at", at, "--json").stdout)
        for dag_id in real
    }
    assert len(tried) == 3
    assert real == {
        dag_id: tuple(parse_instant(run[f"data_interval_{end}"]) for end in ("start", "end"))
        for dag_id, run in tried.items()
    }


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
