"""Real programs of all kinds that take too long, are cancelled, or wait for their past."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lamplighter_local.dev.session import DevSession, dev_session
from lamplighter_operations.runs import cancel_run, retry_run
from lamplighter_operations.views import Run
from tests.patience import LONG_SECONDS
from tests.spark.processes import require_end
from tests.spark.test_deaths import wait_for
from tests.tools.checked_deployment import LocalDeployment

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("java")]

TASKS = ("load", "check", "export")
_DAGS = """
from datetime import timedelta
import pendulum
from lamplighter import DAG, PythonTask, SparkTask, StepFunctionsTask

def of_all_kinds(dag_id, schedule=None, **options):
    start = pendulum.datetime(2026, 1, 3)
    with DAG(dag_id, schedule=schedule, start_date=start, default_args=options) as dag:
        SparkTask("load", job="jobs.program:load")
        PythonTask("check", job="jobs.program:check")
        StepFunctionsTask("export", state_machine="export")
    return dag

late = of_all_kinds("late", execution_timeout=timedelta(seconds=5))
held = of_all_kinds("held")
past = of_all_kinds("past", "@daily", depends_on_past=True)
"""
_JOBS = """
import os, time
from pathlib import Path

def act(context):
    if context.dag_id == "past" and context.try_number == 1 and "01-03T" in context.run_id:
        raise ValueError("not yet")
    if context.dag_id != "past":
        mark = Path(PIDS, context.task_id)
        mark.with_suffix(".new").write_text(f"[{os.getpid()}]")
        mark.with_suffix(".new").rename(mark)
        time.sleep(3_000)

def load(spark, context):
    act(context)

def check(context):
    act(context)
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Return a bundle whose programs write down their processes beside it, and hang."""
    root, pids = tmp_path / "bundle", tmp_path / "pids"
    pids.mkdir()
    jobs = _JOBS.replace("PIDS", repr(str(pids)))
    for name, text in (("dags/lives.py", _DAGS), ("jobs/program.py", jobs)):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)
    return root


def states(run: Run) -> dict[str, str]:
    """Return the states of a run's steps."""
    return {step.task_id: step.state for step in run.steps}


def test_programs_that_take_too_long_are_ended(bundle: Path) -> None:
    """Each at the limit of its task, however short it is."""
    with LocalDeployment(bundle, at="2026-01-05T00:00:05Z", executor="spark") as lamp:
        lamp.takes("late", "export", hours=1)
        lamp.trigger("late")
        lamp.advance(minutes=5)
        (run,) = lamp.runs("late")
        lamp.check_invariants()
    assert (run.state, states(run)) == ("failed", dict.fromkeys(TASKS, "failed"))
    assert "execution_timeout" in str(run.step("check").error)
    assert "execution_timeout" in str(run.step("export").error)


def test_programs_wait_for_those_of_the_run_before(bundle: Path) -> None:
    """With `depends_on_past`, no program of the second day begins before the first is mended."""

    def export(given: Any) -> dict[str, str]:
        about = given["lamplighter"]
        if about["try_number"] == 1 and "01-03T" in about["run_id"]:
            raise ValueError("not yet")
        return {}

    with LocalDeployment(bundle, at="2026-01-05T00:00:05Z", executor="spark") as lamp:
        lamp.state_machine("export", export)
        lamp.advance(minutes=5)
        first, second = lamp.runs("past")
        assert (first.state, states(first)) == ("failed", dict.fromkeys(TASKS, "failed"))
        assert [step for step in second.steps if step.submission] == []
        with lamp.in_own_runtime():
            retry_run("past", first.run_key)
        lamp.advance(hours=1)
        assert {run.state for run in lamp.runs("past")} == {"success"}
        lamp.check_invariants()


def go_on(dev: DevSession, is_done: Callable[[Run], bool]) -> Run:
    """Let a session go on until something is true of its run; return that."""
    until = time.monotonic() + LONG_SECONDS
    while time.monotonic() < until:
        dev.step()
        with dev._lamp.in_own_runtime():
            (run,) = dev._lamp.runs("held")
        if is_done(run):
            return run
        time.sleep(0.1)
    raise AssertionError(f"it is {run.state}, its steps are {states(run)}")


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_programs_that_run_are_cancelled(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a session, where time goes on meanwhile, and none of their processes is left."""
    monkeypatch.setenv("LAMPLIGHTER_STATE_DIR", str(tmp_path / "state"))
    marks = [tmp_path / "pids" / task for task in ("load", "check")]
    with dev_session(bundle) as dev:
        dev._lamp.takes("held", "export", hours=1)
        dev._lamp.trigger("held")
        run = go_on(dev, lambda _: all(mark.exists() for mark in marks))
        pids = [pid for mark in marks for pid in wait_for(mark)]
        with dev._lamp.in_own_runtime():
            cancel_run("held", run.run_key)
        run = go_on(dev, lambda run: run.state == "cancelled")
        assert states(run) == dict.fromkeys(TASKS, "failed")
        require_end(pids)
