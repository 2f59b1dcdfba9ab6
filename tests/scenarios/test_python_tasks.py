"""Python tasks through their lives: tried again, cancelled, timed out, cleared, lost and found."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, PythonTask, SparkTask
from lamplighter.store.models import Jobs
from lamplighter_local.aws_lambda.fake_lambda import FakeLambda
from lamplighter_local.emr.fake_emr import EventFaults, Outcome
from lamplighter_operations.runs import cancel_run, clear_run
from lamplighter_operations.views import Run, Step
from tests.tools.checked_deployment import LocalDeployment

NOON = datetime(2026, 1, 5, 12)


def one_task(**options: Any) -> DAG:
    """Return a DAG with a Python task that has an outlet."""
    with DAG("fx", schedule=None) as dag:
        PythonTask("load", job="jobs.fx:load", outlets=[Asset("rates")], **options)
    return dag


@pytest.fixture
def lamp() -> Iterator[LocalDeployment]:
    """Yield a deployment at noon, whose tables must be sound in the end."""
    with LocalDeployment(at=NOON) as made:
        yield made
        made.check_invariants()


def fake_of(lamp: LocalDeployment) -> FakeLambda:
    """Return what pretends to run the Python tasks of a deployment."""
    assert lamp.stack.execution is not None
    fake = lamp.stack.execution.fakes["python"]
    assert isinstance(fake, FakeLambda)
    return fake


def begin(lamp: LocalDeployment, dag: DAG, *, takes: float | None = None) -> Run:
    """Push a DAG and begin a run of it; return it."""
    lamp.push([dag])
    if takes is not None:
        lamp.takes("fx", "load", seconds=takes)
    run = lamp.trigger("fx")
    lamp.advance(seconds=10)
    return run


def now(lamp: LocalDeployment) -> tuple[Run, Step]:
    """Return the only run and its step as they are."""
    (run,) = lamp.runs("fx")
    return run, run.step("load")


def jobs(lamp: LocalDeployment) -> list[str]:
    """Return what became of all jobs."""
    return [str(job.state) for job in fake_of(lamp).jobs]


def test_kinds_of_task_follow_each_other(lamp: LocalDeployment) -> None:
    """A DAG may have both, and its run costs what both have cost."""
    with DAG("fx", schedule=None) as dag:
        load = PythonTask("load", job="jobs.fx:load", outlets=[Asset("rates")])
        load >> SparkTask("clean", job="jobs.fx:clean")
    run = begin(lamp, dag)
    lamp.advance(minutes=1)
    run, step = now(lamp)
    assert (run.state, run.step("clean").state) == ("success", "success")
    assert (step.executor, run.step("clean").executor) == ("lambda", "emr-serverless")
    assert step.cost is not None
    assert run.cost == pytest.approx(step.cost + (run.step("clean").cost or 0))


def test_failed_step_is_tried_again(lamp: LocalDeployment) -> None:
    """With the delay of the task, and another job."""
    lamp.push([one_task(retries=1, retry_delay=timedelta(minutes=1))])
    lamp.fail_next("fx", "load", error="no rates")
    lamp.trigger("fx")
    lamp.advance(minutes=3)
    run, step = now(lamp)
    assert (run.state, step.try_number, step.tries[0]["error"]) == ("success", 2, "no rates")
    assert jobs(lamp) == ["FAILED", "SUCCESS"]


def test_step_is_cancelled_within_seconds(lamp: LocalDeployment) -> None:
    """The invocation looks at the row, and ends the process."""
    run = begin(lamp, one_task(), takes=600)
    cancel_run("fx", run.run_key)
    lamp.advance(seconds=10)
    run, step = now(lamp)
    assert (run.state, step.state, jobs(lamp)) == ("cancelled", "failed", ["CANCELLED"])


def test_step_that_runs_is_cleared(lamp: LocalDeployment) -> None:
    """Its job is ended before the next one begins."""
    run = begin(lamp, one_task(), takes=300)
    clear_run("fx", run.run_key)
    lamp.advance(minutes=10)
    run, step = now(lamp)
    assert (run.state, step.submission, jobs(lamp)) == ("success", 2, ["CANCELLED", "SUCCESS"])


@pytest.mark.parametrize("events", [EventFaults(), EventFaults(drop=1.0)])
def test_step_ends_at_its_limit(lamp: LocalDeployment, events: EventFaults) -> None:
    """The function ends it at once; whoever hears of it, or looks, says why."""
    fake_of(lamp).events = events
    begin(lamp, one_task(execution_timeout=timedelta(minutes=2)), takes=600)
    lamp.advance(minutes=30)
    run, step = now(lamp)
    assert (run.state, step.state) == ("failed", "failed")
    assert step.error is not None
    assert step.error.startswith("execution_timeout: it ran for longer than")


def test_step_waits_for_its_past(lamp: LocalDeployment) -> None:
    """The next day waits until the one before it is mended."""
    with DAG("fx", schedule="@daily", start_date=NOON.subtract(days=3)) as dag:
        PythonTask("load", job="jobs.fx:load", depends_on_past=True)
    fake_of(lamp).next_outcome("fx", "load", Outcome.failed("no"))
    lamp.push([dag])
    lamp.advance(hours=1)
    first, *others = lamp.runs("fx")
    assert (first.state, [run.state for run in others]) == ("failed", ["queued"])
    clear_run("fx", first.run_key)
    lamp.advance(hours=1)
    assert [run.state for run in lamp.runs("fx")] == ["success"] * 2


def test_end_that_nobody_tells_of_is_found(lamp: LocalDeployment) -> None:
    """The sweep reads the row, and the events of outlets are sent then."""
    fake_of(lamp).events = EventFaults(drop=1.0)
    begin(lamp, one_task())
    lamp.advance(hours=1)
    run, step = now(lamp)
    assert (run.state, step.state, jobs(lamp)) == ("success", "success", ["SUCCESS"])


def test_invocation_that_dies_is_found_after_its_deadline(lamp: LocalDeployment) -> None:
    """Nobody ends the row but the sweep, when the invocation cannot live any more."""
    lamp.push([one_task(retries=1, retry_delay=timedelta(0))])
    fake_of(lamp).kill_next("fx", "load")
    lamp.trigger("fx")
    lamp.advance(minutes=15)
    assert now(lamp)[1].state == "running"
    lamp.advance(minutes=30)
    run, step = now(lamp)
    assert (run.state, step.try_number, jobs(lamp)) == ("success", 2, ["FAILED", "SUCCESS"])
    assert "ended without a word" in step.tries[0]["error"]


def test_invocation_that_dies_before_it_claims_is_repeated(lamp: LocalDeployment) -> None:
    """Lambda calls the function again within minutes, and the step is none the wiser."""
    fake_of(lamp).fail_to_begin(times=2)
    begin(lamp, one_task())
    lamp.advance(minutes=5)
    run, step = now(lamp)
    assert (run.state, step.try_number, step.submission) == ("success", 1, 1)
    assert jobs(lamp) == ["SUCCESS"]


def test_function_that_never_begins_costs_no_try(lamp: LocalDeployment) -> None:
    """Lambda gives up after its repetitions; the job is, when no invocation can come any more."""
    fake_of(lamp).fail_to_begin(times=3)
    begin(lamp, one_task())
    lamp.advance(hours=3)
    run, step = now(lamp)
    assert (run.state, step.try_number, step.submission) == ("success", 1, 2)
    assert jobs(lamp) == ["FAILED", "SUCCESS"]


def test_step_without_room_costs_no_try(lamp: LocalDeployment) -> None:
    """After an hour Lambda forgets it; it is submitted again as one that found no capacity."""
    fake_of(lamp).is_throttled = True
    begin(lamp, one_task())
    lamp.advance(minutes=75)
    assert now(lamp)[1].state == "up_for_retry"
    fake_of(lamp).is_throttled = False
    lamp.advance(hours=2)
    run, step = now(lamp)
    assert (run.state, step.try_number, step.submission) == ("success", 1, 2)


def test_throttled_request_is_repeated(lamp: LocalDeployment) -> None:
    """It is one job all the same."""
    fake_of(lamp).refuse_next("Invoke", "TooManyRequestsException", times=2)
    begin(lamp, one_task())
    lamp.advance(minutes=5)
    run, step = now(lamp)
    assert (run.state, step.submission, fake_of(lamp).calls["Invoke"]) == ("success", 1, 3)


def test_invocation_that_comes_twice_runs_once(lamp: LocalDeployment) -> None:
    """Of two invocations of one job, one claims it."""
    begin(lamp, one_task(), takes=60)
    (job,) = fake_of(lamp).jobs
    fake_of(lamp).invoke(job.job_run_id)
    lamp.advance(minutes=5)
    assert (now(lamp)[0].state, jobs(lamp)) == ("success", ["SUCCESS"])


def test_rows_of_jobs_expire(lamp: LocalDeployment) -> None:
    """They are kept as long as runs are."""
    begin(lamp, one_task())
    (row,) = Jobs.scan()
    assert row.expires_at == row.requested_at.add(days=90).replace(microsecond=0)
