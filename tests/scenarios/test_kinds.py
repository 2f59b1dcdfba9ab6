"""Tasks of all kinds in one DAG: whatever happens to one step, it means the same for the others."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, PythonTask, SparkTask, StepFunctionsTask, aws, executors
from lamplighter_local.execution import SubmittedJob
from lamplighter_operations.runs import cancel_run, clear_run, retry_run
from lamplighter_operations.views import Run
from tests.tools.checked_deployment import LocalDeployment
from tests.tools.kinds import TASKS, kinds_dags

NOW = datetime(2026, 1, 5, 12, 0, 5)
ALL = ("load", "check", "export", "report", "publish")
of_each_kind = pytest.mark.parametrize("task", TASKS)


@contextmanager
def deployment(**options: Any) -> Iterator[LocalDeployment]:
    """Yield a deployment, which must be sound in the end."""
    settings = {"job_poll_seconds": 60}
    with LocalDeployment(kinds_dags(**options), at=NOW, settings=settings) as lamp:
        yield lamp
        lamp.check_invariants()


def started(lamp: LocalDeployment, *, minutes: float = 10) -> Run:
    """Return a new run after some time."""
    lamp.trigger("shop")
    lamp.advance(minutes=minutes)
    return last_run(lamp)


def last_run(lamp: LocalDeployment) -> Run:
    """Return the newest run, with its steps."""
    return lamp.runs("shop")[-1]


def states(run: Run) -> dict[str, str]:
    """Return the states of the steps of a run."""
    return {step.task_id: step.state for step in run.steps}


def expected(task: str, *, before: str = "success", itself: str, after: str) -> dict[str, str]:
    """Return the states of all steps, by where they are as seen from a task."""
    place = ALL.index(task)
    return {
        **dict.fromkeys(ALL[:place], before),
        task: itself,
        **dict.fromkeys(ALL[place + 1 :], after),
    }


def live(lamp: LocalDeployment) -> list[SubmittedJob]:
    """Return the jobs of all kinds that are not over."""
    assert lamp.stack.execution is not None
    return [job for fake in lamp.stack.execution.fakes.values() for job in fake.live()]


def test_run_goes_through_all_kinds() -> None:
    """Each step is executed where its kind is, and who waits for all their assets has one run."""
    with deployment() as lamp:
        run = started(lamp)
        assert states(run) == dict.fromkeys(ALL, "success")
        assert [step.executor for step in run.steps] == [
            *("emr-serverless", "lambda", "step-functions"),
            *("lambda", "emr-serverless"),
        ]
        (consumed,) = lamp.runs("consumer")
        assert consumed.state == "success"
        assert [event.asset for event in consumed.events] == ["loaded", "checked", "exported"]


def given_to(lamp: LocalDeployment, task: str) -> dict[str, Any]:
    """Return what the last job of a task found as its context."""
    step = last_run(lamp).step(task)
    assert step.job_run_id is not None
    with lamp.in_own_runtime():
        job = executors.named(step.executor).describe(step.job_run_id)
        assert job is not None
        bucket, key = aws.bucket_and_key(job.context_uri)
        body = aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    found: dict[str, Any] = json.loads(body)
    return found


def test_each_kind_reads_what_the_others_left() -> None:
    """Templates and inputs have the values of jobs, functions and executions alike."""
    with deployment() as lamp:
        given: list[Any] = []

        def export(value: Any) -> dict[str, str]:
            given.append((value["rows"], value["good"]))
            return {"file": "f.csv"}

        lamp.state_machine("export", export)
        lamp.leaves("shop", "load", rows=3)
        lamp.leaves("shop", "check", good=2)
        lamp.leaves("shop", "report", lines=["f.csv", 3])
        started(lamp)
        assert given == [("3", "2")]
        assert given_to(lamp, "check")["arguments"] == ["3"]
        assert given_to(lamp, "check")["inputs"] == {"load": {"rows": 3}}
        assert given_to(lamp, "report")["inputs"] == {
            "load": {"rows": 3},
            "export": {"file": "f.csv"},
        }
        assert given_to(lamp, "publish")["arguments"] == ["f.csv"]
        assert given_to(lamp, "publish")["inputs"] == {
            "check": {"good": 2},
            "export": {"file": "f.csv"},
            "report": {"lines": ["f.csv", 3]},
        }


@of_each_kind
def test_step_that_fails_is_tried_again(task: str) -> None:
    """The steps before it are not repeated, and those after it wait for the second try."""
    with deployment(retries=1, retry_delay=timedelta(minutes=5)) as lamp:
        lamp.fail_next("shop", task, error="no such table")
        run = started(lamp, minutes=20)
        assert states(run) == dict.fromkeys(ALL, "success")
        tries = {step.task_id: step.try_number for step in run.steps}
        assert tries == {**dict.fromkeys(ALL, 1), task: 2}
        first, _ = run.step(task).tries
        assert "no such table" in first["error"]


@of_each_kind
def test_step_without_retries_fails_its_run(task: str) -> None:
    """A retry of the run begins with the step that failed, and ends well."""
    with deployment() as lamp:
        lamp.fail_next("shop", task)
        run = started(lamp)
        assert run.state == "failed"
        assert states(run) == expected(task, itself="failed", after="upstream_failed")
        with lamp.in_own_runtime():
            retry_run("shop", run.run_key)
        lamp.advance(minutes=10)
        again = last_run(lamp)
        assert states(again) == dict.fromkeys(ALL, "success")
        jobs = {step.task_id: step.submission for step in again.steps}
        assert jobs == {**dict.fromkeys(ALL, 1), task: 2}


@of_each_kind
def test_step_that_skips_skips_what_follows(task: str) -> None:
    """Nobody is told of its outlet, so the consumer of all three waits."""
    with deployment() as lamp:
        lamp.skip_next("shop", task, reason="a holiday")
        run = started(lamp)
        assert states(run) == expected(task, itself="skipped", after="skipped")
        assert run.step(task).error == "a holiday"
        assert (run.state, lamp.runs("consumer")) == ("success", [])


@of_each_kind
def test_step_that_takes_too_long_is_ended(task: str) -> None:
    """The limit is the same for all, and no job goes on after it."""
    with deployment(execution_timeout=timedelta(minutes=2)) as lamp:
        lamp.takes("shop", task, hours=5)
        run = started(lamp, minutes=20)
        assert states(run) == expected(task, itself="failed", after="upstream_failed")
        step = run.step(task)
        assert step.started_at is not None
        assert step.ended_at is not None
        assert 120 <= (step.ended_at - step.started_at).total_seconds() <= 300
        assert live(lamp) == []


@of_each_kind
def test_cancelled_run_ends_the_job_of_any_kind(task: str) -> None:
    """What has been done stays, what runs is cancelled, and what is left does not begin."""
    with deployment() as lamp:
        lamp.takes("shop", task, minutes=14)
        run = started(lamp, minutes=5)
        assert [job.task for job in live(lamp)] == [task]
        with lamp.in_own_runtime():
            cancel_run("shop", run.run_key)
        lamp.advance(minutes=5)
        cancelled = last_run(lamp)
        assert (cancelled.state, live(lamp)) == ("cancelled", [])
        place = ALL.index(task)
        assert list(states(cancelled).values())[:place] == ["success"] * place


@of_each_kind
def test_cleared_step_is_done_again_with_all_that_follows(task: str) -> None:
    """What comes before it is not, and the steps after it read what it has left now."""
    with deployment() as lamp:
        run = started(lamp)
        with lamp.in_own_runtime():
            clear_run("shop", run.run_key, tasks=[task])
        lamp.advance(minutes=10)
        again = last_run(lamp)
        assert states(again) == dict.fromkeys(ALL, "success")
        jobs = [step.submission for step in again.steps]
        assert sorted(jobs) == [1] * ALL.index(task) + [2] * (len(ALL) - ALL.index(task))


@of_each_kind
def test_cleared_step_waits_for_the_end_of_its_job(task: str) -> None:
    """A job of any kind that is running is ended before there is another one."""
    with deployment() as lamp:
        lamp.takes("shop", task, minutes=14)
        run = started(lamp, minutes=5)
        lamp.takes("shop", task, seconds=1)
        with lamp.in_own_runtime():
            clear_run("shop", run.run_key, tasks=[task])
        lamp.advance(minutes=10)
        assert states(last_run(lamp)) == dict.fromkeys(ALL, "success")
        assert last_run(lamp).step(task).submission == 2


@of_each_kind
def test_step_waits_for_that_of_the_run_before(task: str) -> None:
    """With `depends_on_past`, the second run stops where the first has failed, and goes on then."""
    with deployment(schedule="0 */12 * * *", depends_on_past=True) as lamp:
        lamp.advance(minutes=10)
        lamp.fail_next("shop", task)
        lamp.advance(hours=24)
        before, after = lamp.runs("shop")[-2:]
        assert states(before) == expected(task, itself="failed", after="upstream_failed")
        place = ALL.index(task)
        done = dict.fromkeys(ALL[:place], "success")
        assert {name: states(after)[name] for name in ALL[:place]} == done
        assert "success" not in {after.state, states(after).get(task)}
        with lamp.in_own_runtime():
            retry_run("shop", before.run_key)
        lamp.advance(minutes=30)
        assert {run.state for run in lamp.runs("shop")} == {"success"}


def test_service_that_is_busy_keeps_no_other_kind_waiting() -> None:
    """Of steps that are ready at once, those of other kinds begin, whichever comes first."""
    with DAG("mixed", schedule=None) as dag:
        PythonTask("a", job="jobs.x:main")
        StepFunctionsTask("b", state_machine="export")
        SparkTask("c", job="jobs.x:main")
        PythonTask("d", job="jobs.x:main")
    with LocalDeployment([dag], at=NOW) as lamp:
        assert lamp.stack.execution is not None
        busy: Any = lamp.stack.execution.fakes
        busy["python"].refuse_next("Invoke", "TooManyRequestsException", times=3)
        lamp.trigger("mixed")
        lamp.advance(seconds=8)
        begun = states(lamp.runs("mixed")[-1])
        assert begun == {"a": "submitted", "b": "success", "c": "success", "d": "submitted"}
        assert busy["python"].calls["Invoke"] == 1
        lamp.advance(minutes=10)
        assert set(states(lamp.runs("mixed")[-1]).values()) == {"success"}
        lamp.check_invariants()
