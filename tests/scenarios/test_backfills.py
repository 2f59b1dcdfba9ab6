"""Backfills: planned dates become runs, each once, beside a schedule that is not disturbed."""

from collections.abc import Iterator
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, SparkTask
from lamplighter.backfill.advance import advance_backfills
from lamplighter.backfill.plan import Act, Request
from lamplighter.errors import RefusedError
from lamplighter.store.backfills import read_backfill
from lamplighter.store.models import Dags
from lamplighter.timetables.events import EventsTimetable
from lamplighter.timetables.trigger import CronPartitionTimetable
from lamplighter.zones import iso
from lamplighter_operations import backfills
from lamplighter_operations.backfills import plan_backfill
from lamplighter_operations.runs import clear_run
from lamplighter_operations.views import Backfill, Run
from tests.tools.checked_deployment import LocalDeployment

NOW = datetime(2026, 1, 5, 0, 0, 5)
TWO_DAYS = ("2026-01-02", "2026-01-04")


def make_dag(dag_id: str = "daily", schedule: Any = "0 0 * * *", **arguments: Any) -> DAG:
    """Return a DAG of one task that begins today, so that all before it is left to a backfill."""
    task = {
        name: arguments.pop(name)
        for name in ("depends_on_past", "outlets", "retries")
        if name in arguments
    }
    arguments.setdefault("start_date", datetime(2026, 1, 5))
    dag = DAG(dag_id, schedule=schedule, **arguments)
    SparkTask("t", job="jobs:run", dag=dag, **task)
    return dag


@pytest.fixture(name="lamp")
def make_lamp() -> Iterator[LocalDeployment]:
    """Yield a deployment early on a Monday; its tables must be sound in the end."""
    with LocalDeployment(at=NOW) as lamp:
        yield lamp
        lamp.check_invariants()


def backfilled(lamp: LocalDeployment, dag_id: str = "daily") -> list[Run]:
    """Return the runs of backfills, by their dates."""
    return [run for run in lamp.runs(dag_id) if run.run_type == "backfill"]


def days(runs: list[Run]) -> list[str]:
    """Return the dates of runs."""
    return [run.logical_date.to_date_string() for run in runs if run.logical_date is not None]


def only(lamp: LocalDeployment, dag_id: str = "daily") -> Backfill:
    """Return a DAG's newest backfill."""
    return lamp.backfills(dag_id)[0]


def test_backfill_runs_from_its_start_to_before_its_end(lamp: LocalDeployment) -> None:
    """The start is included and the end is not: two days are two runs."""
    lamp.push([make_dag()])
    lamp.backfill("daily", *TWO_DAYS)
    lamp.advance(minutes=5)

    assert days(backfilled(lamp)) == ["2026-01-02", "2026-01-03"]
    assert {run.state for run in backfilled(lamp)} == {"success"}
    assert backfilled(lamp)[0].run_id == "backfill__2026-01-02T00:00:00+00:00"
    assert (only(lamp).state, only(lamp).succeeded) == ("completed", 2)


def test_backfill_of_unaligned_range_takes_dates_within_it(lamp: LocalDeployment) -> None:
    """A range that begins and ends between dates has the dates that lie in it."""
    lamp.push([make_dag(schedule="0 6 * * *")])
    lamp.backfill("daily", "2026-01-01T07:00:00Z", "2026-01-03T06:00:01Z")
    lamp.advance(minutes=5)
    assert days(backfilled(lamp)) == ["2026-01-02", "2026-01-03"]


def test_backfill_up_to_now_leaves_out_what_is_not_complete(lamp: LocalDeployment) -> None:
    """The interval that is going on is the schedule's."""
    lamp.push([make_dag()])
    lamp.backfill("daily", "2026-01-03", "2026-02-01")
    lamp.advance(minutes=5)
    assert days(backfilled(lamp)) == ["2026-01-03", "2026-01-04"]


def test_delta_keeps_the_grid_of_its_dag(lamp: LocalDeployment) -> None:
    """Intervals of a delta are counted from where the DAG begins, not from where the range does."""
    start = datetime(2026, 1, 4, 22, 30)
    lamp.push([make_dag("delta", start.diff(start.add(hours=1)).as_timedelta(), start_date=start)])
    lamp.backfill("delta", "2026-01-04T20:00:00Z", "2026-01-04T22:00:00Z")
    lamp.advance(minutes=5)
    found = [iso(run.logical_date) for run in backfilled(lamp, "delta") if run.logical_date]
    assert found == ["2026-01-04T20:30:00+00:00", "2026-01-04T21:30:00+00:00"]


def test_backfill_keeps_to_its_own_limit_and_takes_no_slot_of_the_dag(
    lamp: LocalDeployment,
) -> None:
    """A DAG whose only slot is taken backfills three at a time, and runs on time besides."""
    lamp.push([make_dag("hourly", "0 * * * *", max_active_runs=1)])
    lamp.takes("hourly", "t", minutes=50)
    lamp.advance(hours=1, minutes=1)
    assert len(lamp.dag("hourly").active) == 1
    lamp.backfill("hourly", "2026-01-04", "2026-01-05", max_active_runs=3)
    limit = 0
    for _ in range(12 * 10):
        lamp.advance(minutes=5)
        limit = max(limit, len(only(lamp, "hourly").active))
        lamp.check_invariants()

    assert limit == 3
    assert only(lamp, "hourly").state == "completed"
    live = [run for run in lamp.runs("hourly") if run.run_type == "scheduled"]
    assert {(run.created_at - run.run_after).total_seconds() for run in live} == {0}


def test_backfill_backwards_begins_with_the_newest(lamp: LocalDeployment) -> None:
    """The runs are created from the end of the range to its beginning."""
    lamp.push([make_dag()])
    lamp.takes("daily", "t", minutes=10)
    lamp.backfill("daily", "2026-01-01", "2026-01-04", backwards=True, max_active_runs=1)
    lamp.advance(hours=1)
    runs = sorted(backfilled(lamp), key=lambda run: run.created_at)
    assert days(runs) == ["2026-01-03", "2026-01-02", "2026-01-01"]


def test_conf_reaches_every_run(lamp: LocalDeployment) -> None:
    """What a backfill is given, its runs are given."""
    lamp.push([make_dag(params={"full": False})])
    lamp.backfill("daily", *TWO_DAYS, conf={"full": True})
    lamp.advance(minutes=5)
    assert [dict(run.conf) for run in backfilled(lamp)] == [{"full": True}] * 2


@pytest.fixture(name="history")
def make_history(lamp: LocalDeployment) -> LocalDeployment:
    """Return a deployment with a success on the 2nd, a failure on the 3rd, a run since the 4th."""
    lamp.push([make_dag()])
    lamp.trigger("daily", logical_date="2026-01-02")
    lamp.advance(minutes=1)
    lamp.fail_next("daily", "t")
    lamp.trigger("daily", logical_date="2026-01-03")
    lamp.advance(minutes=1)
    lamp.takes("daily", "t", hours=2)
    lamp.trigger("daily", logical_date="2026-01-04")
    lamp.advance(minutes=1)
    lamp.takes("daily", "t", seconds=1)
    return lamp


@pytest.mark.parametrize(
    ("reprocess", "acts"),
    [
        ("none", [Act.CREATE, Act.EXISTS, Act.EXISTS, Act.IN_FLIGHT]),
        ("failed", [Act.CREATE, Act.EXISTS, Act.REDO, Act.IN_FLIGHT]),
        ("completed", [Act.CREATE, Act.REDO, Act.REDO, Act.IN_FLIGHT]),
    ],
)
def test_reprocess_says_which_runs_are_run_again(
    history: LocalDeployment, reprocess: str, acts: list[Act]
) -> None:
    """The plan tells of each date what happens, and the backfill does exactly that."""
    lamp = history
    request = Request("daily", datetime(2026, 1, 1), datetime(2026, 1, 5), reprocess=reprocess)
    plan = plan_backfill(request)
    assert [each.act for each in plan.dates] == acts
    before = {run.run_id: run.created_at for run in lamp.runs("daily")}

    lamp.backfill("daily", request.start, request.end, reprocess=reprocess)
    lamp.advance(minutes=5)

    begun = [run for run in lamp.runs("daily") if before.get(run.run_id) != run.created_at]
    assert len(begun) == len(plan.todo) == only(lamp).succeeded
    assert {run.run_type for run in begun} == {"backfill"}
    assert {run.state for run in begun} == {"success"}
    lamp.advance(hours=3)


def test_run_that_is_run_again_keeps_its_id_and_has_the_newest_version(
    history: LocalDeployment,
) -> None:
    """A failed run begins anew under its own name, with the definition that was pushed since."""
    lamp = history
    lamp.push([make_dag(description="mended")])
    lamp.backfill("daily", "2026-01-03", "2026-01-04", reprocess="failed", conf={"mended": True})
    lamp.advance(minutes=5)
    (run,) = [run for run in lamp.runs("daily") if run.run_type == "backfill"]
    assert run.run_id == "manual__2026-01-03T00:00:00+00:00"
    assert (run.state, dict(run.conf), run.step("t").try_number) == ("success", {"mended": True}, 1)
    row = next(each for each in lamp.stack.runs("daily") if each.run_id == run.run_id)
    assert row.dag_version == lamp.dag("daily").version
    lamp.advance(hours=3)


def test_date_that_got_its_run_meanwhile_is_passed_over(lamp: LocalDeployment) -> None:
    """Someone who triggers a planned date is left alone, and the backfill goes on."""
    lamp.push([make_dag()])
    lamp.takes("daily", "t", minutes=10)
    lamp.backfill("daily", "2026-01-01", "2026-01-04", max_active_runs=1)
    lamp.advance(minutes=1)
    lamp.trigger("daily", logical_date="2026-01-02")
    lamp.advance(hours=1)
    assert days(backfilled(lamp)) == ["2026-01-01", "2026-01-03"]
    assert (only(lamp).state, only(lamp).passed) == ("completed", 1)


def test_schedule_steps_over_what_a_backfill_ran(lamp: LocalDeployment) -> None:
    """Un-paused with catchup, a DAG does not run again what was backfilled meanwhile."""
    lamp.push([make_dag(start_date=datetime(2026, 1, 1), is_paused_upon_creation=True)])
    lamp.unpause("daily")
    lamp.pause("daily")
    lamp.backfill("daily", "2026-01-01", "2026-01-05")
    lamp.advance(minutes=5)
    assert backfilled(lamp) == []
    lamp.unpause("daily")
    lamp.advance(minutes=10)
    assert sorted(days(lamp.runs("daily"))) == [
        "2026-01-01",
        "2026-01-02",
        "2026-01-03",
        "2026-01-04",
    ]


@pytest.mark.parametrize("backwards", [True, False])
def test_schedule_and_backfill_of_the_same_dates_share_them(
    lamp: LocalDeployment, *, backwards: bool
) -> None:
    """A DAG that makes up for two days, and a backfill of the same: each date has one run."""
    lamp.push([make_dag("hourly", "0 * * * *", max_active_runs=1, start_date=NOW)])
    lamp.takes("hourly", "t", minutes=10)
    lamp.pause("hourly")
    lamp.advance(days=2)
    end = lamp.now.start_of("hour")
    lamp.backfill("hourly", NOW.start_of("hour"), end, backwards=backwards, max_active_runs=2)
    lamp.unpause("hourly")
    lamp.advance(hours=8)
    runs = lamp.runs("hourly")
    assert len(runs) == len({run.logical_date for run in runs})
    assert {run.run_type for run in runs} == {"backfill", "scheduled"}
    assert only(lamp, "hourly").state == "completed"
    assert only(lamp, "hourly").passed > 0
    assert [run.state for run in runs if run.run_after <= end] == ["success"] * 48


def test_partitions_are_backfilled_by_their_keys(lamp: LocalDeployment) -> None:
    """Runs that have a key instead of a date are told apart by it."""
    daily = CronPartitionTimetable("0 0 * * *", timezone="UTC")
    lamp.push([make_dag("parts", daily)])
    lamp.backfill("parts", *TWO_DAYS)
    lamp.advance(minutes=5)
    assert [run.run_id for run in backfilled(lamp, "parts")] == [
        f"backfill__2026-01-0{day}T00:00:00+00:00~2026-01-0{day}T00:00:00" for day in (2, 3)
    ]


def test_paused_backfill_lets_running_runs_end_and_begins_none(lamp: LocalDeployment) -> None:
    """What runs goes on to its end; what waits begins when someone lets it go on."""
    lamp.push([make_dag()])
    lamp.takes("daily", "t", minutes=10)
    lamp.backfill("daily", "2026-01-01", "2026-01-05", max_active_runs=2)
    lamp.advance(minutes=1)
    lamp.pause_backfill("daily-1")
    lamp.advance(hours=2)
    assert (only(lamp).state, only(lamp).succeeded, only(lamp).active) == ("paused", 2, ())

    lamp.resume_backfill("daily-1")
    lamp.advance(minutes=30)
    assert (only(lamp).state, only(lamp).succeeded) == ("completed", 4)


def test_paused_dag_holds_its_backfill_until_it_goes_on(lamp: LocalDeployment) -> None:
    """Un-pausing the DAG lets the backfill go on at once, without waiting for a sweep."""
    lamp.push([make_dag()])
    lamp.pause("daily")
    lamp.backfill("daily", *TWO_DAYS)
    lamp.advance(hours=1)
    assert backfilled(lamp) == []
    lamp.unpause("daily")
    lamp.run_until_idle()
    assert len(only(lamp).active) == 2


def test_cancelled_backfill_ends_what_waits_and_lets_running_runs_end(
    lamp: LocalDeployment,
) -> None:
    """Runs that have begun go on; those that have not never do, and a new backfill may come."""
    lamp.push([make_dag(max_active_tasks=1)])
    lamp.takes("daily", "t", minutes=10)
    lamp.backfill("daily", "2026-01-01", "2026-01-05", max_active_runs=2)
    lamp.advance(minutes=1)
    lamp.cancel_backfill("daily-1")
    lamp.advance(minutes=15)
    assert (only(lamp).state, only(lamp).succeeded, only(lamp).position) == ("cancelled", 2, 2)

    lamp.backfill("daily", "2026-01-01", "2026-01-05")
    lamp.advance(minutes=30)
    assert (only(lamp).backfill_id, only(lamp).state, only(lamp).succeeded) == (
        "daily-2",
        "completed",
        2,
    )


def test_backfills_of_one_instant_are_listed_newest_first(lamp: LocalDeployment) -> None:
    """Where the clock does not tell which was made later, its number does."""
    lamp.push([make_dag()])
    for number in range(1, 6):
        lamp.backfill("daily", "2026-01-01", "2026-01-02")
        lamp.cancel_backfill(f"daily-{number}")
    assert [each.backfill_id for each in lamp.backfills("daily")] == [
        f"daily-{number}" for number in range(5, 0, -1)
    ]


def test_cancelled_backfill_cancels_jobs_on_request(lamp: LocalDeployment) -> None:
    """With its running runs, also later, the jobs of a backfill are cancelled."""
    lamp.push([make_dag()])
    lamp.takes("daily", "t", hours=10)
    lamp.backfill("daily", "2026-01-01", "2026-01-05", max_active_runs=2)
    lamp.advance(minutes=1)
    lamp.cancel_backfill("daily-1")
    lamp.advance(minutes=1)
    assert [run.state for run in backfilled(lamp)] == ["running", "running"]
    lamp.cancel_backfill("daily-1", cancels_running_runs=True)
    lamp.advance(minutes=5)
    assert [run.state for run in backfilled(lamp)] == ["cancelled", "cancelled"]
    assert (only(lamp).cancelled, only(lamp).active) == (2, ())


def test_queued_runs_of_a_cancelled_backfill_never_begin(lamp: LocalDeployment) -> None:
    """Runs that wait for an un-paused DAG are over without a job when their backfill is."""
    lamp.push([make_dag()])
    lamp.backfill("daily", *TWO_DAYS)
    advance_backfills(["daily-1"])
    lamp.pause("daily")
    lamp.advance(minutes=5)
    assert [run.state for run in backfilled(lamp)] == ["queued", "queued"]
    lamp.cancel_backfill("daily-1")
    lamp.run_until_idle()
    assert [(run.state, run.steps) for run in backfilled(lamp)] == [("cancelled", ())] * 2


def test_spend_cap_pauses_before_it_is_exceeded(lamp: LocalDeployment) -> None:
    """A run shows what runs cost; as many as the cap allows follow, and a higher cap lets it on."""
    lamp.push([make_dag("hourly", "0 * * * *")])
    lamp.takes("hourly", "t", minutes=10)
    lamp.backfill("hourly", "2026-01-04", "2026-01-05", max_cost=0.10)
    lamp.advance(minutes=5)
    assert len(only(lamp, "hourly").active) == 1
    lamp.advance(minutes=50)
    found = only(lamp, "hourly")
    assert (found.state, found.succeeded) == ("paused", 3)
    assert found.cost is not None
    assert found.cost <= 0.10
    assert "of $0.10" in (found.reason or "")
    lamp.resume_backfill("hourly-1", max_cost=100)
    lamp.advance(hours=2)
    assert (only(lamp, "hourly").state, only(lamp, "hourly").succeeded) == ("completed", 24)


def test_failed_runs_neither_stop_a_backfill_nor_pause_the_dag(lamp: LocalDeployment) -> None:
    """`max_consecutive_failed_dag_runs` is about the present."""
    lamp.push([make_dag(max_consecutive_failed_dag_runs=1)])
    lamp.fail_next("daily", "t", times=2)
    lamp.backfill("daily", "2026-01-01", "2026-01-05", max_active_runs=1)
    lamp.advance(minutes=10)
    assert (only(lamp).state, only(lamp).failed, only(lamp).succeeded) == ("completed", 2, 2)
    assert not lamp.dag("daily").is_paused


def test_depends_on_past_goes_in_order_and_the_first_waits_for_nobody(
    lamp: LocalDeployment,
) -> None:
    """Each step waits for the one of the date before; the first date has none that counts."""
    lamp.push([make_dag(depends_on_past=True)])
    lamp.fail_next("daily", "t")
    lamp.trigger("daily", logical_date="2025-12-31")
    lamp.takes("daily", "t", minutes=10)
    lamp.advance(minutes=1)
    lamp.backfill("daily", "2026-01-01", "2026-01-04", reprocess="failed")
    lamp.advance(minutes=45)
    runs = backfilled(lamp)
    assert [run.state for run in runs] == ["success"] * 3
    begun = [run.step("t").started_at for run in runs]
    ended = [run.step("t").ended_at for run in runs]
    assert all(
        start is not None and end is not None and start >= end
        for start, end in zip(begun[1:], ended, strict=False)
    )


def test_cleared_run_of_a_backfill_takes_a_slot_of_its_dag(lamp: LocalDeployment) -> None:
    """What a person lets begin again is the DAG's; the backfill that is over stays over."""
    lamp.push([make_dag()])
    lamp.backfill("daily", *TWO_DAYS)
    lamp.advance(minutes=5)
    clear_run("daily", "2026-01-02T00:00:00+00:00")
    lamp.run_until_idle()
    assert lamp.dag("daily").active == ("2026-01-02T00:00:00+00:00",)
    lamp.advance(minutes=5)
    assert (only(lamp).state, only(lamp).succeeded) == ("completed", 2)


def test_backfill_of_a_deleted_dag_is_cancelled(lamp: LocalDeployment) -> None:
    """Without its DAG there is nothing to run."""
    lamp.push([make_dag()])
    lamp.backfill("daily", *TWO_DAYS)
    Dags("daily").delete()
    lamp.run_until_idle()
    row = read_backfill("daily-1")
    assert row is not None
    assert (row.state, row.reason) == ("cancelled", "DAG 'daily' is gone")


def test_backfill_is_planned_once_whatever_is_pushed_later(lamp: LocalDeployment) -> None:
    """The dates are those that were planned, also if the schedule is another one by then."""
    lamp.push([make_dag()])
    lamp.takes("daily", "t", minutes=10)
    lamp.backfill("daily", "2026-01-01", "2026-01-04", max_active_runs=1)
    lamp.advance(minutes=1)
    lamp.push([make_dag(schedule="30 * * * *")])
    lamp.advance(minutes=45)
    assert days(backfilled(lamp)) == ["2026-01-01", "2026-01-02", "2026-01-03"]


def test_events_timetable_can_be_backfilled(lamp: LocalDeployment) -> None:
    """A list of events is walked like any other schedule."""
    events = EventsTimetable([datetime(2026, 1, 2, 12), datetime(2026, 1, 3, 8)])
    lamp.push([make_dag("events", events)])
    lamp.backfill("events", "2026-01-02", "2026-01-05")
    lamp.advance(minutes=5)
    assert days(backfilled(lamp, "events")) == ["2026-01-02", "2026-01-03"]


@pytest.mark.parametrize(
    ("dag", "asked", "error", "words"),
    [
        ({}, {"dag_id": "other"}, backfills.DagNotFound, "there is no DAG 'other'"),
        ({"allowed_run_types": "scheduled"}, {}, backfills.DagRunTypeNotAllowed,
         "add 'backfill' to its allowed_run_types"),
        ({"schedule": None}, {}, backfills.DagNonPeriodicScheduleException, "no dates to backfill"),
        ({"schedule": "@once"}, {}, backfills.DagNonPeriodicScheduleException, "no dates"),
        ({"schedule": "@continuous", "max_active_runs": 1}, {},
         backfills.DagNonPeriodicScheduleException, "no dates"),
        ({"schedule": [Asset("a")]}, {}, backfills.DagNonPeriodicScheduleException, "no dates"),
        ({}, {"end": "2025-12-01"}, backfills.InvalidBackfillDateRange, "before it begins"),
        ({}, {"start": "2027-01-01", "end": "2027-02-01"}, backfills.InvalidBackfillDate, "future"),
        ({"depends_on_past": True}, {"backwards": True, "reprocess": "failed"},
         backfills.InvalidBackfillDirection, "task 't' of DAG 'daily' depends on the past"),
        ({"depends_on_past": True}, {}, backfills.InvalidReprocessBehavior, "use reprocess"),
        ({}, {"reprocess": "some"}, backfills.InvalidReprocessBehavior, "none, failed, completed"),
        ({}, {"conf": {"when": NOW}}, backfills.InvalidBackfillConf, "must hold JSON values only"),
        ({}, {"end": "2026-01-01"}, backfills.NoBackfillRunsToCreate, "has no complete run"),
        ({}, {"max_active_runs": 0}, RefusedError, "choose 1 to 500"),
        ({}, {"max_cost": 0.0}, RefusedError, "give dollars"),
        ({"schedule": "* * * * *"}, {"start": "2025-01-01"}, RefusedError, "more than 10,000"),
    ],
)  # fmt: skip
def test_backfill_that_cannot_be_is_refused_by_its_name(
    lamp: LocalDeployment,
    dag: dict[str, Any],
    asked: dict[str, Any],
    error: type[Exception],
    words: str,
) -> None:
    """Each refusal is an error with Airflow's name and a sentence that names the thing."""
    lamp.push([make_dag(**dag)])
    request: dict[str, Any] = {"dag_id": "daily", "start": "2026-01-01", "end": "2026-01-04"}
    with pytest.raises(error, match=words):
        lamp.backfill(**request | asked)
    assert lamp.backfills("daily") == []


def test_second_backfill_is_refused_while_one_is_open(lamp: LocalDeployment) -> None:
    """A paused one is open too; the error says which it is and how to end it."""
    lamp.push([make_dag()])
    lamp.takes("daily", "t", minutes=10)
    lamp.backfill("daily", *TWO_DAYS)
    lamp.pause_backfill("daily-1")
    with pytest.raises(RefusedError, match="choose 1 to 500"):
        lamp.resume_backfill("daily-1", max_active_runs=501)
    with pytest.raises(backfills.AlreadyRunningBackfill, match="backfill cancel daily-1"):
        lamp.backfill("daily", *TWO_DAYS)


def test_backfill_of_dates_that_have_runs_is_refused(lamp: LocalDeployment) -> None:
    """There is nothing to create, and the error says what would run them again."""
    lamp.push([make_dag()])
    lamp.backfill("daily", *TWO_DAYS)
    lamp.advance(minutes=5)
    with pytest.raises(backfills.NoBackfillRunsToCreate, match=r"2 over.*use reprocess"):
        lamp.backfill("daily", *TWO_DAYS)
    with pytest.raises(RefusedError, match="backfill 'daily-1' is completed"):
        lamp.pause_backfill("daily-1")


def test_stale_dag_is_refused_by_its_name(lamp: LocalDeployment) -> None:
    """A DAG that left its bundle has no backfills."""
    lamp.push([make_dag(), make_dag("other")])
    lamp.push([make_dag("other")])
    lamp.advance(minutes=2)
    with pytest.raises(backfills.DagNotFound, match="is no longer in any bundle"):
        lamp.backfill("daily", *TWO_DAYS)


OWN = """
import pendulum
from lamplighter import DAG
from lamplighter.timetables.base import DagRunInfo, Timetable


class EveryOther(Timetable):
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        last = last_automated_data_interval
        start = last.end if last else restriction.earliest
        return DagRunInfo.interval(start, start.add(days=2))


DAG("own", schedule=EveryOther(), start_date=pendulum.datetime(2025, 12, 1), catchup={catchup})
"""


@pytest.mark.parametrize("catchup", [True, False])
def test_timetable_of_an_author_is_asked_in_the_sandbox(
    lamp: LocalDeployment, write_bundle: Any, *, catchup: bool
) -> None:
    """Its dates in the range are asked for once; after that no author's code is needed."""
    lamp.push(write_bundle({"dags/own.py": OWN.replace("{catchup}", str(catchup))}), name="own")
    lamp.run_until_idle()
    plan = plan_backfill(
        Request("own", datetime(2025, 12, 4), datetime(2025, 12, 11), reprocess="completed")
    )
    assert [each.info.logical_date for each in plan.dates] == [
        datetime(2025, 12, 5),
        datetime(2025, 12, 7),
        datetime(2025, 12, 9),
    ]
    lamp.backfill("own", "2025-12-04", "2025-12-11", reprocess="completed")
    lamp.run_until_idle()
    assert only(lamp, "own").position == 3
