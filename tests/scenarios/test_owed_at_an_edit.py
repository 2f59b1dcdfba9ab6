"""A push changes a schedule while runs of it are due: none is lost, repeated or overlapped."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pendulum import DateTime, datetime

from lamplighter import DAG, Asset, SparkTask
from lamplighter.scheduler.claim import claim_all
from lamplighter.store.dags import require_dag
from lamplighter.store.models import Dags
from lamplighter.timetables.interval import CronDataIntervalTimetable
from lamplighter.timetables.trigger import CronTriggerTimetable
from lamplighter_operations.views import Run
from tests.tools.checked_deployment import LocalDeployment

MIDNIGHT = datetime(2026, 1, 5)
TEN_PAST_TEN = datetime(2026, 1, 5, 10, 10)
HOURLY, HALF_PAST, DAILY = "0 * * * *", "30 * * * *", "0 0 * * *"


def make_dag(schedule: Any, **arguments: Any) -> DAG:
    """Return the DAG as it is written at one time."""
    given: dict[str, Any] = {"start_date": MIDNIGHT, "max_active_runs": 100} | arguments
    dag = DAG("dag", schedule=schedule, **given)
    SparkTask("t", job="jobs:run", dag=dag)
    return dag


def timed(lamp: LocalDeployment) -> list[Run]:
    """Return the runs that time has created, oldest first."""
    return [run for run in lamp.runs("dag") if run.run_type == "scheduled"]


def intervals(lamp: LocalDeployment) -> list[tuple[DateTime, DateTime]]:
    """Return the data intervals of the runs that time has created."""
    found = [(run.data_interval_start, run.data_interval_end) for run in timed(lamp)]
    return [(start, end) for start, end in found if start is not None and end is not None]


def lasting(lamp: LocalDeployment) -> list[float]:
    """Return how many hours each of those intervals lasts."""
    return [(end - start).total_hours() for start, end in intervals(lamp)]


def require_tiles(lamp: LocalDeployment, *, first: DateTime, last: DateTime) -> None:
    """Require that the intervals cover all time between two instants, each moment once."""
    found = intervals(lamp)
    assert found[0][0] == first
    assert found[-1][1] == last
    holes = [(before[1], after[0]) for before, after in pairwise(found) if before[1] != after[0]]
    assert holes == []


@pytest.fixture
def lamp() -> Iterator[LocalDeployment]:
    """Return a deployment at ten past ten, whose tables are sound in the end."""
    with LocalDeployment(at=TEN_PAST_TEN) as made:
        yield made
        made.check_invariants()


def test_manual_run_while_runs_are_owed_has_the_interval_of_the_new_schedule(
    lamp: LocalDeployment,
) -> None:
    """A person gets the newest definition, also while the schedule still makes up for the old."""
    fall_behind(lamp, max_active_runs=1)
    lamp.push([make_dag(DAILY, max_active_runs=1)])
    assert require_dag("dag").previous_schedule is not None
    run = lamp.trigger("dag")
    assert (run.data_interval_start, run.data_interval_end) == (MIDNIGHT.subtract(days=1), MIDNIGHT)


def fall_behind(lamp: LocalDeployment, schedule: Any = HOURLY, **arguments: Any) -> None:
    """Let a DAG have its runs until ten o'clock, and then nothing until ten past one."""
    lamp.push([make_dag(schedule, **arguments)])
    lamp.advance(hours=3, deliver=False)


# Intervals.


def test_hours_owed_when_a_daily_schedule_is_pushed_are_created(lamp: LocalDeployment) -> None:
    """Three hours that were due become runs, the rest of the day becomes one, and days follow."""
    fall_behind(lamp)
    lamp.push([make_dag(DAILY)])
    lamp.check_invariants()
    lamp.advance(hours=36)

    require_tiles(lamp, first=MIDNIGHT, last=MIDNIGHT.add(days=2))
    assert lasting(lamp) == [1] * 13 + [11, 24]


def test_hours_owed_at_the_slot_limit_are_created_one_by_one(lamp: LocalDeployment) -> None:
    """A DAG that waits for its only slot keeps its old hours until the last of them has begun."""
    lamp.push([make_dag(HOURLY, start_date=TEN_PAST_TEN.start_of("hour"), max_active_runs=1)])
    lamp.takes("dag", "t", hours=4)
    lamp.advance(hours=4)
    assert len(timed(lamp)) == 1

    lamp.push([make_dag(DAILY, start_date=MIDNIGHT, max_active_runs=1)])
    assert require_dag("dag").schedule_switch_at == datetime(2026, 1, 5, 14)
    for _ in range(9):
        lamp.advance(hours=6)
        lamp.check_invariants()

    require_tiles(lamp, first=datetime(2026, 1, 5, 10), last=MIDNIGHT.add(days=2))
    assert lasting(lamp) == [1, 1, 1, 1, 10, 24]
    assert require_dag("dag").previous_schedule is None


@pytest.mark.parametrize("is_behind", [True, False])
def test_shifted_hours_begin_with_half_an_hour(lamp: LocalDeployment, *, is_behind: bool) -> None:
    """From the full hour to half past: the time between gets a run of its own, once."""
    lamp.push([make_dag(HOURLY)])
    lamp.advance(hours=3, deliver=not is_behind)
    lamp.push([make_dag(HALF_PAST)])
    lamp.advance(hours=2)

    require_tiles(lamp, first=MIDNIGHT, last=datetime(2026, 1, 5, 14, 30))
    assert lasting(lamp) == [1] * 13 + [0.5, 1]


@pytest.mark.parametrize("is_behind", [True, False])
def test_days_become_hours_at_midnight(lamp: LocalDeployment, *, is_behind: bool) -> None:
    """From days to hours: the days that were due are whole, and hours begin at midnight."""
    lamp.push([make_dag(DAILY)])
    lamp.advance(days=2, deliver=not is_behind)
    lamp.push([make_dag(HOURLY)])
    lamp.advance(hours=2)

    require_tiles(lamp, first=MIDNIGHT, last=MIDNIGHT.add(days=2, hours=12))
    assert lasting(lamp) == [24, 24] + [1] * 12


def test_hours_become_days_of_a_zone_on_the_day_of_a_clock_change() -> None:
    """The rest of the day ends at midnight in the zone of the new schedule, though it is short."""
    friday = datetime(2026, 3, 28, 20, 10)
    in_zurich = CronDataIntervalTimetable(DAILY, "Europe/Zurich")
    with LocalDeployment(at=friday) as lamp:
        fall_behind(lamp, start_date=friday.start_of("day"))
        lamp.push([make_dag(in_zurich)])
        lamp.advance(days=2)
        lamp.check_invariants()

        # 23:00 in UTC is midnight, and the Sunday has 23 hours.
        require_tiles(lamp, first=datetime(2026, 3, 28), last=datetime(2026, 3, 30, 22))
        assert lasting(lamp) == [1] * 23 + [23, 24]


def test_newest_due_run_alone_is_created_without_catchup(lamp: LocalDeployment) -> None:
    """Without catchup, the newest hour stands for those that were due; the rest of the day follows.

    It is the old definition that decides, since it was in force when they became due.
    """
    fall_behind(lamp, catchup=False)
    before = len(timed(lamp))
    lamp.push([make_dag(DAILY, catchup=True)])
    lamp.advance(hours=24)

    assert intervals(lamp)[before:] == [
        (datetime(2026, 1, 5, 12), datetime(2026, 1, 5, 13)),
        (datetime(2026, 1, 5, 13), MIDNIGHT.add(days=1)),
    ]


def test_catchup_that_is_switched_off_keeps_what_is_owed(lamp: LocalDeployment) -> None:
    """Runs that were due while catchup was on are created, though the new definition has none."""
    fall_behind(lamp)
    lamp.push([make_dag(HOURLY, catchup=False)])

    require_tiles(lamp, first=MIDNIGHT, last=datetime(2026, 1, 5, 13))


def test_later_start_date_begins_there_after_what_is_owed(lamp: LocalDeployment) -> None:
    """A start date in the future leaves out what lies before it, but nothing that was due."""
    fall_behind(lamp)
    lamp.push([make_dag(HALF_PAST, start_date=datetime(2026, 1, 5, 20))])
    lamp.advance(hours=9)

    assert intervals(lamp)[12:] == [
        (datetime(2026, 1, 5, 12), datetime(2026, 1, 5, 13)),
        (datetime(2026, 1, 5, 20, 30), datetime(2026, 1, 5, 21, 30)),
    ]


def test_second_push_meanwhile_replaces_only_the_new_schedule(lamp: LocalDeployment) -> None:
    """While old runs are owed, another edit keeps them; the schedule between is never followed."""
    lamp.push([make_dag(HOURLY, start_date=TEN_PAST_TEN.start_of("hour"), max_active_runs=1)])
    lamp.takes("dag", "t", hours=2)
    lamp.advance(hours=5)
    lamp.push([make_dag(DAILY, max_active_runs=1)])
    schedule_switch_at = require_dag("dag").schedule_switch_at
    lamp.advance(hours=1)
    lamp.push([make_dag(HALF_PAST, max_active_runs=1)])
    assert require_dag("dag").schedule_switch_at == schedule_switch_at == datetime(2026, 1, 5, 15)
    lamp.push([make_dag(HALF_PAST, max_active_runs=4)])
    lamp.advance(hours=6)

    require_tiles(lamp, first=datetime(2026, 1, 5, 10), last=datetime(2026, 1, 5, 21, 30))
    assert lasting(lamp) == [1] * 5 + [0.5] + [1] * 6


def test_schedule_that_is_taken_back_goes_on_as_it_was(lamp: LocalDeployment) -> None:
    """Hours, days and hours again, all while hours are owed, are hours throughout."""
    fall_behind(lamp)
    lamp.pause("dag")
    lamp.push([make_dag(DAILY)])
    lamp.push([make_dag(HOURLY)])
    lamp.unpause("dag")
    lamp.advance(hours=2)

    require_tiles(lamp, first=MIDNIGHT, last=datetime(2026, 1, 5, 15))
    assert set(lasting(lamp)) == {1}


# Other kinds of schedule.

HOURLY_TRIGGER = CronTriggerTimetable(HALF_PAST, timezone="UTC")


@pytest.mark.parametrize("schedule", [None, [Asset("a")], HOURLY_TRIGGER, "@continuous", "@once"])
def test_hours_owed_are_created_whatever_comes_after(lamp: LocalDeployment, schedule: Any) -> None:
    """A schedule without intervals, or without times, begins after what was due."""
    fall_behind(lamp)
    limit = 1 if schedule == "@continuous" else 100
    lamp.push([make_dag(schedule, max_active_runs=limit)])
    lamp.advance(minutes=30)

    runs = timed(lamp)
    assert [run.data_interval_end for run in runs[:13]] == [
        MIDNIGHT.add(hours=hour + 1) for hour in range(13)
    ]
    row = require_dag("dag")
    assert row.previous_schedule is row.schedule_switch_at is None
    if schedule == "@continuous":
        assert runs[13].data_interval_start == runs[12].data_interval_end
    elif schedule is HOURLY_TRIGGER:
        assert [run.run_after for run in runs[13:]] == [datetime(2026, 1, 5, 13, 30)]
    else:
        assert len(runs) == 13
        assert row.next_run_create_after is None


def test_continuous_run_that_is_due_reaches_up_to_the_push(lamp: LocalDeployment) -> None:
    """What @continuous has not covered yet is covered up to the push; hours go on from there."""
    fall_behind(lamp, "@continuous", max_active_runs=1)
    lamp.push([make_dag(HOURLY)])
    lamp.advance(hours=2)

    found = intervals(lamp)
    require_tiles(lamp, first=MIDNIGHT, last=datetime(2026, 1, 5, 15))
    assert found[-3:-1] == [
        (found[-3][0], datetime(2026, 1, 5, 13, 10)),
        (datetime(2026, 1, 5, 13, 10), datetime(2026, 1, 5, 14)),
    ]


def test_triggers_that_are_owed_come_before_intervals(lamp: LocalDeployment) -> None:
    """Instants that were due become runs; intervals begin just after the last of them."""
    fall_behind(lamp, HOURLY_TRIGGER)
    lamp.push([make_dag(HOURLY)])
    lamp.advance(hours=2)

    assert [run.run_after for run in timed(lamp)][-5:] == [
        datetime(2026, 1, 5, 11, 30),
        datetime(2026, 1, 5, 12, 30),
        datetime(2026, 1, 5, 13),
        datetime(2026, 1, 5, 14),
        datetime(2026, 1, 5, 15),
    ]
    assert intervals(lamp)[-3][0] == datetime(2026, 1, 5, 12, 30, 0, 1)


# Pauses.


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ("catchup", [1, 1, 1, 11, 24, 24]),
        ("latest", [24]),
        ("from-now", []),
    ],
)
def test_paused_dag_whose_schedule_is_edited_makes_up_as_asked(
    lamp: LocalDeployment, missed: str, expected: list[float]
) -> None:
    """Hours and days that were missed under both schedules: all, the latest, or none."""
    lamp.push([make_dag(HOURLY)])
    before = len(timed(lamp))
    lamp.pause("dag")
    lamp.advance(hours=3)
    lamp.push([make_dag(DAILY)])
    lamp.advance(days=3)
    lamp.unpause("dag", missed=missed)
    lamp.run_until_idle()

    assert lasting(lamp)[before:] == expected
    assert require_dag("dag").next_run_after == MIDNIGHT.add(days=4)
    lamp.advance(days=1)
    assert lasting(lamp)[-1] == 24


def test_latest_is_the_last_hour_while_no_day_is_over(lamp: LocalDeployment) -> None:
    """If the new schedule has missed nothing, the latest run is one of the old schedule."""
    lamp.push([make_dag(HOURLY)])
    lamp.pause("dag")
    lamp.advance(hours=3)
    lamp.push([make_dag(DAILY)])
    lamp.unpause("dag", missed="latest")
    lamp.advance(hours=12)

    assert intervals(lamp)[-2:] == [
        (datetime(2026, 1, 5, 12), datetime(2026, 1, 5, 13)),
        (datetime(2026, 1, 5, 13), MIDNIGHT.add(days=1)),
    ]
    assert len(timed(lamp)) == 12


# Rows that are out of the index, or wrong.


def test_dag_that_comes_back_with_another_schedule_has_what_was_due(
    lamp: LocalDeployment,
) -> None:
    """A DAG that left its bundle and returns with days has its hours until then, as it would."""
    lamp.push([make_dag(HOURLY)])
    lamp.push([])
    assert require_dag("dag").is_stale
    lamp.advance(hours=3)
    lamp.push([make_dag(DAILY)])
    lamp.advance(hours=12)

    require_tiles(lamp, first=MIDNIGHT, last=MIDNIGHT.add(days=1))
    assert lasting(lamp) == [1] * 13 + [11]


def test_old_schedule_that_cannot_be_read_is_told_and_stops_nobody(lamp: LocalDeployment) -> None:
    """A wrong value in the column is an error of its DAG; the next push begins the new schedule."""
    neighbour = DAG("neighbour", schedule=HOURLY, start_date=MIDNIGHT)
    lamp.push([make_dag(HOURLY), neighbour])
    lamp.advance(hours=3, deliver=False)
    lamp.pause("dag")
    lamp.push([make_dag(DAILY), neighbour])
    Dags("dag").update([Dags.previous_schedule.set({"nonsense": 1}), Dags.is_paused.set(False)])
    claim_all(["dag", "neighbour"])
    lamp.run_until_idle()
    assert require_dag("dag").schedule_error is not None
    assert len(lamp.runs("neighbour")) == 13

    lamp.push([make_dag(DAILY, description="again"), neighbour])
    lamp.advance(hours=12)
    row = require_dag("dag")
    assert {row.schedule_error, row.previous_schedule, row.schedule_switch_at} == {None}
    assert intervals(lamp)[-1] == (datetime(2026, 1, 5, 10), MIDNIGHT.add(days=1))


# Without what is owed.


def test_skipped_runs_are_not_created_and_the_schedule_goes_on(lamp: LocalDeployment) -> None:
    """A push may leave out what is owed: the new schedule goes on where the last due run ends."""
    fall_behind(lamp)
    before = intervals(lamp)
    lamp.push([make_dag(DAILY)], skip_owed=True)
    lamp.advance(hours=12)

    assert intervals(lamp) == [*before, (datetime(2026, 1, 5, 13), MIDNIGHT.add(days=1))]


def test_skipped_runs_of_a_new_dag_are_not_created(lamp: LocalDeployment) -> None:
    """A new DAG that starts in the past goes on from now."""
    lamp.push([make_dag(HOURLY, start_date=MIDNIGHT.subtract(years=1))], skip_owed=True)
    lamp.advance(hours=1)

    assert intervals(lamp) == [(datetime(2026, 1, 5, 10), datetime(2026, 1, 5, 11))]


def test_skipping_leaves_schedules_alone_that_stay(lamp: LocalDeployment) -> None:
    """Runs of a DAG whose schedule the push does not change are still owed."""
    fall_behind(lamp)
    lamp.push([make_dag(HOURLY, description="new words")], skip_owed=True)

    assert len(timed(lamp)) == 13


def test_owed_runs_of_an_old_schedule_may_be_skipped_later(lamp: LocalDeployment) -> None:
    """A second push that skips drops what a first one had kept."""
    fall_behind(lamp)
    lamp.pause("dag")
    lamp.push([make_dag(DAILY)])
    lamp.push([make_dag(DAILY)], skip_owed=True)
    lamp.unpause("dag")
    lamp.advance(hours=12)

    assert intervals(lamp)[9:] == [
        (datetime(2026, 1, 5, 9), datetime(2026, 1, 5, 10)),
        (datetime(2026, 1, 5, 13), MIDNIGHT.add(days=1)),
    ]


# Timetables of authors.

HEAD = """
import pendulum
from lamplighter import DAG
from lamplighter.timetables.base import DagRunInfo, Timetable
class Every(Timetable):
    def __init__(self, hours):
        self.hours = hours
    def serialize(self):
        return {"hours": self.hours}
    @classmethod
    def deserialize(cls, data):
        return cls(data["hours"])
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        last = last_automated_data_interval
        start = last.end if last else restriction.earliest
        return DagRunInfo.interval(start, start.add(hours=self.hours))
"""
OWN = "DAG('dag', schedule={}, start_date=pendulum.datetime(2026, 1, 5), max_active_runs=100{})\n"
Push = Callable[..., None]


@pytest.fixture
def push(lamp: LocalDeployment, tmp_path: Path) -> Push:
    """Return a function that pushes the DAG with a schedule, written as in a file."""

    def push(schedule: str, more: str = "", *, head: str = HEAD, skip_owed: bool = False) -> None:
        file = tmp_path / "b" / "dags" / "own.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(head + OWN.format(schedule, more), encoding="utf-8")
        lamp.push(tmp_path / "b", name="b", skip_owed=skip_owed)

    return push


def test_authors_days_that_are_owed_come_before_authors_hours(
    lamp: LocalDeployment, push: Push
) -> None:
    """From an author's days to an author's hours: days until the push, hours from there."""
    push("Every(24)")
    lamp.advance(days=2, deliver=False)
    push("Every(1)")
    lamp.advance(hours=2)

    require_tiles(lamp, first=MIDNIGHT, last=MIDNIGHT.add(days=2, hours=12))
    assert lasting(lamp) == [24, 24] + [1] * 12


def test_authors_hours_that_are_owed_come_before_authors_days(
    lamp: LocalDeployment, push: Push
) -> None:
    """From an author's hours to an author's days: hours until the push, days from there."""
    push("Every(1)")
    lamp.advance(hours=3, deliver=False)
    push("Every(24)")
    lamp.advance(days=1)

    require_tiles(lamp, first=MIDNIGHT, last=MIDNIGHT.add(days=1, hours=13))
    assert lasting(lamp) == [1] * 13 + [24]


def test_more_owed_hours_than_were_foretold_are_asked_of_the_old_code(
    lamp: LocalDeployment, push: Push
) -> None:
    """A hundred hours are owed when the schedule is replaced; the old bundle is asked for them."""
    push("Every(1)")
    lamp.advance(hours=100, deliver=False)
    push("'0 0 * * *'")
    lamp.advance(hours=24)

    require_tiles(lamp, first=MIDNIGHT, last=MIDNIGHT.add(days=5))
    assert lasting(lamp) == [1] * 110 + [10]


def test_built_in_hours_that_are_owed_come_before_an_authors(
    lamp: LocalDeployment, push: Push
) -> None:
    """From cron to an author's timetable with runs owed: it is asked when its turn comes."""
    push("'0 * * * *'")
    lamp.advance(hours=3, deliver=False)
    push("Every(6)")
    lamp.advance(hours=7)

    require_tiles(lamp, first=MIDNIGHT, last=datetime(2026, 1, 5, 19))
    assert lasting(lamp) == [1] * 13 + [6]


@pytest.mark.parametrize("has_catchup", [True, False])
def test_other_code_of_a_timetable_is_an_edit_too(
    lamp: LocalDeployment, push: Push, *, has_catchup: bool
) -> None:
    """The same arguments with other code: what was due comes from the old code."""
    more = "" if has_catchup else ", catchup=False"
    push("Every(1)", more)
    version, before = require_dag("dag").version, len(timed(lamp))
    lamp.advance(hours=3, deliver=False)
    push("Every(1)", more, head=HEAD.replace("hours=self.hours", "minutes=40"))
    lamp.advance(hours=1)

    assert require_dag("dag").version == version
    assert [(end - start).total_minutes() for start, end in intervals(lamp)[before:]] == [
        *([60] * (3 if has_catchup else 1)),
        40,
    ]
    assert intervals(lamp)[-1][1] == datetime(2026, 1, 5, 13, 40)


def test_other_code_that_gives_the_same_runs_is_no_edit(lamp: LocalDeployment, push: Push) -> None:
    """A push of the same timetable while runs are owed follows the new bundle at once."""
    push("Every(1)")
    lamp.pause("dag")
    lamp.advance(hours=3)
    push("Every(1)", head=HEAD + "\n# new words\n")

    assert require_dag("dag").schedule_switch_at is None


def test_skipped_runs_of_authors_timetables_are_not_created(
    lamp: LocalDeployment, push: Push
) -> None:
    """Skipping works through more owed runs than were precomputed, under both schedules."""
    push("Every(1)")
    before = len(timed(lamp))
    lamp.advance(hours=100, deliver=False)
    push("Every(2)", skip_owed=True)
    lamp.advance(hours=3)

    assert intervals(lamp)[before:] == [
        (MIDNIGHT.add(hours=110), MIDNIGHT.add(hours=112)),
    ]


def test_paused_dag_that_becomes_an_authors_goes_on_from_now(
    lamp: LocalDeployment, push: Push
) -> None:
    """Nothing is made up for: the author's timetable is asked, and then skipped to the present."""
    push("'0 * * * *'")
    before = len(timed(lamp))
    lamp.pause("dag")
    lamp.advance(hours=3)
    push("Every(1)")
    lamp.advance(hours=3)
    with pytest.raises(Exception, match="try again in a minute"):
        lamp.unpause("dag", missed="from-now")
    lamp.advance(minutes=2)
    lamp.unpause("dag", missed="from-now")
    lamp.advance(hours=1)

    assert intervals(lamp)[before:] == [(datetime(2026, 1, 5, 16), datetime(2026, 1, 5, 17))]


def test_unpausing_without_catchup_after_an_edit_creates_the_newest_run_only() -> None:
    """What the old schedule owed is passed over with all else; the checker knows that."""

    def dag(schedule: str) -> DAG:
        return DAG("dag", schedule=schedule, start_date=datetime(2026, 1, 1, 2), catchup=False)

    with LocalDeployment([dag("0 * * * *")], at=datetime(2026, 1, 1, 14, 0, 5)) as lamp:
        lamp.pause("dag")
        lamp.advance(hours=3)
        lamp.push([dag("*/30 * * * *")])
        lamp.advance(hours=2)
        lamp.unpause("dag")
        lamp.advance(minutes=1)

        lamp.check_invariants()
        assert [
            run.data_interval_end.hour for run in lamp.runs("dag") if run.data_interval_end
        ] == [
            14,
            19,
        ]
