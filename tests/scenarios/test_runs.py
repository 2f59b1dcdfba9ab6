"""Runs from their first job to their end: retries, limits, time, people, and what they tell."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, AssetAlias
from lamplighter.errors import RefusedError
from lamplighter.executors.emr_workers import list_prices
from lamplighter.store.catalog import delete_variable
from lamplighter.store.dags import read_dag
from lamplighter.store.models import Runs
from lamplighter.timetables.trigger import CronPartitionTimetable
from lamplighter_local.emr.fake_emr import EventFaults, Outcome
from lamplighter_operations.pause import pause, unpause
from lamplighter_operations.runs import cancel_run, clear_run, retry_run
from tests.scenarios.run_acts import BEGIN, World, make, new_world, seconds_run
from tests.tools.reports import put_signed_report

FAILED, HANGS = Outcome.failed("boom"), Outcome.hangs()


@pytest.fixture(scope="module")
def only_world() -> Iterator[World]:
    """Yield a deployment for the module."""
    with new_world() as world:
        yield world


@pytest.fixture
def world(only_world: World) -> Iterator[World]:
    """Yield the deployment as new; when the test is over, all must be sound."""
    only_world.begin_again()
    yield only_world
    only_world.require_sound()


def script(world: World, task: str, *outcomes: Outcome, dag: str = "dag") -> None:
    """Let the next jobs of a task end like this."""
    for outcome in outcomes:
        world.emr.next_outcome(dag, task, outcome)


# The plain way.


def test_run_of_three_tasks_goes_through_them_in_order(world: World) -> None:
    """Each task begins when the one before is done, and the run ends with the last."""
    run = world.start(make("a>b>c"))
    world.stack.advance(minutes=1)

    assert world.order(run) == ["a", "b", "c"]
    assert world.states(run) == dict.fromkeys("abc", "success")
    done = world.again(run)
    assert done.state == "success"
    assert done.target_state is None
    assert done.reason is None
    assert done.started_at == BEGIN
    assert BEGIN.add(seconds=3) <= done.ended_at <= BEGIN.add(seconds=10)


def test_run_without_any_task_is_over_at_once(world: World) -> None:
    """A DAG without tasks has successful runs and no jobs."""
    run = world.start(make())

    assert world.state(run) == "success"
    assert world.emr.jobs == []


def test_step_under_way_says_which_job_it_has(world: World) -> None:
    """While a job runs, its step names it and says since when."""
    script(world, "a", HANGS)
    run = world.start(make("a"))
    world.stack.advance(seconds=5)

    step = world.step(run, "a")
    assert (step.state, step.try_number, step.submission) == ("running", 1, 1)
    assert step.job_run_id == world.jobs(run)[0].job_run_id
    assert step.started_at == BEGIN.add(seconds=0.5)


# Retries.


def test_failed_step_is_tried_again_after_its_delay(world: World) -> None:
    """Each try is a job of its own, after the delay, and all of them are told of on the step."""
    script(world, "a", FAILED, FAILED)
    run = world.start(make("a", options={"a": {"retries": 2, "retry_delay": 60}}))
    world.stack.advance(minutes=10)

    assert world.states(run) == {"a": "success"}
    assert all(60 <= pause < 63 for pause in world.retry_attempts(run, "a"))
    step = world.step(run, "a")
    assert (step.try_number, step.submission) == (3, 3)
    assert step.error is None
    assert [(t["try_number"], t["state"]) for t in step.tries] == [
        (1, "failed"),
        (2, "failed"),
        (3, "success"),
    ]
    assert "boom" in step.tries[0]["error"]


def test_step_without_tries_left_has_failed(world: World) -> None:
    """After the last try the step has failed with the error of that try, and so has the run."""
    script(world, "a", Outcome.failed("first"), Outcome.failed("second"))
    run = world.start(make("a", options={"a": {"retries": 1, "retry_delay": 5}}))
    world.stack.advance(minutes=10)

    assert (world.state(run), world.states(run)) == ("failed", {"a": "failed"})
    assert len(world.jobs(run)) == 2
    assert world.step(run, "a").error == "second"


def test_retry_after_an_hour_comes_without_a_message(world: World) -> None:
    """A delay longer than a message can wait is kept by the sweep."""
    script(world, "a", FAILED)
    run = world.start(make("a", options={"a": {"retries": 1, "retry_delay": 3_600}}))
    world.stack.advance(hours=3)

    assert world.state(run) == "success"
    [waited] = world.retry_attempts(run, "a")
    assert 3_600 <= waited <= 3_600 + 330


def test_retries_with_back_off_wait_longer_each_time(world: World) -> None:
    """Every pause is at least twice the first one of its kind, and less than as much again."""
    script(world, "a", FAILED, FAILED, FAILED)
    options = {"retries": 3, "retry_delay": 20, "retry_exponential_backoff": 2}
    run = world.start(make("a", options={"a": options}))
    world.stack.advance(hours=1)

    assert world.state(run) == "success"
    for waited, base in zip(world.retry_attempts(run, "a"), (20, 40, 80), strict=True):
        assert base <= waited < 2 * base + 3


def test_back_off_is_never_longer_than_its_limit(world: World) -> None:
    """The limit that an author gave holds for every pause."""
    script(world, "a", *[FAILED] * 4)
    options = {
        "retries": 4,
        "retry_delay": 20,
        "retry_exponential_backoff": 10,
        "max_retry_delay": timedelta(seconds=45),
    }
    run = world.start(make("a", options={"a": options}))
    world.stack.advance(hours=1)

    assert world.state(run) == "success"
    assert len(world.retry_attempts(run, "a")) == 4
    assert all(waited < 48 for waited in world.retry_attempts(run, "a"))


# Time limits.


def test_step_beyond_a_short_limit_is_ended(world: World) -> None:
    """A limit shorter than EMR's own is kept by us, within seconds."""
    script(world, "a", HANGS)
    run = world.start(make("a", options={"a": {"execution_timeout": timedelta(seconds=30)}}))
    world.stack.advance(minutes=10)

    assert (world.state(run), world.states(run)) == ("failed", {"a": "failed"})
    assert world.step(run, "a").error == "execution_timeout: it ran for longer than 0:00:30"
    [job] = world.jobs(run)
    assert 30 <= seconds_run(job) <= 35


def test_step_beyond_its_limit_is_tried_again(world: World) -> None:
    """Running for too long is a failure like others: it is retried."""
    script(world, "a", HANGS)
    options = {"execution_timeout": timedelta(seconds=30), "retries": 1, "retry_delay": 10}
    run = world.start(make("a", options={"a": options}))
    world.stack.advance(minutes=10)

    assert world.state(run) == "success"
    assert len(world.jobs(run)) == 2


def test_step_beyond_a_long_limit_is_ended(world: World) -> None:
    """A longer limit is kept to the minute, by EMR or by us, and the step says what happened."""
    script(world, "a", HANGS)
    run = world.start(make("a", options={"a": {"execution_timeout": timedelta(minutes=10)}}))
    world.stack.advance(hours=1)

    assert (world.state(run), world.states(run)) == ("failed", {"a": "failed"})
    assert "longer than" in world.step(run, "a").error
    [job] = world.jobs(run)
    assert 600 <= seconds_run(job) <= 605


def test_time_in_the_queue_is_no_part_of_the_limit(world: World) -> None:
    """A job that waits for workers for longer than its limit is not ended for that."""
    world.emr.capacity = 1
    world.emr.takes("other", "a", minutes=5)
    world.start(make("a", dag_id="other"))
    world.register(make("a", dag_id="other"), make("a", options=_limited(seconds=60)))
    run = world.start("dag")
    world.stack.advance(minutes=20)

    assert world.state(run) == "success"


def _limited(**limit: float) -> dict[str, dict[str, Any]]:
    return {"a": {"execution_timeout": timedelta(**limit)}}


def test_run_beyond_its_limit_fails_with_its_jobs(world: World) -> None:
    """A run that takes too long is ended: its jobs are cancelled, and nothing new begins."""
    script(world, "a", HANGS)
    run = world.start(make("a>b", "c", dagrun_timeout=timedelta(seconds=60)))
    world.stack.advance(minutes=10)

    done = world.again(run)
    assert (done.state, done.reason) == (
        "failed",
        "dagrun_timeout: it ran for longer than 0:01:00",
    )
    assert world.states(run) == {"a": "failed", "c": "success"}
    assert world.order(run) == ["a", "c"]
    assert world.emr.live() == []
    assert "dagrun_timeout" in world.step(run, "a").error
    assert (done.ended_at - done.started_at).total_seconds() < 70


def test_run_beyond_its_limit_gives_up_its_retries(world: World) -> None:
    """A step that waits for its next try does not outlive its run."""
    script(world, "a", FAILED)
    options = {"a": {"retries": 3, "retry_delay": 3_600}}
    run = world.start(make("a", options=options, dagrun_timeout=timedelta(minutes=20)))
    world.stack.advance(hours=3)

    assert (world.state(run), world.states(run)) == ("failed", {"a": "failed"})
    assert len(world.jobs(run)) == 1
    assert "not retried: dagrun_timeout" in world.step(run, "a").error


def test_time_limit_of_run_does_not_count_its_time_in_line(world: World) -> None:
    """A run that waits for a slot has not begun."""
    world.emr.takes("dag", "a", minutes=5)
    dag = make("a", max_active_runs=1, dagrun_timeout=timedelta(minutes=6))
    first, second = world.start(dag, run_id="one"), world.start("dag", run_id="two")
    world.stack.advance(hours=1)

    assert [world.state(run) for run in (first, second)] == ["success", "success"]


@pytest.mark.parametrize("is_late", [True, False])
def test_short_limit_begins_when_the_job_does(world: World, is_late: bool) -> None:
    """A limit that began late, or of which no event told, is kept to within seconds."""
    if is_late:
        script(world, "a", Outcome.hangs())
        world.emr.capacity = 1
        world.emr.takes("other", "a", minutes=2)
        world.start(make("a", dag_id="other"))
        world.register(make("a", dag_id="other"), make("a", options=_limited(seconds=60)))
        run = world.start("dag")
    else:
        world.emr.events = EventFaults(drop=1.0)
        script(world, "a", HANGS)
        run = world.start(make("a", options=_limited(seconds=60)))
    world.stack.advance(minutes=30)

    [job] = world.jobs(run)
    assert 60 <= seconds_run(job) <= 70
    assert world.state(run) == "failed"


def test_run_that_failed_by_its_limit_alone_can_be_retried(world: World) -> None:
    """A run whose steps all succeeded, and which had no time for the others, goes on."""
    world.emr.takes("dag", "a", seconds=62)
    world.emr.refuse_next("CancelJobRun", "ThrottlingException", times=5)
    run = world.start(make("a>b", dagrun_timeout=timedelta(seconds=60)))
    world.stack.advance(hours=1)
    assert (world.state(run), world.states(run)) == ("failed", {"a": "success"})

    retry_run("dag", run.run_key)
    world.stack.advance(hours=1)

    assert (world.state(run), world.order(run)) == ("success", ["a", "b"])


# The past.


def hourly(*tasks: str, **arguments: Any) -> DAG:
    """Return a DAG of which two intervals have ended, each of whose steps needs the one before."""
    arguments.setdefault("default", {"depends_on_past": True})
    arguments.setdefault("max_active_runs", 3)
    start = datetime(2026, 1, 5, 10)
    return make(*tasks, schedule="0 * * * *", start_date=start, catchup=True, **arguments)


def test_step_waits_for_the_same_step_of_the_run_before(world: World) -> None:
    """While the step of the run before is under way, the next one has no job."""
    world.emr.takes("dag", "a", minutes=10)
    world.register(hourly("a"))
    world.stack.advance(minutes=8)

    first, second = world.stack.runs("dag")
    assert (world.states(first), world.states(second)) == ({"a": "running"}, {})

    world.stack.advance(minutes=30)
    assert [world.state(run) for run in (first, second)] == ["success", "success"]
    [job], [other] = world.jobs(first), world.jobs(second)
    assert job.ended_at is not None
    assert 0 <= (other.created_at - job.ended_at).total_seconds() < 5


def test_step_whose_past_failed_waits_until_that_is_mended(world: World) -> None:
    """A failure in the past holds up the present; a retry that succeeds lets it go on."""
    script(world, "a", FAILED)
    world.register(hourly("a>b"))
    world.stack.advance(minutes=30)
    first, second = world.stack.runs("dag")
    assert (world.state(first), world.states(second)) == ("failed", {})

    retry_run("dag", first.run_key)
    world.stack.advance(minutes=1)

    assert [world.state(run) for run in (first, second)] == ["success", "success"]


def test_step_whose_past_was_skipped_goes_on(world: World) -> None:
    """A skip is as good as a success for the run after."""
    script(world, "a", Outcome.skipped("nothing"))
    world.register(hourly("a"))
    world.stack.advance(minutes=5)

    assert [world.state(run) for run in world.stack.runs("dag")] == ["success", "success"]


def test_step_whose_past_was_skipped_without_a_job_goes_on_at_once(world: World) -> None:
    """A step that was skipped because of others frees the next run's as one with a job does."""
    script(world, "a", Outcome.skipped("nothing"))
    world.emr.takes("dag", "a", seconds=20)
    options = {"b": {"depends_on_past": True}}
    world.register(hourly("a>b", default={}, options=options, max_active_runs=2))
    world.emr.takes("dag", "a", seconds=1)
    world.stack.advance(minutes=20)

    first, second = world.stack.runs("dag")
    assert world.states(first) == {"a": "skipped", "b": "skipped"}
    skipped_at, [job] = world.step(first, "b").ended_at, world.jobs(second, "b")
    assert (job.created_at - skipped_at).total_seconds() < 30


def test_manual_run_is_no_past_for_a_dag_with_catchup(world: World) -> None:
    """Only runs of the schedule count where the schedule has no holes."""
    world.register(hourly("a"))
    world.stack.advance(minutes=5)
    script(world, "a", FAILED)
    asked = world.start("dag", logical_date=datetime(2026, 1, 5, 11, 30))
    world.stack.advance(hours=1)

    assert world.state(asked) == "failed"
    assert world.state(world.stack.runs("dag")[-1]) == "success"
    assert world.stack.runs("dag")[-1].logical_date == datetime(2026, 1, 5, 12)


def test_manual_run_is_a_past_for_a_dag_without_catchup(world: World) -> None:
    """Where the schedule skips what was missed, whichever run was before counts."""
    dag = make(
        "a",
        schedule="0 * * * *",
        start_date=datetime(2026, 1, 5, 11),
        catchup=False,
        default={"depends_on_past": True},
    )
    world.register(dag)
    world.stack.advance(minutes=5)
    script(world, "a", FAILED)
    world.start("dag", logical_date=datetime(2026, 1, 5, 11, 30))
    world.stack.advance(hours=1)

    newest = world.stack.runs("dag")[-1]
    assert newest.run_type == "scheduled"
    assert (world.state(newest), world.states(newest)) == ("queued", {})


def test_undated_run_has_no_past(world: World) -> None:
    """A run without a date waits for nobody."""
    script(world, "a", FAILED)
    world.register(hourly("a"))
    world.stack.advance(minutes=5)

    run = world.start("dag")
    world.stack.advance(minutes=5)

    assert world.state(run) == "success"


def test_new_task_has_no_past(world: World) -> None:
    """A task that the run before did not have yet waits for nothing."""
    world.register(hourly("a"))
    world.stack.advance(minutes=5)
    world.register(hourly("a", "b"))
    world.stack.advance(hours=1)

    assert world.states(world.stack.runs("dag")[-1]) == {"a": "success", "b": "success"}


# Places.


def test_run_has_no_more_steps_under_way_than_allowed(world: World) -> None:
    """Tasks beyond the limit wait for a place, and get it as others end."""
    world.emr.takes("dag", "a", minutes=9)
    run = world.start(make(*"abcdefg", max_active_tasks=2))
    for _ in range(10):
        assert len(world.emr.live()) <= 2
        world.stack.advance(seconds=1)
    world.stack.advance(minutes=20)

    assert world.state(run) == "success"
    assert world.order(run) == list("abcdefg")


def test_heavier_tasks_get_places_first(world: World) -> None:
    """Weight, with that of all that follows, decides who begins; then the name."""
    options = {"c": {"priority_weight": 10}, "e": {"priority_weight": 3}}
    run = world.start(make("a", "b>x>y>z", "c", "d", "e", options=options, max_active_tasks=1))
    world.stack.advance(minutes=20)

    # With all after it b weighs 4 and x 3, as much as e, whose name comes first.
    assert world.order(run) == ["c", "b", "e", "x", "y", "a", "d", "z"]


def test_step_up_for_retry_leaves_its_place_to_others(world: World) -> None:
    """While a step waits for its next try, another one has its place."""
    script(world, "a", FAILED)
    options = {"a": {"retries": 1, "retry_delay": 600, "priority_weight": 9}}
    run = world.start(make("a", "b", options=options, max_active_tasks=1))
    world.stack.advance(minutes=5)
    assert world.order(run) == ["a", "b"]

    world.stack.advance(minutes=20)
    assert world.state(run) == "success"


def test_run_that_waits_for_a_slot_is_not_started_by_the_sweep(world: World) -> None:
    """Looking at a run that has no slot starts nothing; its turn comes when another ends."""
    world.emr.takes("dag", "a", minutes=30)
    dag = make("a", max_active_runs=1)
    first, second, third = (
        world.start(each, run_id=run_id)
        for each, run_id in ((dag, "1"), ("dag", "2"), ("dag", "3"))
    )
    for _ in range(4):
        world.stack.advance(minutes=5)
        world.stack.sweep()
        world.stack.run_until_idle()
    assert [world.state(run) for run in (first, second, third)] == ["running", "queued", "queued"]
    assert len(world.emr.jobs) == 1

    world.stack.advance(hours=2)
    assert [job.run_key for job in world.emr.jobs] == ["~1", "~2", "~3"]
    assert world.state(third) == "success"


# What jobs say.


def test_job_that_finds_nothing_to_do_skips_what_follows(world: World) -> None:
    """A skipped step says why, and those after it are skipped without a job."""
    script(world, "a", Outcome.skipped("no files today"))
    run = world.start(make("a>b>c"))
    world.stack.advance(minutes=1)

    assert (world.state(run), world.states(run)) == ("success", dict.fromkeys("abc", "skipped"))
    assert world.step(run, "a").error == "no files today"
    assert world.order(run) == ["a"]


def test_failure_reaches_all_that_follows_but_not_the_others(world: World) -> None:
    """Tasks after a failure never run, tasks beside it do, and the run fails when all is done."""
    script(world, "a", FAILED)
    world.emr.takes("dag", "x", minutes=2)
    run = world.start(make("a>b>c", "x>y"))
    world.stack.advance(minutes=1)
    assert world.state(run) == "running"
    world.stack.advance(minutes=5)

    assert world.state(run) == "failed"
    assert world.states(run) == {
        "a": "failed",
        "b": "upstream_failed",
        "c": "upstream_failed",
        "x": "success",
        "y": "success",
    }
    assert world.order(run) == ["a", "x", "y"]


def test_failure_that_is_cleaned_up_after_is_no_failed_run(world: World) -> None:
    """A last task that runs whatever happened decides about the run."""
    script(world, "a", FAILED)
    run = world.start(make("a>b>end", options={"end": {"trigger_rule": "all_done"}}))
    world.stack.advance(minutes=1)

    assert world.state(run) == "success"
    assert world.order(run) == ["a", "end"]


def test_template_error_fails_the_step_without_a_job(world: World) -> None:
    """A template that cannot be filled in is no job at all, but a failed step that says why."""
    options = {"b": {"arguments": ["{{ ds }}"], "retries": 3}}
    run = world.start(make("a>b>c", "d", options=options))
    world.stack.advance(minutes=5)

    assert world.state(run) == "failed"
    assert world.states(run) == {
        "a": "success",
        "b": "failed",
        "c": "upstream_failed",
        "d": "success",
    }
    assert world.order(run) == ["a", "d"]
    error = world.step(run, "b").error
    assert error.startswith("task 'b': arguments: '{{ ds }}': 'ds' has no value")
    assert "no logical date" in error


def test_template_errors_of_all_tasks_end_the_run(world: World) -> None:
    """A run in which nothing can be started fails at once, and never was running."""
    options = {"arguments": ["{{ params.nope }}"]}
    run = world.start(make(*"abcdefgh", default=options, max_active_tasks=2))

    assert world.state(run) == "failed"
    assert world.states(run) == dict.fromkeys("abcdefgh", "failed")
    assert world.emr.jobs == []


def test_job_that_emr_refuses_costs_tries(world: World) -> None:
    """What EMR refuses as wrong is retried as its author says; the step has what EMR said."""
    conf = {f"spark.x{number}": "1" for number in range(101)}
    run = world.start(make("a>b", options={"a": {"spark_conf": conf, "retries": 2}}))
    world.stack.advance(minutes=30)

    step = world.step(run, "a")
    assert world.states(run) == {"a": "failed", "b": "upstream_failed"}
    assert "EMR Serverless refuses the job" in step.error
    assert (step.try_number, len(step.tries)) == (3, 3)
    assert world.emr.jobs == []


# Capacity and throttles.


def test_job_without_capacity_costs_no_try(world: World) -> None:
    """A job that never had workers is started again, later each time, and no try is spent."""
    script(world, "a", Outcome.capacity(), Outcome.capacity(), Outcome.queue_timeout())
    run = world.start(make("a"))
    world.stack.advance(hours=8)

    step = world.step(run, "a")
    assert (world.state(run), step.state) == ("success", "success")
    assert (step.try_number, step.submission) == (1, 4)
    assert step.capacity_since is None
    first, second, third = world.retry_attempts(run, "a")
    assert 60 <= first < 95
    assert first < second < 600
    assert 600 <= third < 905  # after the hours in EMR's own queue


def test_job_without_capacity_for_ever_fails_in_the_end(world: World) -> None:
    """Patience has a limit in time, after which the next failure costs a try."""
    script(world, "a", *[Outcome.capacity()] * 200)
    run = world.start(make("a"))
    world.stack.advance(hours=23, minutes=30)
    assert world.step(run, "a").try_number == 0

    world.stack.advance(hours=1)

    assert world.state(run) == "failed"
    assert world.step(run, "a").try_number == 1
    assert world.step(run, "a").error.startswith("no capacity since ")
    assert "maximumCapacity" in world.step(run, "a").error


def test_failure_of_a_job_that_ran_is_no_want_of_capacity(world: World) -> None:
    """A program whose own error speaks of capacity has had its try."""
    script(world, "a", Outcome("FAILED", details="disk capacity exceeded, quota reached"))
    run = world.start(make("a"))
    world.stack.advance(hours=1)

    assert world.state(run) == "failed"
    assert len(world.jobs(run)) == 1


@pytest.mark.parametrize("code", ["ThrottlingException", "ServiceQuotaExceededException"])
def test_throttled_start_is_postponed_and_costs_no_try(world: World, code: str) -> None:
    """A start that EMR has no time for comes later, as the same submission."""
    world.emr.refuse_next("StartJobRun", code, times=3)
    run = world.start(make("a", "b"))
    assert world.emr.jobs == []
    assert world.states(run) == {"a": "submitted", "b": "submitted"}

    world.stack.advance(minutes=10)

    assert world.state(run) == "success"
    assert world.order(run) == ["a", "b"]
    assert {(s.try_number, s.submission) for s in world.stack.steps(run).values()} == {(1, 1)}


def test_application_out_of_reach_is_tried_until_it_is_back(world: World) -> None:
    """A right that is missing for an hour delays a run by hardly more than that hour."""
    world.emr.refuse_next("StartJobRun", "AccessDeniedException", times=10)
    run = world.start(make("a"))
    world.stack.advance(hours=6)

    assert world.state(run) == "success"
    assert len(world.jobs(run)) == 1


def test_postponed_start_whose_template_fails_by_now_fails_the_step(world: World) -> None:
    """A variable that is gone when a start is repeated fails the step, and does not hold it up."""
    world.emr.refuse_next("StartJobRun", "ThrottlingException")
    run = world.start(make("a", options={"a": {"arguments": ["{{ var.value.data_root }}"]}}))

    delete_variable("data_root")
    world.stack.advance(hours=1)

    assert (world.state(run), world.states(run)) == ("failed", {"a": "failed"})
    assert world.emr.jobs == []


def test_job_of_another_deployment_is_left_alone(world: World) -> None:
    """A job on the same application whose context lies in another bucket is none of ours."""
    uri = "s3://elsewhere/jobs/theirs/x/load/1-0123456789ab/context.json"
    submit = {"entryPoint": "s3://x/y.py", "entryPointArguments": [uri]}
    world.emr.next_outcome("theirs", "load", Outcome(takes=60))
    world.emr.call(
        "StartJobRun",
        {
            "applicationId": world.emr.application_id,
            "clientToken": "t",
            "executionRoleArn": "arn:aws:iam::123456789012:role/jobs",
            "jobDriver": {"sparkSubmit": submit},
        },
    )
    world.stack.advance(minutes=5)

    assert [str(job.state) for job in world.emr.jobs] == ["SUCCESS"]


# Events that get lost.


def test_run_whose_job_events_are_lost_ends_by_the_sweep(world: World) -> None:
    """Without a single word from EventBridge all steps are done, only later."""
    world.emr.events = EventFaults(drop=1.0)
    script(world, "a", FAILED)
    run = world.start(make("a>b", options={"a": {"retries": 1, "retry_delay": 60}}))
    world.stack.advance(hours=4)

    assert world.state(run) == "success"
    assert world.order(run) == ["a", "a", "b"]


def test_job_events_doubled_late_and_shuffled_change_nothing(world: World) -> None:
    """Events in any order, twice and late, make the run that orderly ones make."""
    world.emr.events = EventFaults(double=0.5, late_seconds=90, is_shuffled=True, seed=5)
    script(world, "a", FAILED)
    default = {"retries": 1, "retry_delay": 10}
    run = world.start(make("a>b>c", "a>d", default=default))
    world.stack.advance(hours=2)

    assert world.state(run) == "success"
    assert sorted(world.order(run)) == ["a", "a", "b", "c", "d"]


# Outlets.

ORDERS, FX = Asset("orders"), Asset("fx")


def producer(*outlets: Asset | AssetAlias, **options: Any) -> DAG:
    """Return a DAG whose one task has outlets."""
    return make("load", dag_id="producer", options={"load": {"outlets": list(outlets), **options}})


def reporting(**outlets: dict[str, Any]) -> Outcome:
    """Return the end of a job that says something about its outlets."""
    return Outcome(report={"version": 1, "state": "success", "outlets": outlets, "aliases": {}})


def test_outlet_reaches_its_consumer_with_what_the_job_said(world: World) -> None:
    """The consumer's job sees the extra, and the DAG, run, task and try that produced it."""
    world.register(
        producer(ORDERS, retries=1, retry_delay=5), make("use", dag_id="user", schedule=ORDERS)
    )
    script(world, "load", FAILED, reporting(orders={"rows": 5}), dag="producer")
    run = world.start("producer")
    world.stack.advance(minutes=5)

    [used] = world.stack.runs("user")
    assert (world.state(used), used.run_type) == ("success", "asset_triggered")
    [event] = world.context(world.jobs(used)[0])["triggering_asset_events"]["orders"]
    assert event["asset"] == "orders"
    assert event["extra"] == {"rows": 5}
    assert event["source"] == {
        "dag_id": "producer",
        "run_id": run.run_id,
        "task_id": "load",
        "try_number": 2,
    }


def test_outlet_of_a_partitioned_run_carries_its_key(world: World) -> None:
    """Each event says which partition was updated, to the consumer's job as well."""
    hourly = CronPartitionTimetable("0 * * * *", timezone="UTC", key_format="%Y-%m-%dT%H")
    options = {"load": {"outlets": [ORDERS]}}
    world.register(
        make("load", dag_id="producer", schedule=hourly, start_date=BEGIN, options=options),
        make("use", dag_id="user", schedule=ORDERS),
    )
    world.stack.advance(hours=2, minutes=5)

    keys = ["2026-01-05T13", "2026-01-05T14"]
    assert [run.partition_key for run in world.stack.runs("producer")] == keys
    assert [event.partition_key for event in world.events("orders")] == keys
    used = [world.context(world.jobs(run)[0]) for run in world.stack.runs("user")]
    told = [context["triggering_asset_events"]["orders"] for context in used]
    assert [[event["partition_key"] for event in events] for events in told] == [
        [key] for key in keys
    ]
    world.require_sound()


def test_consumer_can_use_events_in_its_templates(world: World) -> None:
    """What triggered a run can be part of its arguments."""
    text = "{{ triggering_asset_events['orders'][0].extra.rows }}"
    options = {"use": {"arguments": [text, "{{ dag_run.run_type }}"]}}
    world.register(producer(ORDERS), make("use", dag_id="user", schedule=ORDERS, options=options))
    script(world, "load", reporting(orders={"rows": 5}), dag="producer")
    world.start("producer")
    world.stack.advance(minutes=5)

    [used] = world.stack.runs("user")
    assert world.context(world.jobs(used)[0])["arguments"] == ["5", "asset_triggered"]


@pytest.mark.parametrize("outcome", [FAILED, Outcome.skipped("none"), Outcome("CANCELLED")])
def test_step_that_did_not_succeed_tells_nobody(world: World, outcome: Outcome) -> None:
    """Only a success is news."""
    world.register(producer(ORDERS), make("use", dag_id="user", schedule=ORDERS))
    script(world, "load", outcome, dag="producer")
    world.start("producer")
    world.stack.advance(minutes=30)

    assert world.events("orders") == []
    assert world.stack.runs("user") == []


def test_extra_that_is_too_large_leaves_a_note_and_an_event(world: World) -> None:
    """The step succeeds, the event comes without the extra, and the step says so."""
    world.register(producer(ORDERS, FX))
    large = {"text": "x" * 40_000}
    script(world, "load", reporting(orders=large, fx={"rows": 1}), dag="producer")
    run = world.start("producer")
    world.stack.advance(minutes=5)

    step = world.step(run, "load")
    assert (world.state(run), step.state) == ("success", "success")
    assert "outlet 'orders'" in step.error
    assert [event.extra for event in world.events("orders")] == [None]
    assert [event.extra for event in world.events("fx")] == [{"rows": 1}]


@pytest.mark.parametrize("named", [{"name": "eu"}, {"uri": "s3://lake/eu"}], ids=["name", "uri"])
def test_alias_tells_of_the_assets_that_the_job_names(world: World, named: dict[str, str]) -> None:
    """A consumer of an alias runs for whatever a job produced under it."""
    found = AssetAlias("found")
    other = Asset("eu", "s3://lake/eu")
    world.register(
        producer(found),
        make("use", dag_id="user", schedule=found),
        make("keep", dag_id="keeper", schedule=other & FX),
    )
    added = [{"name": None, "uri": None, "extra": {"rows": 2}, **named}]
    report = {"version": 1, "state": "success", "outlets": {}, "aliases": {"found": added}}
    script(world, "load", Outcome(report=report), dag="producer")
    world.start("producer")
    world.stack.advance(minutes=30)

    assert [event.extra for event in world.events("eu")] == [{"rows": 2}]
    assert [world.state(run) for run in world.stack.runs("user")] == ["success"]


def test_step_with_ninety_outlets_tells_of_each_once(world: World) -> None:
    """As many outlets as a task may have are all told of, by one step beside others."""
    outlets = [Asset(f"asset{number}") for number in range(90)]
    options = {"b": {"outlets": outlets}}
    run = world.start(make("a>b>c", "a>d", "a>e", options=options))
    world.stack.advance(minutes=5)

    assert world.state(run) == "success"
    assert all(len(world.events(asset.name)) == 1 for asset in outlets)


@pytest.mark.full
def test_two_steps_with_ninety_outlets_end_at_once(world: World) -> None:
    """Two such steps whose ends are seen together still fit into transactions."""
    many = {name: {"outlets": [Asset(f"{name}{number}") for number in range(90)]} for name in "ab"}
    world.emr.events = EventFaults(drop=1.0)
    run = world.start(make("a>c", "b>c", options=many))
    world.stack.advance(hours=2)

    assert world.state(run) == "success"
    assert len(world.events("a89")) == len(world.events("b0")) == 1


def test_cleared_step_tells_of_its_outlets_again(world: World) -> None:
    """What is done a second time is told a second time."""
    world.register(producer(ORDERS))
    run = world.start("producer")
    world.stack.advance(minutes=5)
    clear_run("producer", run.run_key)
    world.stack.advance(minutes=5)

    assert world.state(run) == "success"
    assert [event.seq for event in world.events("orders")] == [1, 2]


# Cancelling.


def test_cancel_of_a_run_in_line_ends_it_at_once(world: World) -> None:
    """A run that has not begun is over, and its place in the line is free."""
    world.emr.takes("dag", "a", minutes=5)
    dag = make("a", max_active_runs=1)
    first, second = world.start(dag, run_id="1"), world.start("dag", run_id="2")

    cancel_run("dag", second.run_key, reason="a mistake")

    done = world.again(second)
    assert (done.state, done.reason) == ("cancelled", "a mistake")
    assert done.target_state is None
    assert world.stack.dag("dag").waiting is None
    world.stack.advance(minutes=30)
    assert world.state(first) == "success"
    assert len(world.emr.jobs) == 1


def test_cancel_of_a_running_run_ends_its_jobs_first(world: World) -> None:
    """The run is over only when its last job is, and its slot is kept until then."""
    script(world, "a", HANGS)
    run = world.start(make("a>b", "c", max_active_runs=1))
    world.stack.advance(seconds=30)

    cancel_run("dag", run.run_key)
    assert (world.state(run), world.again(run).target_state) == ("running", "cancelled")
    world.stack.run_until_idle()
    assert world.states(run) == {"a": "cancelling", "c": "success"}
    assert world.stack.dag("dag").active == {run.run_key}
    world.stack.advance(seconds=5)

    assert world.state(run) == "cancelled"
    assert world.states(run) == {"a": "failed", "c": "success"}
    assert world.step(run, "a").error == "cancelled: someone asked for it"
    assert world.stack.dag("dag").active is None
    assert world.order(run) == ["a", "c"]


def test_cancel_while_a_step_waits_for_its_retry_ends_the_run(world: World) -> None:
    """A step that would be tried again is not, and the run is over."""
    script(world, "a", FAILED)
    run = world.start(make("a", options={"a": {"retries": 5, "retry_delay": 600}}))
    world.stack.advance(seconds=30)
    assert world.states(run) == {"a": "up_for_retry"}

    cancel_run("dag", run.run_key)
    world.stack.advance(hours=1)

    assert (world.state(run), world.states(run)) == ("cancelled", {"a": "failed"})
    assert len(world.jobs(run)) == 1


def test_cancel_before_a_job_was_started_starts_none(world: World) -> None:
    """A step whose start was postponed never gets its job; the run waits until that is sure."""
    world.emr.refuse_next("StartJobRun", "ThrottlingException", times=50)
    run = world.start(make("a"))

    cancel_run("dag", run.run_key)
    world.stack.advance(hours=1)

    assert (world.state(run), world.states(run)) == ("cancelled", {"a": "failed"})
    assert world.emr.jobs == []


def test_job_that_succeeds_while_being_cancelled_has_succeeded(world: World) -> None:
    """What was done counts, and is told, though the run is cancelled."""
    world.register(producer(ORDERS))
    world.emr.refuse_next("CancelJobRun", "ThrottlingException", times=3)
    world.emr.takes("producer", "load", seconds=20)
    run = world.start("producer")
    world.stack.advance(seconds=15)
    cancel_run("producer", run.run_key)
    world.stack.advance(hours=1)

    assert (world.state(run), world.states(run)) == ("cancelled", {"load": "success"})
    assert len(world.events("orders")) == 1


def test_cancel_of_a_run_that_is_over_is_refused(world: World) -> None:
    """What is over cannot be cancelled, and the error says what it is."""
    run = world.start(make("a"))
    world.stack.advance(minutes=1)

    with pytest.raises(RefusedError, match="is success"):
        cancel_run("dag", run.run_key)
    with pytest.raises(RefusedError, match="no run 'nobody'"):
        cancel_run("dag", "nobody")


def test_cancel_of_a_paused_dags_run_ends_it(world: World) -> None:
    """A pause keeps nobody from cancelling."""
    script(world, "a", HANGS)
    run = world.start(make("a"))
    world.stack.advance(seconds=5)
    pause("dag")

    cancel_run("dag", run.run_key)
    world.stack.advance(minutes=1)

    assert world.state(run) == "cancelled"


# Trying again.


def test_retry_of_a_failed_run_begins_with_what_failed(world: World) -> None:
    """Only what failed, and what never ran because of it, is done again, with all its tries."""
    script(world, "b", FAILED, FAILED, FAILED)
    default = {"retries": 1, "retry_delay": 5}
    run = world.start(make("a>b>c", default=default))
    world.stack.advance(minutes=5)
    assert world.states(run) == {"a": "success", "b": "failed", "c": "upstream_failed"}

    retry_run("dag", run.run_key)
    world.stack.advance(minutes=5)

    assert world.state(run) == "success"
    assert world.order(run) == ["a", "b", "b", "b", "b", "c"]
    step = world.step(run, "b")
    assert (step.try_number, step.max_try_number, step.submission) == (4, 4, 4)


def test_retry_of_a_cancelled_run_does_the_rest(world: World) -> None:
    """What was cancelled, and what never began, is done."""
    script(world, "a", HANGS)
    run = world.start(make("a>b"))
    world.stack.advance(seconds=5)
    cancel_run("dag", run.run_key)
    world.stack.advance(minutes=1)

    retry_run("dag", run.run_key)
    world.stack.advance(minutes=5)

    assert world.state(run) == "success"
    assert world.again(run).reason is None
    assert world.order(run) == ["a", "a", "b"]


def test_retry_of_a_successful_run_is_refused(world: World) -> None:
    """Where nothing failed there is nothing to try again."""
    run = world.start(make("a"))
    world.stack.advance(minutes=1)

    with pytest.raises(RefusedError, match="has no failed step"):
        retry_run("dag", run.run_key)


def test_retry_while_the_run_goes_on_mends_it(world: World) -> None:
    """A step that failed may be tried again while others still run."""
    script(world, "a", FAILED)
    world.emr.takes("dag", "x", minutes=5)
    run = world.start(make("a>b", "x"))
    world.stack.advance(minutes=1)
    assert world.states(run) == {"a": "failed", "b": "upstream_failed", "x": "running"}

    retry_run("dag", run.run_key)
    world.stack.advance(minutes=30)

    assert world.state(run) == "success"
    assert sorted(world.order(run)) == ["a", "a", "b", "x"]


def test_retry_of_a_run_waits_for_a_slot(world: World) -> None:
    """A run that begins again gets no slot that another one has."""
    script(world, "a", FAILED)
    run = world.start(make("a", max_active_runs=1), run_id="1")
    world.stack.advance(minutes=1)
    world.emr.takes("dag", "a", minutes=5)
    other = world.start("dag", run_id="2")

    retry_run("dag", run.run_key)
    world.stack.advance(minutes=4)
    assert (world.state(run), world.state(other)) == ("queued", "running")

    world.stack.advance(minutes=30)
    assert (world.state(run), world.state(other)) == ("success", "success")


# Beginning again.


def test_clear_of_a_finished_run_does_all_of_it_again(world: World) -> None:
    """Every task has a second job, and none has the names of the first."""
    run = world.start(make("a>b"))
    world.stack.advance(minutes=1)

    clear_run("dag", run.run_key)
    assert world.state(run) == "queued"
    world.stack.advance(minutes=5)

    assert world.state(run) == "success"
    assert world.order(run) == ["a", "b", "a", "b"]
    assert len({job.token for job in world.jobs(run)}) == 4


def test_clear_of_one_task_does_what_follows_it_too(world: World) -> None:
    """What comes after a cleared task is done again, what is before or beside it is not."""
    run = world.start(make("a>b>c", "a>x"))
    world.stack.advance(minutes=1)

    clear_run("dag", run.run_key, tasks=["b"])
    world.stack.advance(minutes=5)

    assert world.state(run) == "success"
    assert sorted(world.order(run)) == ["a", "b", "b", "c", "c", "x"]


def test_clear_of_a_running_step_waits_for_its_job_to_end(world: World) -> None:
    """A step never has two jobs: the second one starts when the first is over."""
    script(world, "a", HANGS)
    run = world.start(make("a>b"))
    world.stack.advance(seconds=30)

    clear_run("dag", run.run_key)
    world.stack.run_until_idle()
    assert world.states(run) == {"a": "cancelling"}
    assert len(world.jobs(run)) == 1
    world.stack.advance(minutes=10)

    assert world.state(run) == "success"
    assert world.order(run) == ["a", "a", "b"]
    first, second = world.jobs(run, "a")
    assert first.ended_at is not None
    assert first.ended_at <= second.created_at
    assert [t["state"] for t in world.step(run, "a").tries] == ["cancelled", "success"]


def test_clear_of_an_unknown_task_is_refused(world: World) -> None:
    """A task that the run does not have is named, and those that it has."""
    run = world.start(make("a>b"))

    with pytest.raises(RefusedError, match="has no task 'z' in this run; it has a, b"):
        clear_run("dag", run.run_key, tasks=["a", "z"])
    world.stack.advance(minutes=1)


def test_clear_of_a_run_that_is_being_ended_is_refused(world: World) -> None:
    """First things first: a run that is being cancelled is cancelled before it begins again."""
    script(world, "a", HANGS)
    run = world.start(make("a"))
    cancel_run("dag", run.run_key)

    with pytest.raises(RefusedError, match="is being ended"):
        clear_run("dag", run.run_key)
    world.stack.advance(minutes=1)

    assert world.state(run) == "cancelled"


def test_clear_while_a_step_waits_for_its_retry_begins_at_once(world: World) -> None:
    """Whoever clears a step does not want to wait for its next try, and gives it all tries anew."""
    script(world, "a", FAILED)
    run = world.start(make("a", options={"a": {"retries": 1, "retry_delay": 3_600}}))
    world.stack.advance(seconds=30)

    clear_run("dag", run.run_key)
    world.stack.advance(minutes=1)

    assert world.state(run) == "success"
    assert world.step(run, "a").max_try_number == 3


def test_clear_before_a_job_was_started_starts_one(world: World) -> None:
    """A step whose start was postponed begins again when nobody can start its first job."""
    world.emr.refuse_next("StartJobRun", "ThrottlingException", times=3)
    run = world.start(make("a"))

    clear_run("dag", run.run_key)
    world.stack.advance(hours=1)

    assert world.state(run) == "success"
    assert [job.submission for job in world.jobs(run)] == [2]


# Pauses, and DAGs that change.


def test_paused_dag_starts_no_step_and_goes_on_later(world: World) -> None:
    """A pause freezes a run between steps; un-pausing lets it go on at once."""
    world.emr.takes("dag", "a", minutes=2)
    run = world.start(make("a>b"))
    world.stack.advance(seconds=30)
    pause("dag")
    world.stack.advance(hours=2)
    assert world.states(run) == {"a": "success"}
    assert world.state(run) == "running"

    unpause("dag")
    world.stack.advance(seconds=10)

    assert world.state(run) == "success"


def test_pause_holds_back_retries_too(world: World) -> None:
    """A retry whose time has come waits for the pause to end."""
    script(world, "a", FAILED)
    run = world.start(make("a", options={"a": {"retries": 1, "retry_delay": 60}}))
    world.stack.advance(seconds=10)
    pause("dag")
    world.stack.advance(hours=2)
    assert world.states(run) == {"a": "up_for_retry"}

    unpause("dag")
    world.stack.advance(minutes=1)

    assert world.state(run) == "success"


def test_run_of_a_dag_that_left_its_bundle_is_finished(world: World) -> None:
    """A push without the DAG ends no run that lives."""
    world.emr.takes("dag", "a", minutes=5)
    run = world.start(make("a>b"))
    world.register(make("a", dag_id="other"))
    assert world.stack.dag("dag").is_stale
    world.stack.advance(minutes=30)

    assert world.state(run) == "success"
    with pytest.raises(RefusedError, match="is no longer in any bundle"):
        clear_run("dag", run.run_key)


def test_run_of_a_deleted_dag_is_finished(world: World) -> None:
    """A DAG whose row is gone does not come back by the end of its run."""
    world.emr.takes("dag", "a", minutes=5)
    script(world, "b", FAILED)
    run = world.start(make("a>b"))
    world.stack.advance(minutes=1)
    world.stack.dag("dag").delete()
    world.stack.advance(minutes=30)

    assert (world.state(run), world.order(run)) == ("failed", ["a", "b"])
    assert read_dag("dag") is None
    with pytest.raises(RefusedError, match="was deleted; push its bundle first"):
        retry_run("dag", run.run_key)


def test_cancel_of_a_deleted_dags_run_ends_it(world: World) -> None:
    """Nobody's run can still be cancelled."""
    script(world, "a", HANGS)
    run = world.start(make("a"))
    world.stack.dag("dag").delete()

    cancel_run("dag", run.run_key)
    world.stack.advance(minutes=1)

    assert world.state(run) == "cancelled"


def test_run_keeps_the_version_it_began_with(world: World) -> None:
    """A push while a run lives changes the runs that come, not this one, nor what clearing does."""
    world.emr.takes("dag", "a", minutes=5)
    run = world.start(make("a>b"), run_id="1")
    world.register(make("a>c", max_active_tasks=1))
    world.stack.advance(minutes=30)
    later = world.start("dag", run_id="2")
    world.stack.advance(minutes=30)

    assert world.order(run) == ["a", "b"]
    assert world.order(later) == ["a", "c"]
    clear_run("dag", run.run_key, tasks=["b"])
    world.stack.advance(minutes=30)
    assert world.order(run) == ["a", "b", "b"]


def test_dag_whose_runs_keep_failing_is_paused(world: World) -> None:
    """After so many failures in a row nothing more is started, and a success counts as none."""
    dag = make("a", max_consecutive_failed_dag_runs=2)
    script(world, "a", FAILED, Outcome(), FAILED, FAILED)
    world.register(dag)
    for number in range(4):
        world.start("dag", run_id=str(number))
        world.stack.advance(minutes=1)

    row = world.stack.dag("dag")
    assert (row.is_paused, row.pause_reason) == (True, "2 runs failed in a row")


# Costs.


def test_costs_of_jobs_are_on_step_and_run(world: World) -> None:
    """A step costs what all its jobs were billed for, and a run what its steps cost."""
    script(world, "a", FAILED)
    world.emr.takes("dag", "b", seconds=600.5)
    run = world.start(make("a>b", options={"a": {"retries": 1, "retry_delay": 5}}))
    world.stack.advance(hours=1)

    vcpu, memory, storage = list_prices("us-east-1", "x86_64")
    hour = 2 * vcpu + 8 * memory + 20 * storage
    a, b, done = world.step(run, "a"), world.step(run, "b"), world.again(run)
    # Less than a minute is billed as a minute.
    assert a.cost == pytest.approx(hour * 2 * 60 / 3_600)
    assert b.cost == pytest.approx(hour * 600 / 3_600)
    assert b.vcpu_hours == pytest.approx(2 * 600 / 3_600)
    assert done.cost == pytest.approx(a.cost + b.cost)
    assert done.vcpu_hours == pytest.approx(a.vcpu_hours + b.vcpu_hours)


def test_job_that_never_ran_costs_nothing(world: World) -> None:
    """Being turned away is free."""
    script(world, "a", Outcome.capacity(), FAILED)
    run = world.start(make("a"))
    world.stack.advance(hours=1)

    [_, ran] = world.jobs(run)
    assert ran.running_at is not None
    assert world.step(run, "a").vcpu_hours == pytest.approx(2 * 60 / 3_600)


def test_costs_of_a_cleared_run_add_up(world: World) -> None:
    """Beginning again does not make the past free."""
    run = world.start(make("a"))
    world.stack.advance(minutes=1)
    once = world.again(run).cost
    clear_run("dag", run.run_key)
    world.stack.advance(minutes=1)

    assert world.again(run).cost == pytest.approx(2 * once)


# Size.


def test_failure_in_the_largest_dag_reaches_every_task(world: World) -> None:
    """More steps than a transaction holds are all upstream_failed, and the run has failed."""
    names = [f"t{number:03}" for number in range(500)]
    script(world, "t000", FAILED)
    run = world.start(make(">".join(names)))
    world.stack.advance(minutes=1)

    assert world.state(run) == "failed"
    states = world.states(run)
    assert states == {"t000": "failed", **dict.fromkeys(names[1:], "upstream_failed")}
    assert len(world.jobs(run)) == 1


@pytest.mark.full
def test_wide_dag_starts_all_its_tasks_at_once(world: World) -> None:
    """More tasks than a transaction holds are all started, if so many may be."""
    names = [f"t{number:03}" for number in range(150)]
    run = world.start(make(*names, max_active_tasks=500))
    assert len(world.emr.jobs) == 150
    world.stack.advance(minutes=10)

    assert world.state(run) == "success"


@pytest.mark.parametrize("begin_again", [clear_run, retry_run])
def test_large_run_can_begin_again(world: World, begin_again: Callable[..., Runs]) -> None:
    """More steps than a transaction holds begin again, all of them."""
    names = [f"t{number:03}" for number in range(120)]
    script(world, "t000", FAILED, FAILED)
    run = world.start(make(">".join(names)))
    world.stack.advance(minutes=1)
    begin_again("dag", run.run_key)
    world.stack.advance(minutes=1)

    assert world.state(run) == "failed"
    assert world.order(run) == ["t000", "t000"]
    assert set(world.states(run)) == set(names)


@pytest.mark.full
def test_wide_run_can_be_cancelled(world: World) -> None:
    """More live steps than a transaction holds are all ended."""
    names = [f"t{number:03}" for number in range(105)]
    for name in names:
        script(world, name, HANGS)
    run = world.start(make(*names, max_active_tasks=500))
    cancel_run("dag", run.run_key)
    world.stack.advance(minutes=10)

    assert world.state(run) == "cancelled"
    assert world.emr.live() == []


def test_step_that_is_tried_for_ever_keeps_its_newest_tries(world: World) -> None:
    """A row does not grow with the number of tries."""
    script(world, "a", *[FAILED] * 21)
    run = world.start(make("a", options={"a": {"retries": 40, "retry_delay": 1}}))
    world.stack.advance(minutes=5)

    step = world.step(run, "a")
    assert (world.state(run), step.try_number) == ("success", 22)
    assert [t["try_number"] for t in step.tries] == list(range(3, 23))


def test_error_of_a_job_is_kept_short(world: World) -> None:
    """Of a novel of an error the end is kept, which says what went wrong."""
    script(world, "a", Outcome.failed("x" * 9_000 + "ValueError: the end"))
    run = world.start(make("a"))
    world.stack.advance(minutes=1)

    error = world.step(run, "a").error
    assert error.endswith("ValueError: the end")
    assert len(error) <= 2_001


def test_error_with_half_a_letter_is_stored(world: World) -> None:
    """Text that no table can hold does not keep a step from ending."""
    world.emr.takes("dag", "a", seconds=30)
    world.emr.fail_next("dag", "a")
    run = world.start(make("a"))
    body = b'{"state": "failed", "reason": "half \\ud83d"}'
    put_signed_report(world.jobs(run)[0].context_uri, body)
    world.stack.advance(hours=1)

    assert world.state(run) == "failed"
    assert world.step(run, "a").error.encode().startswith(b"half ")


def test_runs_are_found_by_what_they_are(world: World) -> None:
    """A run that is over is listed under its end, and is not looked at again."""
    run = world.start(make("a"))
    world.stack.advance(minutes=1)

    found = list(Runs.by_state.query("success#2026-01-05#0"))
    assert [row.run_key for row in found] == [run.run_key]
    assert world.again(run).wake_at is None
