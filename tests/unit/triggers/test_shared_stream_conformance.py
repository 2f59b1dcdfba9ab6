"""The contract of shared streams, sentence by sentence; `make parity` plays it with Airflow too."""

import pytest

from tests.parity.shared_stream_case import Case
from tests.parity.shared_stream_cases import CASES
from tests.parity.shared_stream_kit import played


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.number}-{case.play.__name__}")
def test_shared_stream_in_each_case_keeps_the_contract(case: Case) -> None:
    """What is played comes to what the case's sentence promises."""
    assert played("lamplighter", case.play) == case.expected, case.sentence


def test_cases_are_numbered_without_repetition() -> None:
    """A number and a sentence name one case, so that a report can be looked up."""
    assert len({case.number for case in CASES}) == len(CASES)
    assert len({case.sentence for case in CASES}) == len(CASES)
