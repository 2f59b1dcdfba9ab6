"""Runs that live on after their steps should have expired: no step is lost, no job taken for new.

DynamoDB deletes what has expired some time later; the emulator never does, so these tests do.
"""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from lamplighter import DAG
from lamplighter.store.models import Runs, Steps
from lamplighter.store.rows import connection
from lamplighter_local.emr.fake_emr import Outcome
from lamplighter_operations import runs
from lamplighter_operations.pause import pause, unpause
from lamplighter_operations.runs import cancel_run, clear_run, mark_run, mark_step, retry_run
from tests.scenarios.run_acts import BEGIN, World, make, new_world
from tests.tools.faults import Crash, Faults

FAILED = Outcome.failed("no")
ALMOST = timedelta(days=89)  # of the ninety days that runs and steps are kept


@pytest.fixture(name="world", scope="module")
def make_world() -> Iterator[World]:
    """Yield a deployment for most tests of this file: to make one takes as long as some of them."""
    with new_world() as made:
        yield made


@pytest.fixture
def _begin_again(world: World) -> Iterator[None]:
    world.begin_again()
    yield
    world.require_sound()


pytestmark = pytest.mark.usefixtures("_begin_again")


def let_expire(world: World) -> int:
    """Delete the steps that have expired, as DynamoDB does; return how many."""
    gone = [
        step
        for step in Steps.scan(consistent_read=True)
        if step.expires_at is not None and step.expires_at <= world.now
    ]
    for step in gone:
        step.delete()
    return len(gone)


def forget_steps() -> None:
    """Delete all steps, as if they had expired long ago."""
    for step in Steps.scan(consistent_read=True):
        step.delete()


def failed_run(world: World, dag: DAG | None = None) -> Runs:
    """Return a run whose second step has failed."""
    world.emr.next_outcome("dag", "b", FAILED)
    run = world.start(dag or make("a>b"))
    world.stack.advance(minutes=1)
    assert world.state(run) == "failed"
    return run


def test_retried_run_keeps_the_steps_that_do_not_run_again(world: World) -> None:
    """A step that ended long ago is still known when the run that was retried ends."""
    run = failed_run(world)
    world.stack.clock.advance(ALMOST)
    pause("dag")

    retry_run("dag", run.run_key)
    world.stack.advance(minutes=1)
    assert [step.expires_at for step in world.stack.steps(run).values()] == [None, None]
    world.stack.clock.advance(timedelta(days=2))
    let_expire(world)
    unpause("dag")
    world.stack.advance(minutes=5)

    assert (world.state(run), world.order(run)) == ("success", ["a", "b", "b"])


def test_run_that_lives_longer_than_steps_are_kept_keeps_them(world: World) -> None:
    """While the run goes on, whoever looks at it sees to it that its steps stay."""
    world.emr.next_outcome("dag", "b", FAILED)
    options = {"b": {"retries": 1, "retry_delay": timedelta(days=120)}}
    run = world.start(make("a>b", options=options))
    world.stack.advance(minutes=1)

    for _ in range(4):
        world.stack.clock.advance(timedelta(days=30))
        assert let_expire(world) == 0
        world.stack.advance(hours=1)

    assert (world.state(run), world.order(run)) == ("success", ["a", "b", "b"])


def test_steps_of_a_run_that_began_again_expire_when_it_is_over(world: World) -> None:
    """Nothing is kept for ever."""
    run = failed_run(world)
    retry_run("dag", run.run_key)
    world.stack.advance(minutes=1)

    assert world.state(run) == "success"
    assert all(step.expires_at is not None for step in world.stack.steps(run).values())
    world.stack.clock.advance(ALMOST + timedelta(days=2))
    assert let_expire(world) == 2
    world.again(run).delete()


def test_steps_of_a_run_that_began_again_and_was_cancelled_expire(world: World) -> None:
    """Also those that have not begun again, and a run that never got a slot."""
    run = failed_run(world, make("a>b", max_active_runs=1))
    world.emr.next_outcome("dag", "a", Outcome.hangs())
    blocker = world.start("dag")
    clear_run("dag", run.run_key)
    world.stack.advance(minutes=1)
    cancel_run("dag", run.run_key)
    world.stack.advance(minutes=1)

    assert world.state(run) == "cancelled"
    assert world.states(run) == {"a": "none", "b": "none"}
    assert all(step.expires_at is not None for step in world.stack.steps(run).values())
    cancel_run("dag", blocker.run_key)
    world.stack.advance(minutes=1)


@pytest.mark.parametrize("steps", [3, 7])
def test_revival_in_parts_goes_on_after_a_crash(
    world: World, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    """The run begins again with the last part; whoever asks again finishes what was begun."""
    monkeypatch.setattr(runs, "AT_ONCE", 2)
    chain = ">".join([*(f"t{at}" for at in range(steps)), "b"])
    run = failed_run(world, make(chain))
    world.stack.clock.advance(ALMOST)
    faults = Faults()
    faults.at(2, "crash-before", "TransactWriteItems")
    with faults.on(connection().client), pytest.raises(Crash):
        retry_run("dag", run.run_key)
    assert world.state(run) == "failed"

    retry_run("dag", run.run_key)
    assert not any(step.expires_at for step in world.stack.steps(run).values())
    world.stack.clock.advance(timedelta(days=2))
    let_expire(world)
    world.stack.advance(hours=1)

    assert (world.state(run), len(world.jobs(run))) == ("success", steps + 2)


def test_run_whose_steps_are_gone_starts_new_jobs(world: World) -> None:
    """Its jobs are not taken for those of its first life, which have run."""
    run = failed_run(world)
    world.stack.clock.advance(ALMOST)
    forget_steps()

    clear_run("dag", run.run_key)
    world.stack.advance(minutes=5)

    assert (world.state(run), world.order(run)) == ("success", ["a", "b", "a", "b"])
    tokens = [job.token for job in world.jobs(run)]
    assert len(set(tokens)) == len(tokens)


def test_marked_run_whose_steps_are_gone_starts_new_jobs_when_it_is_cleared(world: World) -> None:
    """Steps that were written again by a mark do not begin to count again."""
    run = failed_run(world)
    world.stack.clock.advance(ALMOST)
    forget_steps()
    mark_step("dag", run.run_key, "a", "success", why="x", by="ada")
    mark_run("dag", run.run_key, "success", why="x", by="ada")
    world.stack.advance(minutes=1)
    assert world.state(run) == "success"

    clear_run("dag", run.run_key)
    world.stack.advance(minutes=5)

    assert (world.state(run), world.order(run)) == ("success", ["a", "b", "a", "b"])


def test_next_run_does_not_wait_for_steps_that_are_gone(world: World) -> None:
    """Of a run that was a success, the steps may expire before the run does."""
    dag = make(
        "a",
        schedule="0 12 5 * *",
        start_date=BEGIN.subtract(days=40),
        default={"depends_on_past": True},
    )
    world.register(dag)
    world.stack.advance(minutes=5)
    assert [run.state for run in world.stack.runs("dag")] == ["success"]
    forget_steps()

    world.stack.clock.advance(timedelta(days=31))
    world.stack.advance(minutes=5)

    assert [run.state for run in world.stack.runs("dag")] == ["success", "success"]
