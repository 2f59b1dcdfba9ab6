"""Runs that wait for the run before them: they hold no slot, so that it can be tried again."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, queues
from lamplighter.errors import RefusedError
from lamplighter.store.models import Dags, Runs
from lamplighter_local.emr.fake_emr import Outcome
from lamplighter_operations.pause import pause, unpause
from lamplighter_operations.repair import find_drift
from lamplighter_operations.runs import cancel_run, clear_run, retry_run
from tests.scenarios.run_acts import World, make, new_world

FAILED = Outcome.failed("no")
DAYS = 4
BEGIN = datetime(2026, 1, 1)
NOW = BEGIN.add(days=DAYS, hours=1)


def daily(*tasks: str, depends: str, **arguments: Any) -> DAG:
    """Return a DAG of which some days have ended, with one task that depends on its past."""
    arguments.setdefault("max_active_runs", 2)
    arguments.setdefault("schedule", "0 0 * * *")
    options = {depends: {"depends_on_past": True}}
    return make(*tasks, start_date=BEGIN, options=options, **arguments)


@pytest.fixture(name="world", scope="module")
def make_world() -> Iterator[World]:
    """Yield a deployment for all tests of this file: to make one takes as long as some of them."""
    with new_world(at=NOW) as made:
        yield made


@pytest.fixture(autouse=True)
def _begin_again(world: World) -> Iterator[None]:
    world.begin_again()
    yield
    world.require_sound()


def states(world: World) -> list[str]:
    """Return the states of the DAG's runs, by date."""
    return [run.state for run in world.stack.runs("dag")]


def runs(world: World) -> list[Runs]:
    """Return the DAG's runs, by date."""
    return world.stack.runs("dag")


def row() -> Dags:
    """Return the DAG's row."""
    return Dags.get("dag", consistent_read=True)


def test_run_that_waits_for_its_past_gives_its_slot_back(world: World) -> None:
    """The DAG's row names it apart from those that hold a slot or are in the queue for one."""
    world.emr.next_outcome("dag", "a", FAILED)
    world.register(daily("a", depends="a"))
    world.stack.advance(minutes=10)

    first, *others = runs(world)
    assert (first.state, {run.state for run in others}) == ("failed", {"queued"})
    assert not row().active
    assert not row().waiting
    assert row().waiting_for_past == {run.run_key for run in others}
    assert find_drift() == []


def test_run_whose_second_step_waits_gives_its_slot_back_and_stays_running(world: World) -> None:
    """It has done what it could, and goes on being a run that has begun."""
    world.emr.next_outcome("dag", "b", FAILED)
    world.register(daily("a>b", depends="b"))
    world.stack.advance(minutes=10)

    _, second, *_ = runs(world)
    assert (second.state, world.states(second)) == ("running", {"a": "success"})
    assert second.started_at is not None
    assert second.run_key in (row().waiting_for_past or ())
    assert find_drift() == []


def test_run_with_another_step_to_do_keeps_its_slot(world: World) -> None:
    """Only a run all of whose ready steps wait has nothing to do with its slot."""
    world.emr.next_outcome("dag", "b", FAILED)
    world.emr.takes("dag", "c", minutes=30)
    world.register(daily("a>b", "c", depends="b"))
    world.stack.advance(minutes=10)

    first, second, *_ = runs(world)
    assert world.states(second) == {"a": "success", "c": "running"}
    assert {first.run_key, second.run_key} <= set(row().active or ())


def test_run_with_a_step_up_for_retry_keeps_its_slot(world: World) -> None:
    """Its retry comes by itself, and must not have to queue for a slot."""
    for task in ("a", "r", "r"):
        world.emr.next_outcome("dag", task, FAILED)
    world.register(
        daily("a", "r", depends="a", default={"retries": 1, "retry_delay": timedelta(hours=1)})
    )
    world.stack.advance(minutes=10)

    held = {run.run_key: world.states(run) for run in runs(world)[:2]}
    assert [each.get("r") for each in held.values()] == ["up_for_retry"] * 2
    assert row().active == set(held)
    world.stack.advance(hours=6)
    assert states(world) == ["success"] * DAYS


def test_run_without_room_for_more_tasks_keeps_its_slot(world: World) -> None:
    """That max_active_tasks are running has nothing to do with the past."""
    world.emr.takes("dag", "a", minutes=30)
    world.register(daily("a", "b", depends="b", max_active_tasks=1, max_active_runs=1))
    world.stack.advance(minutes=10)

    assert row().waiting_for_past is None
    assert len(row().active or ()) == 1


def test_other_run_gets_the_slot_that_was_given_back(world: World) -> None:
    """A run without a date waits for nobody, and those that wait do not hold it up."""
    world.emr.next_outcome("dag", "a", FAILED)
    world.register(daily("a", depends="a"))
    world.stack.advance(minutes=10)

    asked = world.start("dag")
    world.stack.advance(minutes=1)

    assert world.state(asked) == "success"


def test_run_goes_on_by_itself_when_nobody_tells_it_that_its_past_is_over(world: World) -> None:
    """All messages about it are lost; the sweep finds it, and it gets a slot again."""
    world.emr.next_outcome("dag", "b", FAILED)
    world.register(daily("a>b", depends="b"))
    world.stack.advance(minutes=10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queues, "send_submits", lambda *_, **__: None)
        retry_run("dag", runs(world)[0].run_key)
        world.stack.advance(hours=1)
    world.stack.advance(hours=5)

    assert states(world) == ["success"] * DAYS


def test_cancelled_run_that_waited_leaves_nothing_behind(world: World) -> None:
    """Whether it had begun or not, its name is on no list of its DAG any more."""
    world.emr.next_outcome("dag", "b", FAILED)
    world.register(daily("a>b", depends="b"))
    world.stack.advance(minutes=10)
    second = runs(world)[1]

    cancel_run("dag", second.run_key)
    world.stack.advance(minutes=1)

    assert world.state(second) == "cancelled"
    assert second.run_key not in (row().waiting_for_past or ())


def test_timeout_of_a_run_goes_on_while_it_waits(world: World) -> None:
    """A run that has begun and waits for too long is ended as any other is."""
    world.emr.next_outcome("dag", "b", FAILED)
    world.register(daily("a>b", depends="b", dagrun_timeout=timedelta(minutes=30)))
    world.stack.advance(minutes=10)
    second = runs(world)[1]
    world.stack.advance(minutes=40)

    assert world.state(second) == "failed"
    assert second.run_key not in (row().waiting_for_past or ())


def test_cleared_step_of_a_run_that_waits_gets_a_slot_first(world: World) -> None:
    """A running run without a slot starts nothing until it has one again."""
    world.emr.next_outcome("dag", "b", FAILED)
    world.register(daily("a>b", depends="b", max_active_runs=2))
    world.stack.advance(minutes=10)
    second = runs(world)[1]
    world.emr.takes("dag", "b", minutes=60)
    blockers = [world.start("dag", run_id=f"blocker-{at}") for at in range(2)]
    world.stack.advance(minutes=1)
    assert set(row().active or ()) == {run.run_key for run in blockers}

    clear_run("dag", second.run_key, tasks=["a"])
    world.stack.advance(minutes=1)
    assert (len(world.jobs(second, "a")), world.state(second)) == (1, "running")
    assert [entry.partition("|")[2] for entry in row().waiting or ()] == [second.run_key]

    world.stack.advance(hours=2)
    assert len(world.jobs(second, "a")) == 2


def test_past_that_ends_while_paused_lets_the_runs_go_on_after_unpausing(world: World) -> None:
    """A paused DAG begins nothing, and what may begin meanwhile is not forgotten."""
    world.emr.next_outcome("dag", "a", FAILED)
    world.register(daily("a", depends="a"))
    world.stack.advance(minutes=10)
    world.emr.takes("dag", "a", minutes=10)
    retry_run("dag", runs(world)[0].run_key)
    world.stack.advance(minutes=1)
    pause("dag")
    world.stack.advance(minutes=30)
    assert states(world)[:2] == ["success", "queued"]
    assert world.jobs(runs(world)[1]) == []

    unpause("dag")
    world.stack.advance(hours=2)

    assert states(world) == ["success"] * DAYS


def test_runs_that_wait_for_their_past_count_against_the_limit_of_waiting_runs(
    world: World,
) -> None:
    """A row holds so many names and no more, whatever the runs wait for."""
    world.register(daily("a", depends="a", schedule=None))
    row().update([Dags.waiting_for_past.set({f"run-{at}" for at in range(500)})])
    with pytest.raises(RefusedError, match="already has 500 runs waiting for a slot or for"):
        world.start("dag")
    row().update([Dags.waiting_for_past.remove()])
