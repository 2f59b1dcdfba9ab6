"""Steps that share a limit: starts of jobs, pools, and the capacity of the executor."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import pendulum
import pytest
from pendulum import DateTime

from lamplighter import DAG, SparkTask, aws
from lamplighter.errors import RefusedError
from lamplighter.store import limits
from lamplighter_local import LocalDeployment
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_operations import pools
from lamplighter_operations.runs import cancel_run
from lamplighter_operations.views import Run
from tests.tools.executor_capacity import capacity

AT = "2026-01-01T00:59:00Z"
DUE = pendulum.datetime(2026, 1, 1, 1)
PACED = {"job_starts_per_second": 1, "job_start_burst": 5}


def hourly(number: int, **options: object) -> list[DAG]:
    """Return DAGs of one task that are due at the same instant."""
    dags = []
    for each in range(number):
        start = pendulum.datetime(2026, 1, 1)
        with DAG(f"dag{each:03}", schedule="0 * * * *", start_date=start) as dag:
            SparkTask("step", job="jobs.any:run", **options)  # type: ignore[arg-type] # as given
        dags.append(dag)
    return dags


def starts(lamp: LocalDeployment) -> list[DateTime]:
    """Return when jobs were started."""
    assert isinstance(lamp.executor, FakeEmr)
    return sorted(job.created_at for job in lamp.executor.jobs)


def most_at_once(lamp: LocalDeployment) -> int:
    """Return how many jobs were live at the same time at most."""
    assert isinstance(lamp.executor, FakeEmr)
    moments = []
    for job in lamp.executor.jobs:
        moments += [(job.created_at, 1), (job.ended_at or pendulum.datetime(9999, 1, 1), -1)]
    live, most = 0, 0
    for _, change in sorted(moments, key=lambda each: (each[0], each[1])):
        live += change
        most = max(most, live)
    return most


def run_of(lamp: LocalDeployment, dag_id: str) -> Run:
    """Return the only run of a DAG."""
    (run,) = lamp.runs(dag_id)
    return run


def states(lamp: LocalDeployment, dags: Sequence[DAG]) -> set[str]:
    """Return the states of all runs."""
    return {run.state for dag in dags for run in lamp.runs(dag.dag_id)}


# Starts.


def test_starts_beyond_the_burst_follow_at_the_rate() -> None:
    """Due together, five start at once and the others one a second, none of them late."""
    dags = hourly(30)
    with LocalDeployment(dags, at=AT, settings=PACED) as lamp:
        lamp.advance(minutes=10)
        found = starts(lamp)
        assert states(lamp, dags) == {"success"}
        lamp.check_invariants()
    assert found[:5] == [DUE] * 5
    assert found[5:] == [DUE.add(seconds=second) for second in range(1, 26)]


def test_step_that_waits_for_a_start_says_so() -> None:
    """A step is scheduled until it may start, spends no try, and its run is queued."""
    dags = hourly(6)
    with LocalDeployment(dags, at=AT, settings=PACED) as lamp:
        lamp.advance(to=DUE)
        (waiting,) = [dag.dag_id for dag in dags if run_of(lamp, dag.dag_id).state == "queued"]
        step = run_of(lamp, waiting).step("step")
        assert (step.state, step.try_number, step.waits_for) == (
            "scheduled",
            0,
            "starts:emr-serverless",
        )
        lamp.advance(seconds=30)
        assert run_of(lamp, waiting).step("step").waits_for is None


def test_heavier_steps_start_first() -> None:
    """Among those that wait for a start, the weight decides, not who came first."""
    dags = [*hourly(20), *_weighted(20, 3)]
    with LocalDeployment(dags, at=AT, settings={**PACED, "job_start_burst": 1}) as lamp:
        lamp.advance(minutes=10)
        assert isinstance(lamp.executor, FakeEmr)
        order = [job.dag for job in sorted(lamp.executor.jobs, key=lambda job: job.created_at)]
    assert max(order.index(f"heavy{each}") for each in range(3)) < 10


def _weighted(weight: int, number: int) -> Iterator[DAG]:
    for each in range(number):
        start = pendulum.datetime(2026, 1, 1)
        with DAG(f"heavy{each}", schedule="0 * * * *", start_date=start) as dag:
            SparkTask("step", job="jobs.any:run", priority_weight=weight)
        yield dag


def test_throttled_start_slows_all_down_and_spends_no_try() -> None:
    """Someone else uses up the quota: the step waits again, and starts come at half the rate."""
    dags = hourly(8)
    emr = FakeEmr()
    with LocalDeployment(dags, at=AT, executor=emr, settings=PACED) as lamp:
        emr.refuse_next("StartJobRun", "ThrottlingException", times=2)
        lamp.advance(minutes=5)
        found = starts(lamp)
        assert states(lamp, dags) == {"success"}
        tries = {run_of(lamp, dag.dag_id).step("step").try_number for dag in dags}
        lamp.check_invariants()
    assert tries == {1}
    assert emr.doubles() == []
    assert found[-1] >= DUE.add(seconds=8)


def test_reserved_start_whose_message_is_lost_is_found_by_the_sweep() -> None:
    """Nothing but rows is left of those that wait, and they start all the same."""
    dags = hourly(8)
    with LocalDeployment(dags, at=AT, settings=PACED) as lamp:
        lamp.advance(to=DUE)
        with lamp.in_own_runtime():
            url = lamp.stack.settings.queue_url("submits")
            aws.client("sqs").purge_queue(QueueUrl=url)
        lamp.advance(minutes=30)
        assert states(lamp, dags) == {"success"}


def test_paused_dag_gives_its_turn_to_others() -> None:
    """A step of a paused DAG leaves the queue, and starts when the DAG goes on."""
    dags = hourly(3)
    with LocalDeployment(dags, at=AT, settings={**PACED, "job_start_burst": 1}) as lamp:
        lamp.advance(to=DUE)
        waiting = [dag.dag_id for dag in dags if run_of(lamp, dag.dag_id).state == "queued"]
        lamp.pause(waiting[0])
        lamp.advance(minutes=5)
        assert [run_of(lamp, dag_id).state for dag_id in waiting] == ["queued", "success"]
        lamp.unpause(waiting[0])
        lamp.advance(minutes=5)
        assert run_of(lamp, waiting[0]).state == "success"


def test_cancelled_run_leaves_the_queue() -> None:
    """A run that is cancelled while its step waits is over at once, and holds nobody up."""
    dags = hourly(3)
    with LocalDeployment(dags, at=AT, settings={**PACED, "job_start_burst": 1}) as lamp:
        lamp.advance(to=DUE)
        victim = next(run for dag in dags if (run := run_of(lamp, dag.dag_id)).state == "queued")
        with lamp.in_own_runtime():
            cancel_run(victim.dag_id, victim.run_key)
        lamp.advance(minutes=5)
        assert sorted(run_of(lamp, dag.dag_id).state for dag in dags) == [
            "cancelled",
            "success",
            "success",
        ]
        with lamp.in_own_runtime():
            assert limits.count_waiting("starts:emr-serverless") == 0


# Pools.


def test_pool_is_never_exceeded_and_all_steps_finish() -> None:
    """Ten steps of different DAGs share two slots."""
    dags = hourly(10, pool="db")
    with LocalDeployment(dags, at=AT) as lamp:
        lamp.set_pool("db", 2)
        lamp.advance(minutes=10)
        assert states(lamp, dags) == {"success"}
        assert most_at_once(lamp) == 2
        assert [(pool.used, pool.waiting) for pool in lamp.pools()] == [(0, 0)]


def test_step_of_a_pool_that_does_not_exist_waits_for_it() -> None:
    """The step says what it waits for, and starts when someone creates the pool."""
    dags = hourly(1, pool="later")
    with LocalDeployment(dags, at=AT) as lamp:
        lamp.advance(minutes=20)
        run = run_of(lamp, "dag000")
        assert run.step("step").waits_for == "pool:later"
        lamp.set_pool("later", 1)
        lamp.advance(minutes=1)
        assert run_of(lamp, "dag000").state == "success"


def test_step_takes_as_many_slots_as_it_says() -> None:
    """Of five slots, two steps with two slots each run at once."""
    dags = hourly(6, pool="db", pool_slots=2)
    with LocalDeployment(dags, at=AT) as lamp:
        lamp.set_pool("db", 5)
        lamp.advance(minutes=10)
        assert states(lamp, dags) == {"success"}
        assert most_at_once(lamp) == 2


def test_step_that_needs_more_than_a_pool_has_fails_with_the_reason() -> None:
    """What can never start does not wait for ever, nor hold up those behind it."""
    dags = hourly(1, pool="db", pool_slots=3)
    with LocalDeployment(dags, at=AT) as lamp:
        lamp.set_pool("db", 2)
        lamp.advance(minutes=5)
        run = run_of(lamp, "dag000")
        assert run.state == "failed"
        assert run.error == (
            "it needs 3 slots of pool:db, which has 2: make the step smaller or the limit larger"
        )


def test_pool_made_smaller_is_respected_when_steps_end() -> None:
    """Steps that run keep their slots; nobody starts before enough of them are free."""
    dags = hourly(6, pool="db")
    emr = FakeEmr(takes_seconds=60)
    with LocalDeployment(dags, at=AT, executor=emr) as lamp:
        lamp.set_pool("db", 3)
        lamp.advance(to=DUE.add(seconds=10))
        assert lamp.set_pool("db", 1).used == 3
        lamp.advance(minutes=10)
        later = [job for job in emr.jobs if job.created_at > DUE]
        assert len(emr.jobs) == 6
        assert all(
            one.ended_at is not None and one.ended_at <= two.created_at
            for one, two in pairwise(later)
        )


def test_pool_in_use_is_not_deleted() -> None:
    """A pool goes only when nobody holds or wants its slots."""
    dags = hourly(2, pool="db")
    emr = FakeEmr(takes_seconds=60)
    with LocalDeployment(dags, at=AT, executor=emr) as lamp, lamp.in_own_runtime():
        lamp.set_pool("db", 1)
        lamp.advance(to=DUE.add(seconds=10))
        with pytest.raises(RefusedError, match="steps wait for it"):
            pools.delete_pool("db")
        lamp.advance(seconds=70)
        with pytest.raises(RefusedError, match="is in use"):
            pools.delete_pool("db")
        lamp.advance(minutes=10)
        pools.delete_pool("db")
        assert lamp.pools() == []


# Capacity.


def test_jobs_never_ask_for_more_than_the_capacity() -> None:
    """Steps wait in our queue until those before them have ended; none is rejected."""
    dags = hourly(12)
    with (
        capacity({"vcpus": 16, "memory_gb": 64}, {"vcpus": 4, "memory_gb": 8}),
        LocalDeployment(dags, at=AT) as lamp,
    ):
        lamp.advance(minutes=10)
        assert states(lamp, dags) == {"success"}
        assert most_at_once(lamp) == 4
        with lamp.in_own_runtime():
            (row,) = limits.all_counters()
            assert limits.free_of(row) == {"vcpus": 16, "memory_gb": 64}


@pytest.mark.parametrize("limited", ["spark_vcpus", "spark_memory_gb", "spark_disk_gb"])
def test_limit_on_one_resource_leaves_the_others_unlimited(limited: str) -> None:
    """A setting of 0 means no limit, also beside one that is set."""
    with LocalDeployment(hourly(3), at=AT, settings={limited: 200}) as lamp:
        lamp.advance(minutes=10)
        assert [run_of(lamp, f"dag{each:03}").state for each in range(3)] == ["success"] * 3
        lamp.check_invariants()


def test_large_steps_are_not_starved_by_small_ones() -> None:
    """Whoever is next waits for enough room, and nobody who comes later takes it away."""
    large = hourly(2, driver_cores=4)
    with (
        capacity({"vcpus": 16}, {"vcpus": 4}),
        LocalDeployment([*large, *_small(20)], at=AT) as lamp,
    ):
        lamp.advance(minutes=30)
        assert states(lamp, large) == {"success"}
        assert {run.state for each in range(20) for run in lamp.runs(f"small{each}")} == {"success"}


def _small(number: int) -> Iterator[DAG]:
    for each in range(number):
        start = pendulum.datetime(2026, 1, 1)
        with DAG(f"small{each}", schedule="0 * * * *", start_date=start) as dag:
            SparkTask("step", job="jobs.any:run")
        yield dag


def test_capacity_that_was_changed_by_a_deployment_counts_at_once() -> None:
    """The row follows the setting; what jobs hold meanwhile stays held."""
    dags = hourly(8)
    emr = FakeEmr(takes_seconds=60)
    with LocalDeployment(dags, at=AT, executor=emr) as lamp:
        with capacity({"vcpus": 4}, {"vcpus": 4}):
            lamp.advance(to=DUE.add(seconds=10))
            assert len(emr.live()) == 1
        with capacity({"vcpus": 12}, {"vcpus": 4}):
            lamp.advance(minutes=10)
        assert states(lamp, dags) == {"success"}
        assert most_at_once(lamp) == 3
