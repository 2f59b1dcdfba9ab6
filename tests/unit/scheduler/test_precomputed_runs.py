"""The precomputed runs of a custom timetable, and what the claim takes of them."""

import pytest
from pendulum import DateTime, datetime

from lamplighter.scheduler.schedules import PrecomputedRuns, PrecomputedRunsExhausted, Schedule
from lamplighter.timetables.base import DagRunInfo


def run(hour: int) -> DagRunInfo:
    """Return the run of an hour."""
    return DagRunInfo.interval(datetime(2026, 1, 5, hour), datetime(2026, 1, 5, hour + 1))


def runs_until(latest: DateTime | None, *, is_last: bool = False) -> PrecomputedRuns:
    """Return the runs of nine, ten and eleven of a schedule that ends."""
    schedule = Schedule("{}", None, latest, True, True, "own", "000001", "bundle", "1", "dags/a.py")
    return PrecomputedRuns.of(schedule, [run(9), run(10), run(11)], is_last=is_last)


@pytest.mark.parametrize(
    ("latest", "hours", "is_last"),
    [
        pytest.param(None, [9, 10, 11], False, id="no end date"),
        pytest.param(datetime(2026, 1, 6), [9, 10, 11], False, id="later"),
        pytest.param(datetime(2026, 1, 5, 11), [9, 10, 11], False, id="at the start of the last"),
        pytest.param(datetime(2026, 1, 5, 10, 59), [9, 10], True, id="before the last"),
        pytest.param(datetime(2026, 1, 5, 8), [], True, id="before all"),
    ],
)
def test_runs_that_begin_after_the_end_date_are_none(
    latest: DateTime | None, hours: list[int], *, is_last: bool
) -> None:
    """Whatever the sandbox has computed, the schedule ends with the last run in time."""
    found = runs_until(latest)
    assert (found.runs, found.is_last) == (tuple(run(hour) for hour in hours), is_last)


def test_claim_asks_for_more_unless_the_schedule_has_ended() -> None:
    """After the last run in time there is none; otherwise the sandbox is asked."""
    assert runs_until(datetime(2026, 1, 5, 10)).after(run(10), catchup=True) is None
    assert runs_until(None, is_last=True).after(run(11), catchup=True) is None
    with pytest.raises(PrecomputedRunsExhausted):
        runs_until(None).after(run(11), catchup=True)
