"""When the runs of `@continuous` may start, and what they cover, as tables on plain rows."""

import json

import pytest
from pendulum import DateTime, datetime

from lamplighter.scheduler import cursor
from lamplighter.store.models import Dags
from lamplighter.timetables.base import DagRunInfo, DataInterval, encode_timetable
from lamplighter.timetables.simple import ContinuousTimetable


def at(minute: int, second: int = 0, microsecond: int = 0) -> DateTime:
    """Return an instant after noon."""
    return datetime(2026, 1, 5, 12, minute, second, microsecond)


def dag(earliest: DateTime | None, latest: DateTime | None) -> Dags:
    """Return the row of a continuous DAG."""
    return Dags(
        "dag",
        bundle="bundle",
        bundle_version="1",
        source_key="dags/a.py#dag",
        version="000001",
        schedule="@continuous",
        timetable=json.dumps(encode_timetable(ContinuousTimetable())),
        earliest=earliest,
        latest=latest,
        catchup=True,
    )


NOW = at(10)


@pytest.mark.parametrize(
    ("earliest", "latest", "last_end", "begins", "starts"),
    [
        pytest.param(None, None, None, NOW, NOW, id="the first starts at once"),
        pytest.param(at(5), None, None, at(5), at(5), id="it covers the time since its start date"),
        pytest.param(at(15), None, None, at(15), at(15), id="it waits for its start date"),
        pytest.param(None, None, at(10), at(10), at(10, 30), id="the second waits for the gap"),
        pytest.param(at(1), None, at(5), at(5), at(5, 30), id="which is over after a long run"),
        pytest.param(None, at(10, 30), at(10), at(10), at(10, 30), id="up to the end date"),
        pytest.param(None, at(10, 29), at(10), None, None, id="not beyond it"),
        pytest.param(None, at(9), None, None, None, id="the first neither"),
    ],
)
def test_next_run_of_continuous_begins_and_starts(
    earliest: DateTime | None,
    latest: DateTime | None,
    last_end: DateTime | None,
    begins: DateTime | None,
    starts: DateTime | None,
) -> None:
    """It begins where the last one ended, and starts the gap after that at the earliest."""
    info = cursor.next_continuous(dag(earliest, latest), last_end, now=NOW)
    found = (None, None) if info is None else (info.logical_date, info.run_after)
    assert found == (begins, starts)


@pytest.mark.parametrize(
    ("begin", "latest", "run_after", "end"),
    [
        pytest.param(at(5), None, NOW, NOW, id="it ends now"),
        pytest.param(at(5), at(8), at(8), at(8), id="or at the end date"),
        pytest.param(NOW, None, NOW, at(10, 0, 1), id="it is never empty"),
        pytest.param(at(8), at(8), at(8), at(8, 0, 1), id="not even at the end date"),
    ],
)
def test_claimed_run_of_continuous_covers_the_time_until_now(
    begin: DateTime, latest: DateTime | None, run_after: DateTime, end: DateTime
) -> None:
    """The next run begins where this one ends, so that every run has a key of its own."""
    stored = DagRunInfo.interval(begin, begin)
    info = cursor.continuous_now(dag(None, latest), stored, now=NOW)
    assert info == DagRunInfo(run_after, DataInterval(begin, end))
