"""Three days of pause: what becomes of them, the DAG says, or whoever un-pauses it."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, SparkTask
from lamplighter.errors import RefusedError
from tests.tools.checked_deployment import LocalDeployment

MONDAY = datetime(2026, 1, 5, 0, 0, 5)
TUESDAY, WEDNESDAY, THURSDAY = ("2026-01-06", "2026-01-07", "2026-01-08")


def make_dag(schedule: Any = "0 0 * * *", *tasks: str, **arguments: Any) -> DAG:
    """Return a DAG of some tasks, one after the other, that began on Sunday."""
    arguments.setdefault("start_date", datetime(2026, 1, 4))
    dag = DAG("dag", schedule=schedule, **arguments)
    made = [SparkTask(task, job="jobs:run", dag=dag) for task in tasks or ("t",)]
    for before, after in pairwise(made):
        _ = before >> after
    return dag


@pytest.fixture(name="lamp")
def make_lamp() -> Iterator[LocalDeployment]:
    """Yield a deployment early on a Monday; its tables must be sound in the end."""
    with LocalDeployment(at=MONDAY) as lamp:
        yield lamp
        lamp.check_invariants()


def days_after_pause(lamp: LocalDeployment, **choice: Any) -> list[str]:
    """Return the dates that got runs after three days of pause, when they were over, and later."""
    lamp.advance(minutes=1)
    before = {run.run_id for run in lamp.runs("dag")}
    assert len(before) == 1
    lamp.pause("dag")
    lamp.advance(days=3)
    lamp.unpause("dag", **choice)
    lamp.run_until_idle()
    lamp.advance(days=1)
    runs = [run for run in lamp.runs("dag") if run.run_id not in before]
    return [run.logical_date.to_date_string() for run in runs if run.logical_date is not None]


@pytest.mark.parametrize("is_catchup", [True, False])
@pytest.mark.parametrize(
    ("missed", "made_up_for"),
    [
        ("catchup", ["2026-01-05", TUESDAY, WEDNESDAY]),
        ("latest", [WEDNESDAY]),
        ("from-now", []),
    ],
)
def test_choice_at_unpausing_decides_whatever_the_dag_says(
    lamp: LocalDeployment, missed: str, made_up_for: list[str], *, is_catchup: bool
) -> None:
    """All, the latest or none of what was missed is made up for; then the schedule goes on."""
    lamp.push([make_dag(catchup=is_catchup)])
    assert days_after_pause(lamp, missed=missed) == [*made_up_for, THURSDAY]


@pytest.mark.parametrize(
    ("is_catchup", "made_up_for"),
    [(True, ["2026-01-05", TUESDAY, WEDNESDAY]), (False, [WEDNESDAY])],
)
def test_without_a_choice_the_catchup_of_the_dag_decides(
    lamp: LocalDeployment, made_up_for: list[str], *, is_catchup: bool
) -> None:
    """Nobody has to remember what the DAG is like."""
    lamp.push([make_dag(catchup=is_catchup)])
    assert days_after_pause(lamp) == [*made_up_for, THURSDAY]


def test_unknown_choice_is_refused(lamp: LocalDeployment) -> None:
    """The error names the choices there are, and the DAG stays paused."""
    lamp.push([make_dag()])
    lamp.pause("dag")
    with pytest.raises(RefusedError, match="take one of catchup, latest, from-now"):
        lamp.unpause("dag", missed="some")
    assert lamp.dag("dag").is_paused


def test_wished_catchup_keeps_to_the_slots(lamp: LocalDeployment) -> None:
    """A DAG without catchup, and with one slot, makes up for one missed run after the other."""
    lamp.push([make_dag("0 */6 * * *", catchup=False, max_active_runs=1)])
    lamp.takes("dag", "t", hours=1)
    lamp.advance(hours=2)
    lamp.pause("dag")
    lamp.advance(days=1)
    lamp.unpause("dag", missed="catchup")
    lamp.advance(hours=5)
    runs = [run for run in lamp.runs("dag") if run.run_after > MONDAY]
    assert [run.run_after.hour for run in runs] == [6, 12, 18, 0, 6]
    for before, after in pairwise(runs):
        assert before.ended_at is not None
        assert after.created_at >= before.ended_at


def test_edit_after_skipping_does_not_bring_back_what_was_skipped(lamp: LocalDeployment) -> None:
    """What someone passed over stays so, also if the schedule is another one by then."""
    lamp.push([make_dag()])
    lamp.advance(minutes=1)
    lamp.pause("dag")
    lamp.advance(days=3)
    lamp.unpause("dag", missed="from-now")
    lamp.push([make_dag("0 12 * * *")])
    lamp.advance(hours=30)
    dates = [run.logical_date for run in lamp.runs("dag")][1:]
    # From the end of the last day that was passed over, up to the first noon.
    assert dates == [datetime(2026, 1, 8)]


@pytest.mark.parametrize("is_catchup", [True, False])
@pytest.mark.parametrize(
    ("choice", "count"),
    [
        ({"missed": "catchup"}, 1),
        ({"missed": "latest"}, 0),
        ({"missed": "from-now"}, 0),
        ({"missed": "latest", "keep_events": True}, 1),
        ({"missed": "from-now", "keep_events": True}, 1),
        ({"keep_events": True}, 1),
        ({"keep_events": False}, 0),
    ],
)
def test_pending_events_are_kept_or_dropped_as_chosen(
    lamp: LocalDeployment, choice: dict[str, Any], count: int, *, is_catchup: bool
) -> None:
    """Events are like missed times: kept when all is made up for, or when someone wants them."""
    lamp.push([make_dag([Asset("a")], catchup=is_catchup)])
    lamp.pause("dag")
    lamp.emit("a")
    lamp.advance(minutes=1)
    lamp.unpause("dag", **choice)
    lamp.advance(minutes=1)
    assert len(lamp.runs("dag")) == count


def test_continuous_begins_now_if_nothing_is_to_be_made_up_for(lamp: LocalDeployment) -> None:
    """The interval that follows a pause begins where the pause ended, and not before it."""
    lamp.push([make_dag("@continuous", max_active_runs=1)])
    lamp.takes("dag", "t", hours=1)
    lamp.advance(minutes=30)
    lamp.pause("dag")
    lamp.advance(hours=5)
    at = lamp.now
    before = len(lamp.runs("dag"))
    lamp.unpause("dag", missed="from-now")
    lamp.advance(minutes=5)
    assert lamp.runs("dag")[before].data_interval_start == at


def test_paused_dag_finishes_running_steps_and_starts_no_new_ones(lamp: LocalDeployment) -> None:
    """The run stays where it is until the DAG goes on, and then goes on at once."""
    lamp.push([make_dag("0 0 * * *", "a", "b", start_date=datetime(2026, 1, 5))])
    lamp.takes("dag", "a", minutes=30)
    lamp.advance(days=1, minutes=5)
    lamp.pause("dag")
    lamp.advance(hours=6)
    (run,) = lamp.runs("dag")
    assert (run.state, [(step.task_id, step.state) for step in run.steps]) == (
        "running",
        [("a", "success")],
    )
    lamp.unpause("dag")
    lamp.advance(minutes=1)
    (run,) = lamp.runs("dag")
    assert (run.state, run.step("b").state) == ("success", "success")


def test_run_that_ends_just_before_the_next_time_does_not_bring_it_forward(
    lamp: LocalDeployment,
) -> None:
    """A slot that is free a second before the next run is due waits that second."""
    lamp.push([make_dag("0 * * * *", max_active_runs=1, start_date=datetime(2026, 1, 5))])
    lamp.takes("dag", "t", minutes=59, seconds=52)
    lamp.advance(hours=6)
    runs = lamp.runs("dag")
    assert len(runs) == 6
    for before, after in pairwise(runs):
        assert before.ended_at is not None
        assert 0 < (after.run_after - before.ended_at).total_seconds() < 10
        assert after.created_at == after.run_after
