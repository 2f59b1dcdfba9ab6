"""The named differences, without Airflow: each has an example, and docs/airflow.md lists it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.parity.answer import Library, library
from tests.parity.differences import DIFFERENCES, Case, agree, explain

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "airflow.md"
EXAMPLES: dict[str, Any] = json.loads((HERE / "examples.json").read_text(encoding="utf-8"))
NAMES = [known.name for known in DIFFERENCES]


@pytest.fixture(scope="module")
def lamplighter() -> Iterator[Library]:
    """Our library with its clock stopped."""
    with library("lamplighter") as ours:
        yield ours


def test_every_named_difference_has_one_example() -> None:
    """The recorded examples are those of the names, in their order."""
    assert list(EXAMPLES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_recorded_question_gets_the_recorded_answer(name: str, lamplighter: Library) -> None:
    """Our answer today is the one that was compared with Airflow's."""
    example = EXAMPLES[name]

    assert lamplighter.answer(example["question"]) == example["ours"]


@pytest.mark.parametrize("name", NAMES)
def test_recorded_answers_differ_for_the_named_reason(name: str, lamplighter: Library) -> None:
    """The answers on record are not equal, and their difference has this name and no other."""
    example = EXAMPLES[name]
    case = Case(example["question"], example["ours"], example["theirs"], lamplighter)

    assert not agree(case.ours, case.theirs)
    assert explain(case) == name


@pytest.mark.parametrize("name", NAMES)
def test_wrong_answer_of_ours_is_never_explained(name: str, lamplighter: Library) -> None:
    """No reason accepts an answer that we should not have given."""
    example = EXAMPLES[name]
    wrong = {"run_after": "2020-02-02T02:02:02+00:00", "interval": None, "partition": [None, None]}

    assert explain(Case(example["question"], wrong, example["theirs"], lamplighter)) is None


def test_page_lists_exactly_the_named_differences() -> None:
    """The table under the heading has one row for each name."""
    text = PAGE.read_text(encoding="utf-8")
    below = text.split("# Deliberate differences in timetables\n")[1]
    section = re.split("^#", below, flags=re.MULTILINE)[0]

    assert re.findall(r"^\| `([a-z-]+)` \|", section, flags=re.MULTILINE) == NAMES
