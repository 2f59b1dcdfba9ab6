"""The state machines in docs/step-functions.md: a parser of the language takes them."""

import json
import re
from pathlib import Path

import pytest
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser

PAGE = (Path(__file__).parents[2] / "docs" / "step-functions.md").read_text(encoding="utf-8")
BLOCKS = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
MACHINES = {machine["StartAt"]: machine for machine in BLOCKS if "StartAt" in machine}


@pytest.mark.parametrize("name", MACHINES)
def test_state_machine_of_the_page_can_be_read(name: str) -> None:
    """It follows the grammar, and every state that it names is there."""
    machine = MACHINES[name]
    AmazonStateLanguageParser.parse(json.dumps(machine))
    named = set(re.findall(r'"(?:Next|Default|StartAt)": "(.*?)"', json.dumps(machine)))
    assert named <= set(machine["States"])
    ends = [state for state in machine["States"].values() if "Next" not in state]
    assert all(each.get("End") or each["Type"] in {"Succeed", "Fail", "Choice"} for each in ends)


def test_page_shows_three_state_machines() -> None:
    """Each waits for the end of what it starts."""
    firsts = [machine["States"][name] for name, machine in MACHINES.items()]
    assert [state["Resource"].endswith(".sync") for state in firsts] == [True] * 3
