"""Runs and steps that a person marks as a success or as failed."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, runtime
from lamplighter.errors import RefusedError
from lamplighter.store.models import Dags, Runs
from lamplighter.store.rows import connection
from lamplighter_local.emr.fake_emr import Outcome
from lamplighter_operations import runs
from lamplighter_operations.pause import pause
from lamplighter_operations.runs import cancel_run, clear_run, mark_run, mark_step, retry_run
from tests.scenarios.run_acts import BEGIN, World, make, new_world
from tests.tools.faults import Crash, Faults

FAILED = Outcome.failed("no")
HANGS = Outcome.hangs()


@pytest.fixture(name="world", scope="module")
def make_world() -> Iterator[World]:
    """Yield a deployment for all tests of this file: to make one takes as long as some of them."""
    with new_world() as made:
        yield made


@pytest.fixture(autouse=True)
def _begin_again(world: World) -> Iterator[None]:
    world.begin_again()
    yield
    world.require_sound()


def mark(
    run: Runs, state: str, task: str | None = None, *, why: str = "it was mended by hand"
) -> Runs:
    """Mark a run, or one of its steps."""
    said = {"why": why, "by": "ada"}
    if task is None:
        return mark_run(run.dag_id, run.run_key, state, **said)
    return mark_step(run.dag_id, run.run_key, task, state, **said)


def hourly(*tasks: str, **arguments: Any) -> DAG:
    """Return a DAG of which two intervals have ended, each of whose steps needs the one before."""
    return make(
        *tasks,
        schedule="0 * * * *",
        start_date=datetime(2026, 1, 5, 10),
        default={"depends_on_past": True},
        **arguments,
    )


def failing_first(world: World, others: int) -> DAG:
    """Return a DAG whose first task fails, and is followed by some others."""
    world.emr.next_outcome("dag", "a", FAILED)
    return make(*(f"a>t{at}" for at in range(others)))


# Steps.


def test_failed_step_marked_success_lets_the_run_go_on(world: World) -> None:
    """What never ran because of it runs now, and the run ends as its steps make it."""
    world.emr.next_outcome("dag", "a", FAILED)
    run = world.start(make("a>b>c"))
    world.stack.advance(minutes=1)
    assert world.states(run) == {"a": "failed", "b": "upstream_failed", "c": "upstream_failed"}

    mark(run, "success", "a")
    world.stack.advance(minutes=1)

    assert (world.state(run), world.order(run)) == ("success", ["a", "b", "c"])
    step = world.step(run, "a")
    assert (step.state, step.error) == ("success", "marked success by ada: it was mended by hand")
    assert step.marked["by"] == "ada"


def test_last_failed_step_marked_success_makes_the_run_a_success_at_once(world: World) -> None:
    """There is nothing left to run, so it needs no slot, and keeps the time at which it began."""
    world.emr.next_outcome("dag", "b", FAILED)
    run = world.start(make("a>b"))
    world.stack.advance(minutes=1)
    began_at = world.again(run).started_at
    pause("dag")

    assert mark(run, "success", "b").state == "success"

    assert world.again(run).started_at == began_at
    assert not Dags.get("dag").active
    assert not Dags.get("dag").waiting


def test_marks_are_recorded_on_the_run(world: World) -> None:
    """Who, when, what and why can be read later."""
    world.emr.next_outcome("dag", "a", FAILED)
    run = world.start(make("a"))
    world.stack.advance(minutes=1)
    mark(run, "success", "a")
    mark(run, "failed")

    first, second = world.again(run).marks
    at = first.pop("at")
    assert at.startswith("2026-01-05T12:01")
    why = "it was mended by hand"
    assert first == {"by": "ada", "task_id": "a", "from": "failed", "to": "success", "why": why}
    assert (second["task_id"], second["from"], second["to"]) == (None, "success", "failed")
    assert world.again(run).reason == f"marked failed by ada: {why}"


def test_step_marked_success_tells_nobody_of_its_outlets(world: World) -> None:
    """Nobody knows what is there, so no event is sent."""
    world.emr.next_outcome("dag", "a", FAILED)
    run = world.start(make("a", options={"a": {"outlets": [Asset("x")]}}))
    world.stack.advance(minutes=1)

    mark(run, "success", "a")
    world.stack.advance(hours=1)

    assert (world.state(run), world.events("x")) == ("success", [])


@pytest.mark.parametrize("state", ["success", "failed"])
def test_running_step_is_cancelled_and_then_as_it_was_marked(world: World, state: str) -> None:
    """Its job is over before anything follows from the mark; a retry there is none."""
    world.emr.next_outcome("dag", "a", HANGS)
    options = {"a": {"retries": 3, "outlets": [Asset("x")]}}
    run = world.start(make("a>b", options=options))
    world.stack.advance(minutes=1)

    mark(run, state, "a")
    assert world.states(run) == {"a": "cancelling"}
    world.stack.advance(minutes=1)

    assert world.state(run) == state
    assert world.states(run) == {"a": state, "b": {"failed": "upstream_failed"}.get(state, state)}
    [job] = world.jobs(run, "a")
    assert (job.state, world.events("x")) == ("CANCELLED", [])


def test_job_that_ends_well_after_its_step_was_marked_failed_changes_nothing(
    world: World,
) -> None:
    """The mark stands, whatever the job came to meanwhile."""
    world.emr.takes("dag", "a", seconds=30)
    run = world.start(make("a", options={"a": {"outlets": [Asset("x")]}}))
    world.stack.advance(seconds=20)
    world.stack.clock.advance(timedelta(seconds=60))

    mark(run, "failed", "a")
    world.stack.advance(minutes=1)

    assert (world.state(run), world.events("x")) == ("failed", [])
    assert world.states(run) == {"a": "failed"}


def test_step_up_for_retry_marked_success_is_not_tried_again(world: World) -> None:
    """The run goes on after it at once."""
    world.emr.next_outcome("dag", "a", FAILED)
    options = {"a": {"retries": 3, "retry_delay": timedelta(hours=1)}}
    run = world.start(make("a>b", options=options))
    world.stack.advance(minutes=1)

    mark(run, "success", "a")
    world.stack.advance(hours=2)

    assert (world.state(run), world.order(run)) == ("success", ["a", "b"])


def test_step_that_has_not_begun_can_be_marked(world: World) -> None:
    """It never gets a job, and what follows it does not wait for it."""
    world.emr.takes("dag", "a", minutes=5)
    run = world.start(make("a>b>c"))
    world.stack.advance(minutes=1)

    mark(run, "success", "b")
    world.stack.advance(minutes=10)

    assert (world.state(run), world.order(run)) == ("success", ["a", "c"])


def test_step_marked_failed_fails_what_follows_and_the_run(world: World) -> None:
    """A success that was none is taken back before the next step has begun."""
    world.emr.takes("dag", "a", minutes=5)
    run = world.start(make("a>b"))
    world.stack.advance(minutes=1)

    mark(run, "failed", "b")
    world.stack.advance(minutes=10)

    assert world.states(run) == {"a": "success", "b": "failed"}
    assert world.state(run) == "failed"


def test_finished_success_is_failed_when_its_last_step_is_marked_failed(world: World) -> None:
    """The run is what its steps make it, and counts as a failure of its DAG."""
    run = world.start(make("a>b"))
    world.stack.advance(minutes=1)

    mark(run, "failed", "b")

    assert world.state(run) == "failed"
    assert Dags.get("dag").consecutive_failed_runs == 1


def test_other_failure_keeps_what_follows_both_from_running(world: World) -> None:
    """Only what could run now is reset; the run stays failed."""
    for task in ("a", "b"):
        world.emr.next_outcome("dag", task, FAILED)
    run = world.start(make("a>c", "b>c"))
    world.stack.advance(minutes=1)

    mark(run, "success", "a")
    world.stack.advance(minutes=1)
    assert (world.state(run), world.states(run)["c"]) == ("failed", "upstream_failed")

    mark(run, "success", "b")
    world.stack.advance(minutes=1)
    assert (world.state(run), world.states(run)["c"]) == ("success", "success")


def test_marked_step_that_is_cleared_runs_again(world: World) -> None:
    """A mark lasts until the step begins again."""
    world.emr.next_outcome("dag", "a", FAILED)
    run = world.start(make("a", options={"a": {"outlets": [Asset("x")]}}))
    world.stack.advance(minutes=1)
    mark(run, "success", "a")

    clear_run("dag", run.run_key)
    world.stack.advance(minutes=1)

    assert (world.state(run), len(world.events("x"))) == ("success", 1)
    assert world.step(run, "a").marked is None


def test_many_steps_that_never_ran_go_on_after_a_mark(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More steps than fit at once are reset in parts, before the run begins again."""
    monkeypatch.setattr(runs, "AT_ONCE", 2)
    run = world.start(failing_first(world, 5))
    world.stack.advance(minutes=1)
    assert world.state(run) == "failed"

    mark(run, "success", "a")
    world.stack.advance(minutes=5)

    assert world.state(run) == "success"
    assert set(world.states(run).values()) == {"success"}


def test_mark_that_died_between_two_parts_can_be_asked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is marked already, and what it still keeps back is reset by the second asking."""
    monkeypatch.setattr(runs, "AT_ONCE", 2)
    run = world.start(failing_first(world, 5))
    world.stack.advance(minutes=1)
    faults = Faults()
    faults.at(2, "crash-before", "TransactWriteItems")
    with faults.on(connection().client), pytest.raises(Crash):
        mark(run, "success", "a")
    states = list(world.states(run).values())
    assert (world.state(run), "upstream_failed" in states) == ("failed", True)

    mark(run, "success", "a")
    world.stack.advance(minutes=5)

    assert world.state(run) == "success"
    assert len(world.again(run).marks) == 1


# Runs.


def test_run_marked_success_has_successes_only_but_for_what_was_skipped(world: World) -> None:
    """Failed steps, and those that never ran, count as done."""
    world.emr.next_outcome("dag", "a", FAILED)
    world.emr.next_outcome("dag", "s", Outcome.skipped("nothing"))
    run = world.start(make("a>b", "s"))
    world.stack.advance(minutes=1)

    mark(run, "success")
    world.stack.advance(minutes=1)

    assert world.state(run) == "success"
    assert world.states(run) == {"a": "success", "b": "success", "s": "skipped"}
    assert world.order(run) == ["a", "s"]
    assert not Dags.get("dag").active
    assert not Dags.get("dag").waiting


@pytest.mark.parametrize("state", ["success", "failed"])
def test_live_run_that_is_marked_ends_when_its_jobs_are_cancelled(world: World, state: str) -> None:
    """Nothing more is started, and the run is as marked when the last job is over."""
    world.emr.next_outcome("dag", "a", HANGS)
    run = world.start(make("a>b", options={"a": {"retries": 2}}))
    world.stack.advance(minutes=1)

    assert mark(run, state).state == "running"
    world.stack.advance(minutes=1)

    assert (world.state(run), world.states(run)["a"]) == (state, state)
    assert world.order(run) == ["a"]
    assert world.emr.live() == []


def test_queued_run_that_is_marked_never_begins(world: World) -> None:
    """It is over though its DAG is paused."""
    world.register(make("a"))
    pause("dag")
    run = world.start("dag")

    mark(run, "success")
    world.stack.advance(minutes=1)

    assert (world.state(run), world.states(run)) == ("success", {"a": "success"})
    assert world.jobs(run) == []


def test_run_of_many_steps_is_marked_in_parts(world: World) -> None:
    """More steps than one transaction holds become successes before the run does."""
    world.register(make(*[f"t{at:03}" for at in range(19)]))
    pause("dag")
    run = world.start("dag")

    with runtime.using(settings=replace(world.stack.settings, transaction_actions=10)):
        mark(run, "success")
        world.stack.advance(minutes=5)

    assert world.state(run) == "success"
    assert list(world.states(run).values()) == ["success"] * 19


def test_success_marked_failed_can_be_cleared_but_keeps_its_steps(world: World) -> None:
    """Only the run is another one; its steps are what they were."""
    run = world.start(make("a"))
    world.stack.advance(minutes=1)

    assert mark(run, "failed").state == "failed"
    assert world.states(run) == {"a": "success"}

    retry_run("dag", run.run_key)
    world.stack.advance(minutes=1)
    assert (world.state(run), len(world.jobs(run))) == ("success", 1)


# The past.


@pytest.mark.parametrize("task", ["a", None])
def test_mark_lets_runs_go_on_that_waited_for_it_as_their_past(
    world: World, task: str | None
) -> None:
    """The next run begins within seconds, and the sweep is not needed for it."""
    world.emr.next_outcome("dag", "a", FAILED)
    world.register(hourly("a"))
    world.stack.advance(minutes=1)
    first, second = world.stack.runs("dag")
    assert (first.state, second.state) == ("failed", "queued")

    mark(first, "success", task)
    world.stack.advance(seconds=10)

    assert [world.state(run) for run in (first, second)] == ["success", "success"]


# Refusals.


@pytest.mark.parametrize(
    ("task", "state", "why", "said"),
    [
        ("z", "success", "x", "DAG 'dag' has no task 'z' in this run; it has a"),
        ("a", "success", "x", "task 'a' of run manual__.* is already success"),
        (None, "success", "x", "run manual__.* of DAG 'dag' is already success"),
        (None, "failed", " ", "give a reason for the mark"),
        ("a", "failed", "x" * 501, "give a reason for the mark, in at most 500 characters"),
        ("a", "skipped", "x", "'skipped' is not a valid mark: use success or failed"),
    ],
)
def test_mark_that_makes_no_sense_is_refused(
    world: World, task: str | None, state: str, why: str, said: str
) -> None:
    """The refusal names the thing, and nothing has changed."""
    run = world.start(make("a"))
    world.stack.advance(minutes=1)
    before = world.again(run).rev
    with pytest.raises(RefusedError, match=said):
        mark(run, state, task, why=why)
    assert world.again(run).rev == before


def test_run_that_is_being_ended_cannot_be_marked(world: World) -> None:
    """What it will be is decided already."""
    world.emr.next_outcome("dag", "a", HANGS)
    run = world.start(make("a"))
    world.stack.advance(minutes=1)
    cancel_run("dag", run.run_key)
    with pytest.raises(RefusedError, match="is being ended; try again when it is"):
        mark(run, "success")
    world.stack.advance(minutes=1)
    assert world.state(run) == "cancelled"


def test_task_outside_its_own_dates_cannot_be_marked(world: World) -> None:
    """It is not part of the run."""
    later = {"b": {"start_date": BEGIN.add(days=1)}}
    dag = make("a", "b", options=later, start_date=BEGIN.subtract(days=1))
    run = world.start(dag, logical_date=BEGIN.subtract(hours=3))
    with pytest.raises(RefusedError, match="task 'b' is not part of run"):
        mark(run, "success", "b")
    world.stack.advance(minutes=1)
    mark(run, "failed")
    mark(run, "success")
    world.stack.advance(minutes=1)
    assert world.states(run) == {"a": "success"}
