"""The fake EMR Serverless answers in the shapes of the real one, as far as it was recorded.

`tests/fixtures/emr/documented.json` is written from the API reference and the user guide. Files
recorded on an account are put beside it (`tests/tools/recorded_emr.py` says how) and are held
against the fake by this test.
"""

import datetime
from collections.abc import Iterator
from pathlib import Path

import pytest

from lamplighter import runtime
from lamplighter.zones import as_utc
from lamplighter_local.movable_clock import MovableClock
from tests.tools.recorded_emr import Recording, differences

RECORDINGS = sorted((Path(__file__).parents[2] / "fixtures" / "emr").glob("*.json"))
START = as_utc(datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.UTC))


@pytest.fixture
def movable() -> Iterator[MovableClock]:
    """Yield the clock of the process."""
    made = MovableClock(START)
    with runtime.using(clock=made):
        yield made


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_fake_has_the_shapes_of_a_recording(path: Path, movable: MovableClock) -> None:
    """Answers and events of the fake have the same keys, of the same types."""
    recording = Recording.load(path)
    assert recording.answers or recording.events
    assert list(differences(recording, movable)) == []


@pytest.mark.parametrize(
    ("recording", "found"),
    [
        (
            Recording(({"operation": "CancelJobRun", "answer": {"jobRunId": "00f1"}},), ()),
            ["CancelJobRun: applicationId is only in the fake"],
        ),
        (
            Recording(
                (
                    {
                        "operation": "StartJobRun",
                        "answer": {"applicationId": "00f1", "jobRunId": 7, "arn": "arn:x", "z": 1},
                    },
                ),
                (),
            ),
            [
                "StartJobRun: z is only in the recording",
                "StartJobRun: jobRunId is a number in the recording and str in the fake",
            ],
        ),
        (
            Recording(
                (),
                (
                    {
                        "detail-type": "EMR Serverless Job Run State Change",
                        "detail": {"state": "PAUSED"},
                    },
                ),
            ),
            [
                "EMR Serverless Job Run State Change: the fake sends none with the state PAUSED",
            ],
        ),
    ],
)
def test_recording_that_differs_is_told(
    recording: Recording, found: list[str], movable: MovableClock
) -> None:
    """A key too many, one too few and another type are each named."""
    assert list(differences(recording, movable)) == found
