"""Steps that wait for a limit are not forgotten, and hold up nobody for longer than they must."""

from typing import Any
from unittest.mock import patch

import pendulum
import pytest
from botocore.exceptions import ClientError

from lamplighter import DAG, SparkTask, queues, runtime
from lamplighter.runs import advance
from lamplighter.store import limits
from lamplighter.store.models import DagVersions
from lamplighter_local.deliveries import next_delivery
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_operations.repair import find_limit_drift
from lamplighter_operations.runs import cancel_run, clear_run, mark_step
from tests.tools.checked_deployment import LocalDeployment
from tests.tools.executor_capacity import capacity

NINE = pendulum.datetime(2026, 1, 5, 9)
ONE_A_SECOND = {"job_starts_per_second": 1, "job_start_burst": 1}
STARTS = "starts:emr-serverless"


def dag(dag_id: str, *tasks: str, **options: Any) -> DAG:
    """Return a DAG of tasks that depend on nothing, which runs when someone asks."""
    with DAG(dag_id, schedule=None) as made:
        for task in tasks or ("step",):
            SparkTask(task, job="jobs.any:run", **options)
    return made


def state(lamp: LocalDeployment, dag_id: str) -> str:
    """Return the state of the newest run of a DAG."""
    return lamp.runs(dag_id)[-1].state


# Decisions that were made over and over again.


def test_throttled_start_gives_its_slot_back_and_waits_in_one_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The slot that a throttled step gives back is there for it when it is decided upon again."""
    emr = FakeEmr()
    with LocalDeployment(
        [dag("one", pool="db")], at=NINE, executor=emr, settings=ONE_A_SECOND
    ) as lamp:
        lamp.set_pool("db", 1)
        emr.refuse_next("StartJobRun", "ThrottlingException")
        lamp.trigger("one")
        lamp.advance(seconds=10)
        assert state(lamp, "one") == "success"
    assert "contended" not in caplog.text


def test_step_that_cannot_be_prepared_leaves_its_slot_to_the_next() -> None:
    """A template that fails takes no slot away from the other steps of its run."""
    with DAG("one", schedule=None) as made:
        SparkTask("a", job="jobs.any:run", pool="db", arguments=["{{ ds }}"])
        SparkTask("b", job="jobs.any:run", pool="db")
    with LocalDeployment([made], at=NINE) as lamp:
        lamp.set_pool("db", 1)
        lamp.trigger("one", logical_date=None)
        lamp.advance(minutes=1)
        run = lamp.runs("one")[-1]
        assert (run.step("a").state, run.step("b").state) == ("failed", "success")


def test_step_takes_what_another_gives_back_in_the_same_write() -> None:
    """A step that is ready because another was refused finds the slot that this one had."""
    with DAG("one", schedule=None) as made:
        first = SparkTask("a", job="jobs.any:run", pool="db")
        first >> SparkTask("b", job="jobs.any:run", pool="db", trigger_rule="all_done")
    emr = FakeEmr()
    with LocalDeployment([made], at=NINE, executor=emr) as lamp:
        lamp.set_pool("db", 1)
        emr.refuse_next("StartJobRun", "ValidationException")
        lamp.trigger("one")
        lamp.advance(seconds=10)
        run = lamp.runs("one")[-1]
        assert (run.step("a").state, run.step("b").state) == ("failed", "success")


# Those behind a step that does not start.


def wait_behind(lamp: LocalDeployment, first: str, others: list[str]) -> None:
    """Let `holder` hold a pool of two, the first DAG wait for it and the others behind it."""
    lamp.set_pool("db", 2)
    lamp.takes("holder", "step", hours=2)
    for dag_id in ("holder", first, *others):
        lamp.trigger(dag_id)
        lamp.advance(seconds=1)


def test_cancelled_step_lets_those_behind_it_start() -> None:
    """One slot is free, but who is next needs two: when it is cancelled, the next one starts."""
    dags = [dag("holder", pool="db"), dag("big", pool="db", pool_slots=2), dag("small", pool="db")]
    with LocalDeployment(dags, at=NINE) as lamp:
        wait_behind(lamp, "big", ["small"])
        assert (state(lamp, "big"), state(lamp, "small")) == ("queued", "queued")
        cancel_run("big", lamp.runs("big")[-1].run_key)
        lamp.advance(seconds=30)
        assert state(lamp, "small") == "success"


def test_marked_step_lets_those_behind_it_start() -> None:
    """As above, for a step that is marked."""
    dags = [dag("holder", pool="db"), dag("big", pool="db", pool_slots=2), dag("small", pool="db")]
    with LocalDeployment(dags, at=NINE) as lamp:
        wait_behind(lamp, "big", ["small"])
        key = lamp.runs("big")[-1].run_key
        mark_step("big", key, "step", "success", why="it is done", by="ada")
        lamp.advance(seconds=30)
        assert state(lamp, "small") == "success"


def test_run_that_cannot_be_read_does_not_hold_up_a_pool() -> None:
    """Who is next can never be advanced, and a message was lost: the others start all the same."""
    broken = dag("broken", pool="db", priority_weight=9)
    dags = [dag("holder", pool="db", pool_slots=2), broken, dag("small", pool="db")]
    with LocalDeployment(dags, at=NINE) as lamp:
        wait_behind(lamp, "broken", ["small"])
        for version in DagVersions.query("broken"):
            version.delete()
        runtime.current().caches.clear()
        cancel_run("holder", lamp.runs("holder")[-1].run_key)
        lamp.advance(minutes=5)
        assert state(lamp, "small") == "success"

        lamp.trigger("small")
        with patch("lamplighter.queues.send_start", lambda *_, **__: None):
            lamp.run_until_idle()  # the message that there is room is lost
        lamp.advance(hours=2)
        assert state(lamp, "small") == "success"


# Messages that are lost, and indexes that are behind.


def test_freed_slot_whose_message_is_lost_is_found_by_the_next_sweep() -> None:
    """Who frees a slot dies before it can say so: nobody waits longer than until the sweep."""
    dags = [dag("holder", pool="db"), dag("small", pool="db")]
    with LocalDeployment(dags, at=NINE) as lamp:
        lamp.set_pool("db", 1)
        lamp.takes("holder", "step", seconds=20)
        lamp.trigger("holder")
        lamp.trigger("small")
        lamp.advance(seconds=10)
        with patch("lamplighter.queues.send_start", lambda *_, **__: None):
            lamp.advance(seconds=20)
        assert state(lamp, "small") == "queued"
        lamp.advance(minutes=5)
        assert state(lamp, "small") == "success"


def test_freed_slot_is_given_to_a_step_that_the_index_does_not_know_yet() -> None:
    """The slot is freed right after the step began to wait, and before the index has it."""
    dags = [dag("holder", pool="db"), dag("small", pool="db")]
    with LocalDeployment(dags, at=NINE) as lamp:
        lamp.set_pool("db", 1)
        lamp.takes("holder", "step", seconds=2)
        lamp.trigger("holder")
        lamp.trigger("small")
        lamp.advance(seconds=1)
        with patch("lamplighter.store.limits.first_waiting", lambda *_: []):
            lamp.advance(seconds=3)
        assert state(lamp, "small") == "queued"
        lamp.advance(seconds=20)
        assert state(lamp, "small") == "success"


def test_steps_that_wait_start_after_a_call_that_failed() -> None:
    """DynamoDB is throttled while a slot is given to the next: the message comes again."""
    dags = [dag("holder", pool="db"), dag("small", pool="db")]
    with LocalDeployment(dags, at=NINE) as lamp:
        lamp.set_pool("db", 1)
        lamp.takes("holder", "step", seconds=20)
        lamp.trigger("holder")
        lamp.trigger("small")
        lamp.advance(seconds=10)
        error = ClientError({"Error": {"Code": "ThrottlingException"}}, "GetItem")
        with patch.object(advance, "advance", side_effect=error):
            lamp.advance(seconds=12)
        lamp.advance(seconds=30)
        assert state(lamp, "small") == "success"


# Starts.


def test_steps_of_a_full_pool_reserve_no_starts() -> None:
    """Of twenty steps that wait for one slot, only the one that gets it needs a start."""
    dags = [dag(f"pooled{each}", pool="db") for each in range(20)]
    with LocalDeployment([*dags, dag("other")], at=NINE, settings=ONE_A_SECOND) as lamp:
        for made in dags:
            lamp.trigger(made.dag_id)
        lamp.run_until_idle()
        lamp.trigger("other")  # takes the start that is there
        lamp.run_until_idle()
        lamp.set_pool("db", 1)
        lamp.run_until_idle()
        row = limits.read_limit(STARTS)
        assert row is not None
        assert row.last_start_at <= lamp.now.add(seconds=2)
        lamp.advance(minutes=5)
        assert {state(lamp, made.dag_id) for made in dags} == {"success"}


def test_reserved_start_is_not_used_by_another_step_of_the_run() -> None:
    """A step that becomes ready reserves a start of its own, and the one that waits has its."""
    with DAG("one", schedule=None) as made:
        SparkTask("b", job="jobs.any:run")
        SparkTask("c", job="jobs.any:run")
        SparkTask("a", job="jobs.any:run", pool="db", priority_weight=5)
    with LocalDeployment([made], at=NINE, settings=ONE_A_SECOND) as lamp:
        lamp.trigger("one")
        lamp.run_until_idle()  # b has started, c waits for its start, a for a pool
        with patch("lamplighter.queues.send_start", lambda *_, **__: None):
            lamp.set_pool("db", 1)
        lamp.advance(minutes=1)
        run = lamp.runs("one")[-1]
        assert (run.step("b").state, run.step("c").state) == ("success", "success")


def test_start_that_is_reserved_for_now_is_announced_a_second_later() -> None:
    """When the message comes, the index knows the step that waits."""
    with LocalDeployment([dag("one")], at=NINE) as lamp:
        queues.send_start(STARTS, at=lamp.now)
        at = next_delivery(lamp.queue_url("submits"))
        assert at is not None
        assert at >= NINE.add(seconds=1)


# What rows say.


def test_cleared_step_that_waits_and_is_cancelled_says_why() -> None:
    """It had no error before, and says only that it was not started."""
    with LocalDeployment([dag("one", pool="db")], at=NINE) as lamp:
        lamp.set_pool("db", 1)
        key = lamp.trigger("one").run_key
        lamp.advance(minutes=1)
        lamp.set_pool("db", 0)
        clear_run("one", key)
        lamp.advance(seconds=5)
        cancel_run("one", key)
        lamp.advance(seconds=5)
        step = lamp.runs("one")[-1].step("step")
        assert "None" not in (step.error or "")


def test_fractions_of_capacity_are_given_back_whole() -> None:
    """Three tenths in one write and one tenth three times are the same; then all is free."""
    dags = [dag("one", "a", "b", "c"), dag("all", driver_cores=10)]
    with capacity({"memory_gb": 1}, {"memory_gb": 0.1}), LocalDeployment(dags, at=NINE) as lamp:
        lamp.trigger("one")
        lamp.takes("one", "a", seconds=20)
        lamp.advance(minutes=1)
        lamp.trigger("all")
        lamp.advance(minutes=1)
        assert state(lamp, "all") == "success"


def test_fractions_of_capacity_that_are_held_are_no_drift() -> None:
    """The sum of what six steps hold is what is missing, to the last digit."""
    made = dag("one", *"abcdef")
    of_all = {"vcpus": 7 * 1.1}  # a bit more than 7.7
    with capacity(of_all, {"vcpus": 1.1}), LocalDeployment([made], at=NINE) as lamp:
        for task in "abcdef":
            lamp.takes("one", task, minutes=5)
        lamp.trigger("one")
        lamp.advance(minutes=1)
        assert find_limit_drift() == []
        lamp.check_invariants()


def test_step_behind_a_mark_of_failure_is_not_started() -> None:
    """A step waits, and then what it depends on is marked as failed: it is upstream_failed."""
    with DAG("one", schedule=None) as made:
        SparkTask("a", job="jobs.any:run") >> SparkTask("b", job="jobs.any:run", pool="db")
    with LocalDeployment([made], at=NINE) as lamp:
        key = lamp.trigger("one").run_key
        lamp.advance(seconds=10)
        assert lamp.runs("one")[-1].step("b").state == "scheduled"
        mark_step("one", key, "a", "failed", why="the data is wrong", by="ada")
        lamp.advance(seconds=10)
        run = lamp.runs("one")[-1]
        assert (run.state, run.step("b").state) == ("failed", "upstream_failed")
