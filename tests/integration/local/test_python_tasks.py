"""Python tasks in a local deployment: in real processes, and without Java."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter import DAG, PythonTask, SparkTask
from lamplighter.errors import RefusedError
from lamplighter.executors.aws_lambda import LambdaFunction
from lamplighter_local import LocalDeployment, try_run
from lamplighter_local.dev import background_spark, session
from lamplighter_local.dev.session import DevSession, dev_session
from lamplighter_local.spark import process
from tests.patience import LONG_SECONDS

EXAMPLES = Path(__file__).parents[3] / "examples"
WriteBundle = Callable[[dict[str, str]], Path]
DAG_FILE = """
from datetime import timedelta
from lamplighter import DAG, Asset, PythonTask

rates = Asset("rates")
with DAG("fx", schedule=None):
    load = PythonTask(
        "load",
        job="jobs.fx:load",
        arguments=["{{ run_id }}"],
        outlets=[rates],
        retries=1,
        retry_delay=timedelta(minutes=1),
    )
    load >> PythonTask("check", job="jobs.fx:check")
with DAG("consumer", schedule=rates):
    PythonTask("read", job="jobs.fx:read")
"""
SPARK_FILE = """
from lamplighter import DAG, SparkTask

with DAG("spark", schedule=None):
    SparkTask("count", job="jobs.fx:load")
"""
PROGRAM = """
from lamplighter_job import SkipStep

def load(context):
    print("loading", *context.arguments)
    if context.try_number == 1:
        raise ValueError("no rates yet")
    context.outlet("rates").extra["count"] = 3

def check(context):
    raise SkipStep("nothing to check")

def read(context):
    (event,) = context.triggering_asset_events["rates"]
    assert event.extra == {"count": 3}
"""


@pytest.fixture
def bundle(write_bundle: WriteBundle) -> Path:
    """Return a bundle of Python tasks only."""
    return write_bundle({"dags/fx.py": DAG_FILE, "jobs/fx.py": PROGRAM})


@pytest.fixture(autouse=True)
def no_java() -> Iterator[None]:
    """Let this machine have no Java, which Spark would need to start."""
    with (
        patch.object(process, "find_java_home", lambda: None),
        patch.object(try_run, "find_java_home", lambda: None),
        patch.object(session, "find_java_home", lambda: None),
        patch.object(background_spark, "find_java_home", lambda: None),
    ):
        yield


def test_python_tasks_run_without_java(bundle: Path) -> None:
    """They fail, are tried again, skip, and tell of their outlets, in processes of their own."""
    with LocalDeployment(bundle, at="2026-01-05T00:00:00Z", executor="spark") as lamp:
        lamp.trigger("fx")
        lamp.advance(minutes=5)
        (run,) = lamp.runs("fx")
        (consumed,) = lamp.runs("consumer")
        states = {step.task_id: (step.state, step.try_number) for step in run.steps}
        assert states == {"load": ("success", 2), "check": ("skipped", 1)}
        assert (run.state, consumed.state, run.cost) == ("success", "success", 0)
        (step,) = (step for step in run.steps if step.task_id == "load")
        assert "ValueError: no rates yet" in step.tries[0]["error"]
        assert step.job_run_id is not None
        log = LambdaFunction().read_log(step.job_run_id, "stdout")
        assert log is not None
        assert list(log) == [f"loading {run.run_id}\n"]
        lamp.check_invariants()


def test_dag_is_tried_out_without_java(bundle: Path) -> None:
    """`lamplighter test --spark` runs what needs no Spark."""
    tried = try_run.try_run(bundle, "fx", at=datetime(2026, 1, 5), on_spark=True, variables={})
    assert tried.run.state == "success"
    assert [attempt.task_id for attempt in tried.attempts] == ["load", "load", "check"]
    assert f"loading {tried.run.run_id}" in tried.attempts[0].log
    assert tried.contexts["load"]["arguments"] == [tried.run.run_id]


def states_in(dev: DevSession, dag_id: str, *awaited: str) -> dict[str, str]:
    """Return the states of a DAG's last run, once it is in one of these."""
    until = time.monotonic() + LONG_SECONDS
    while time.monotonic() < until:
        dev.step()
        with dev._lamp.in_own_runtime():
            (run,) = dev._lamp.runs(dag_id)[-1:]
        if run.state in awaited:
            return {step.task_id: step.error or step.state for step in run.steps}
        time.sleep(0.05)
    raise AssertionError(f"{dag_id} is never {awaited}")


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_dev_runs_python_tasks_without_java(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task for Spark that is saved later fails with the reason, and the session goes on."""
    monkeypatch.setenv("LAMPLIGHTER_STATE_DIR", str(tmp_path / "state"))
    (bundle / "dags/fx.py").write_text(DAG_FILE.replace("minutes=1", "seconds=1"))
    with dev_session(bundle) as dev:
        dev._lamp.trigger("fx")
        found = states_in(dev, "fx", "success", "failed")
        assert found == {"load": "success", "check": "nothing to check"}
        (bundle / "dags/spark.py").write_text(SPARK_FILE)
        dev._files.note()
        dev.step()
        dev._lamp.trigger("spark")
        (why,) = states_in(dev, "spark", "success", "failed").values()
        assert "Spark needs Java 17 to 22" in why
        dev._lamp.trigger("fx")
        assert states_in(dev, "fx", "success", "failed") == found


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_smallest_example_has_a_green_run_without_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its task for Spark fails with the reason, which the session tells first; the other runs."""
    monkeypatch.setenv("LAMPLIGHTER_STATE_DIR", str(tmp_path / "state"))
    with dev_session(EXAMPLES / "hello") as dev:
        told = {(each.about, each.state): each.detail for each in dev.step()}
        dev._lamp.trigger("greet")
        assert states_in(dev, "greet", "success", "failed") == {"greet": "success"}
        dev._lamp.trigger("count")
        (why,) = states_in(dev, "count", "success", "failed").values()
    assert "steps on Spark fail, others run: Spark needs Java" in told["Spark", "missing"]
    assert "Spark needs Java 17 to 22" in why


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_session_that_ends_takes_its_python_step_along(
    write_bundle: WriteBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of a step that still runs is ended before the session is over."""
    monkeypatch.setenv("LAMPLIGHTER_STATE_DIR", str(tmp_path / "state"))
    mark = tmp_path / "pid"
    program = (
        "import os, time\ndef load(context):\n"
        f"    with open({str(mark)!r}, 'w') as file:\n        file.write(str(os.getpid()))\n"
        "    time.sleep(3_000)\n"
        "def check(context): pass\n"
        "def read(context): pass\n"
    )
    bundle = write_bundle({"dags/fx.py": DAG_FILE, "jobs/fx.py": program})
    with dev_session(bundle) as dev:
        dev._lamp.trigger("fx")
        until = time.monotonic() + LONG_SECONDS
        while not (mark.exists() and mark.read_text()) and time.monotonic() < until:
            dev.step()
            time.sleep(0.05)
        pid = int(mark.read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_dev_refuses_a_bundle_that_nothing_of_runs_without_java(write_bundle: WriteBundle) -> None:
    """One line says what to install, and how to look at the schedule without it."""
    bundle = write_bundle({"dags/spark.py": SPARK_FILE, "jobs/fx.py": PROGRAM})
    with pytest.raises(RefusedError, match=r"install JDK 17 .* or use --instant"):
        dev_session(bundle).__enter__()


def test_outcomes_are_set_by_kind() -> None:
    """A Python task that only lasts ends as one says, as one for Spark does."""
    with DAG("both", schedule=None) as dag:
        SparkTask("a", job="jobs.x:y")
        PythonTask("b", job="jobs.x:y")
    with LocalDeployment([dag], at="2026-01-05T00:00:00Z") as lamp:
        lamp.skip_next("both", "a", reason="none")
        lamp.fail_next("both", "b", error="no rates")
        lamp.trigger("both")
        lamp.advance(minutes=5)
        (run,) = lamp.runs("both")
    assert {step.task_id: (step.state, step.error) for step in run.steps} == {
        "a": ("skipped", "none"),
        "b": ("failed", "no rates"),
    }
