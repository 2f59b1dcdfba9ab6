"""Tasks of all kinds in one DAG, whose programs really run."""

from pathlib import Path
from typing import Any

import pytest

from tests.tools.checked_deployment import LocalDeployment
from tests.tools.kinds import write_kinds

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
