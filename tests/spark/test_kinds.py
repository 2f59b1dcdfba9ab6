"""Tasks of all kinds in one DAG, whose programs really run."""

from pathlib import Path
from typing import Any

import pytest

from lamplighter_job import SkipStep
from lamplighter_operations.runs import clear_run
from lamplighter_operations.views import Run
from tests.tools.checked_deployment import LocalDeployment
from tests.tools.kinds import TASKS, write_kinds

pytestmark = pytest.mark.slow


@pytest.mark.usefixtures("java")
def test_spark_python_and_a_function_for_the_state_machine_read_each_other(tmp_path: Path) -> None:
    """Each program leaves what the next one reads, and the consumer has what two of them told."""

    def export(value: Any) -> dict[str, str]:
        return {"file": f"{value['good']}-of-{value['rows']}.csv"}

    bundle = write_kinds(tmp_path / "bundle")
    with LocalDeployment(bundle, at="2026-01-05T00:00:00Z", executor="spark") as lamp:
        lamp.state_machine("export", export)
        lamp.trigger("shop")
        lamp.advance(minutes=5)
        (run,) = lamp.runs("shop")
        (consumed,) = lamp.runs("consumer")
        left = {step.task_id: lamp.outputs(run, step.task_id) for step in run.steps}
        assert {step.state: step.error for step in run.steps} == {"success": None}
        lamp.check_invariants()
    assert left == {
        "load": {"rows": 3},
        "check": {"good": 2},
        "export": {"file": "2-of-3.csv"},
        "report": {"lines": ["2-of-3.csv", 3]},
        "publish": {"said": ["2-of-3.csv", "2-of-3.csv", 3, 2]},
    }
    told = {event.asset: event.extra for event in consumed.events}
    assert told == {"loaded": {"rows": 3}, "checked": {"by": "Python"}, "exported": {}}
    assert consumed.state == "success"


class Machine:
    """A function for the state machine, which fails the first time, or skips."""

    def __init__(self, conf: dict[str, str]) -> None:
        self._fails = conf.get("fails") == "export"
        self._skips = conf.get("skips") == "export"

    def __call__(self, _: Any) -> dict[str, str]:
        if self._skips:
            raise SkipStep("a holiday")
        if self._fails:
            self._fails = False
            raise ValueError("not yet")
        return {"file": "f.csv"}


def run_with(lamp: LocalDeployment, conf: dict[str, str]) -> Run:
    """Return a run that is over, of which one program does as the conf says."""
    lamp.state_machine("export", Machine(conf))
    lamp.trigger("shop", conf=conf)
    lamp.advance(hours=1)
    return lamp.runs("shop")[-1]


@pytest.mark.usefixtures("java")
def test_real_programs_of_all_kinds_fail_and_skip_alike(tmp_path: Path) -> None:
    """Whatever program it is, its step is tried again or skips what follows, and can be cleared."""
    bundle = write_kinds(tmp_path / "bundle")
    with LocalDeployment(bundle, at="2026-01-05T00:00:00Z", executor="spark") as lamp:
        for task in TASKS:
            failing, skipping = run_with(lamp, {"fails": task}), run_with(lamp, {"skips": task})
            assert {step.state for step in failing.steps} == {"success"}
            assert [step.task_id for step in failing.steps if step.try_number == 2] == [task]
            assert "not yet" in failing.step(task).tries[0]["error"]
            assert (skipping.state, skipping.step(task).error) == ("success", "a holiday")
            assert skipping.step("publish").state == "skipped"
        lamp.state_machine("export", Machine({}))
        with lamp.in_own_runtime():
            clear_run("shop", failing.run_key, tasks=["check"])
        lamp.advance(hours=1)
        (again,) = (run for run in lamp.runs("shop") if run.run_key == failing.run_key)
        submissions = {step.task_id: step.submission for step in again.steps}
        lamp.check_invariants()
    assert again.state == "success"
    assert submissions == {"load": 1, "check": 2, "export": 3, "report": 2, "publish": 2}
