"""Days of the schedules in seconds: the real scheduler, an emulated AWS, steps that do nothing."""

from pathlib import Path

from lamplighter.timetables.testing import check_timetable
from lamplighter_local.pytest_plugin import Deploy
from timetables.after_workday import AfterWorkdayTimetable

BUNDLE = Path(__file__).parents[1]
FRIDAY = "2026-03-06T12:00:00Z"


def test_timetable_keeps_the_rules_of_the_scheduler() -> None:
    """What a timetable promises is checked in one line."""
    runs = check_timetable(AfterWorkdayTimetable("Europe/Zurich"))

    assert {run.data_interval.start.weekday() for run in runs if run.data_interval} == {*range(5)}


def test_each_workday_has_a_run_that_wakes_revenue(lamplighter: Deploy) -> None:
    """From Friday noon to Tuesday, Friday and Monday come to an end."""
    lamp = lamplighter(BUNDLE, at=FRIDAY, catch_up=False)
    lamp.advance(days=4)

    assert [run.run_id for run in lamp.runs("sales")] == [
        "scheduled__2026-03-06T00:00:00+00:00",
        "scheduled__2026-03-09T00:00:00+00:00",
    ]
    assert [run.state for run in lamp.runs("revenue")] == ["success", "success"]


def test_failed_count_wakes_nobody(lamplighter: Deploy) -> None:
    """Only a step that succeeds updates its outlets."""
    lamp = lamplighter(BUNDLE, at=FRIDAY, catch_up=False)
    lamp.fail_next("sales", "count")
    lamp.advance(days=1)

    assert [run.state for run in lamp.runs("sales")] == ["failed"]
    assert lamp.runs("revenue") == []
