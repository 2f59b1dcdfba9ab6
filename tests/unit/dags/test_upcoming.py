"""The coming runs of a DAG: from a moment on, as if nothing were owed."""

from datetime import UTC, datetime, timedelta

import pendulum
import pytest
from pendulum import DateTime

from lamplighter import DAG, Asset, clock
from lamplighter.dags.arguments import Schedule
from lamplighter.dags.upcoming import describe_run, upcoming_runs
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.trigger import CronPartitionTimetable, CronTriggerTimetable

NOON = pendulum.datetime(2026, 3, 10, 12)


def starts(
    schedule: Schedule, *, at: DateTime = NOON, count: int = 2, **options: object
) -> list[str]:
    """Return when the coming runs may be created, without the year."""
    arguments = {"start_date": datetime(2020, 1, 1, tzinfo=UTC), **options}
    dag = DAG("d", schedule=schedule, **arguments)  # type: ignore[arg-type]
    return [f"{run.run_after:%m-%dT%H:%M}" for run in upcoming_runs(dag, count, at=at)]


@pytest.mark.parametrize("catchup", [True, False])
def test_coming_runs_of_old_dag_begin_now(catchup: bool) -> None:
    """Years of owed runs are not listed; the first is the one that comes next."""
    assert starts("@daily", catchup=catchup) == ["03-11T00:00", "03-12T00:00"]


def test_run_due_at_the_moment_itself_is_coming() -> None:
    """A run that may be created exactly then is the first."""
    assert starts("0 12 * * *")[0] == "03-10T12:00"


def test_coming_runs_of_delta_keep_its_grid() -> None:
    """A delta is counted from the start date, however long ago that is."""
    first = datetime(2026, 3, 9, 1, tzinfo=UTC)
    assert starts(timedelta(hours=7), start_date=first) == ["03-10T12:00", "03-10T19:00"]
    later = NOON.add(seconds=1)
    assert starts(timedelta(hours=7), start_date=first, at=later)[0] == "03-10T19:00"


def test_start_in_the_future_is_where_they_begin() -> None:
    """Before the start date nothing comes."""
    late = datetime(2026, 5, 1, 6, tzinfo=UTC)
    assert starts("@daily", start_date=late) == ["05-03T00:00", "05-04T00:00"]


def test_end_in_the_past_leaves_no_runs() -> None:
    """After the end date nothing comes."""
    assert starts("@daily", end_date=datetime(2021, 1, 1, tzinfo=UTC)) == []


def test_schedule_without_time_has_no_coming_runs() -> None:
    """Assets and people decide about the others."""
    assert starts(None) == starts(Asset("a")) == []


def test_continuous_schedule_shows_one_run() -> None:
    """When the next one comes depends on when this one ends."""
    assert starts("@continuous", max_active_runs=1, count=5) == ["03-10T12:00"]


def test_asset_or_time_shows_its_times() -> None:
    """The time part has coming runs like any other."""
    timed = CronTriggerTimetable("30 6 * * *", timezone="UTC")
    assert starts(AssetOrTimeSchedule(timetable=timed, assets=Asset("a")))[0] == "03-11T06:30"


def test_partitioned_run_is_named_by_its_key() -> None:
    """A run without a logical date has its key in the id, and no interval."""
    dag = DAG("d", schedule=CronPartitionTimetable("@daily", timezone="UTC", key_format="%Y%m%d"),
              start_date=datetime(2020, 1, 1, tzinfo=UTC))  # fmt: skip
    (run,) = upcoming_runs(dag, 1, at=NOON)
    assert describe_run(dag, run) == {
        "run_id": "scheduled__2026-03-11T00:00:00+00:00~20260311",
        "logical_date": None,
        "data_interval_start": None,
        "data_interval_end": None,
        "run_after": "2026-03-11T00:00:00+00:00",
    }


def test_clock_is_given_back_afterwards() -> None:
    """Looking from another moment leaves the clock as it was."""
    before = clock.now()
    starts("@daily")
    assert clock.now() >= before


def test_coming_runs_of_a_minute_delta_are_found_at_once() -> None:
    """Years of minutes are not walked one by one."""
    assert starts(timedelta(minutes=1)) == ["03-10T12:00", "03-10T12:01"]
