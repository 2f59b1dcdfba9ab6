"""The page about watchers: its programs run, and its tables are complete."""

import re
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from lamplighter import triggers
from lamplighter.dags.dag import collect_definitions
from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.patterns import _OPERATORS
from lamplighter_local import LocalDeployment
from tests.unit.triggers.made_up import message, play

PAGE = (Path(__file__).parents[3] / "docs" / "watchers.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def executed(program: str) -> dict[str, object]:
    """Return the names that a program of the page defines."""
    module = types.ModuleType("page")
    with collect_definitions():
        exec(compile(program, "docs/watchers.md", "exec"), vars(module))  # noqa: S102 - our own page
    return vars(module)


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_program_of_the_page_runs(program: str) -> None:
    """Every program can be copied as it is; those of built-ins define a trigger."""
    names = executed(program)
    if "import S3ObjectTrigger" in program:
        assert isinstance(names["landed"], BaseEventTrigger)


def test_page_shows_every_built_in_and_operator() -> None:
    """A trigger or an operator that the page leaves out would not be found."""
    for name in triggers.__all__:
        assert f"import {name}" in PAGE or f"`{name}` takes the same arguments" in PAGE
    for name in (*_OPERATORS, "exists", "$or"):
        assert f'"{name}"' in PAGE


def test_trigger_of_the_page_skips_rejects_and_fires() -> None:
    """The one to copy does what the text says."""
    (program,) = (one for one in PROGRAMS if "class TillTrigger" in one)
    kind = executed(program)["TillTrigger"]
    assert isinstance(kind, type)
    came = [message({"till": 1}), message({"till": 2}), message(body="text")]
    played = play(kind(till=1), messages=came)
    assert played.payloads == [[{"till": 1}]]
    assert [outcome.rejected for outcome in played.outcomes] == [0, 0, 1]


def test_test_of_the_page_passes(lamplighter: Callable[..., LocalDeployment]) -> None:
    """What a reader copies into a test file tests what the page begins with."""
    (program,) = (one for one in PROGRAMS if "def test_" in one)
    names = executed(PROGRAMS[0] + program)
    test = names["test_an_order_starts_a_run"]
    assert callable(test)
    test(lamplighter)
