"""Task groups and params on a deployment: whole lives of runs, and values that are refused."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, Param, SparkTask, TaskGroup, aws
from lamplighter.errors import RefusedError
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_operations.backfills import InvalidBackfillConf
from lamplighter_operations.runs import clear_run, mark_step
from tests.tools.checked_deployment import LocalDeployment

START = datetime(2026, 1, 1)
MADE = Asset("made")
PARAMS = {"days": Param(1, type="integer", minimum=1), "mode": Param("fast", enum=["fast", "full"])}


def grouped(**arguments: Any) -> DAG:
    """Return a DAG whose groups are two levels deep, with and without a prefix."""
    with DAG("shop", start_date=START, **arguments) as dag:
        with TaskGroup("load", default_args={"retries": 1, "retry_delay": 60}) as load:
            SparkTask("a", job="jobs.a:run", arguments=["{{ task.task_id }}", "{{ ti.task_id }}"])
            with TaskGroup("plain", prefix_group_id=False):
                SparkTask("b", job="jobs.a:run")
        load >> SparkTask("end", job="jobs.a:run", outlets=[MADE])
    return dag


@pytest.fixture
def executor() -> str:
    """Return what runs the jobs, unless a test chooses."""
    return "instant"


@pytest.fixture(name="lamp")
def open_deployment(executor: str) -> Iterator[LocalDeployment]:
    """Yield a deployment with a DAG in groups, and one that needs a param."""
    required = DAG("required", params={"day": Param(type="string", format="date")})
    with required:
        SparkTask("only", job="jobs.a:run", arguments=["{{ params.day }}"])
    dags = [grouped(schedule="0 * * * *", params=PARAMS), required]
    with LocalDeployment(dags, at=START, executor=executor) as lamp:
        yield lamp
        lamp.check_invariants()


def states(lamp: LocalDeployment) -> dict[str, str]:
    """Return the states of the steps of the first run."""
    return {step.task_id: step.state for step in lamp.runs("shop")[0].steps}


def jobs(lamp: LocalDeployment) -> list[Any]:
    """Return all jobs."""
    assert isinstance(lamp.executor, FakeEmr)
    return lamp.executor.jobs


def arguments(job: Any) -> list[str]:
    """Return the arguments with which the program of a job is called."""
    bucket, key = aws.bucket_and_key(job.context_uri)
    context = json.load(aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"])
    sent: list[str] = context["arguments"]
    return sent


# Ids with dots.

on_both = pytest.mark.parametrize("executor", ["instant", "emr"])


@on_both
def test_steps_of_groups_run_fail_retry_and_skip(lamp: LocalDeployment) -> None:
    """Ids with a dot are ids as any other: for the order, retries, outcomes and jobs."""
    lamp.fail_next("shop", "load.a")
    lamp.takes("shop", "b", minutes=2)
    lamp.advance(hours=1, minutes=30)
    (run,) = lamp.runs("shop")
    assert run.state == "success"
    assert run.step("load.a").try_number == 2
    assert run.steps[-1].task_id == "end"
    assert {job.task for job in jobs(lamp)} == {"load.a", "b", "end"}
    lamp.skip_next("shop", "load.a")
    lamp.advance(hours=1)
    assert lamp.runs("shop")[1].step("load.a").state == "skipped"
    assert lamp.runs("shop")[1].step("end").state == "skipped"


@on_both
def test_job_of_a_group_has_its_id_in_name_arguments_and_files(lamp: LocalDeployment) -> None:
    """Templates render it, and its folder in S3 is found again by it."""
    lamp.advance(hours=1, minutes=10)
    (job,) = [job for job in jobs(lamp) if job.task == "load.a"]
    assert "load.a" in job.name
    assert arguments(job) == ["load.a", "load.a"]
    assert "/load.a/" in job.context_uri


@on_both
def test_step_of_a_group_is_cleared_and_marked(lamp: LocalDeployment) -> None:
    """By its whole id; what is downstream of the group comes along."""
    lamp.advance(hours=1, minutes=10)
    run = lamp.runs("shop")[0]
    clear_run("shop", run.run_key, tasks=["load.a"])
    lamp.advance(minutes=10)
    assert states(lamp) == {"load.a": "success", "b": "success", "end": "success"}
    assert {task: sum(job.task == task for job in jobs(lamp)) for task in states(lamp)} == {
        "load.a": 2,
        "b": 1,
        "end": 2,
    }
    mark_step("shop", run.run_key, "load.a", "failed", why="wrong rows", by="me")
    assert states(lamp)["load.a"] == "failed"


# Params.


def test_run_has_the_defaults_and_its_own_values_over_them(lamp: LocalDeployment) -> None:
    """A schema changes nothing about what templates and jobs get."""
    lamp.trigger("required", conf={"day": "2026-02-03", "more": 1})
    lamp.advance(minutes=10)
    assert lamp.runs("required")[0].state == "success"
    assert arguments(jobs(lamp)[0]) == ["2026-02-03"]
    lamp.trigger("shop", conf={"days": 3, "mode": "full"})
    lamp.advance(hours=1)
    assert {run.state for run in lamp.runs("shop")} == {"success"}


@pytest.mark.parametrize(
    ("dag_id", "conf", "words"),
    [
        ("shop", {"days": 0}, "DAG 'shop': params: 'days': 0 is less than the minimum of 1"),
        ("shop", {"mode": "slow"}, "DAG 'shop': params: 'mode': 'slow' is not one of"),
        ("shop", {"days": None}, "'days': None is not of type 'integer'"),
        ("required", None, "DAG 'required': params: 'day' has no default: give it a value in conf"),
        ("required", {"day": "soon"}, "DAG 'required': params: 'day': 'soon' is not a 'date'"),
    ],
)
def test_run_with_a_value_that_is_not_allowed_is_refused(
    lamp: LocalDeployment, dag_id: str, conf: dict[str, Any] | None, words: str
) -> None:
    """In one line, and without a run."""
    with pytest.raises(RefusedError) as caught:
        lamp.trigger(dag_id, conf=conf)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert lamp.runs(dag_id) == []


def test_backfill_with_a_value_that_is_not_allowed_is_refused(lamp: LocalDeployment) -> None:
    """As for a run by hand; with values that are, its runs have them."""
    lamp.advance(hours=3, minutes=10)
    dates = ("2025-12-31", "2025-12-31T02:00:00Z")
    with pytest.raises(InvalidBackfillConf, match="'shop': params: 'days': 'x' is not of type"):
        lamp.backfill("shop", *dates, conf={"days": "x"})
    assert lamp.backfills("shop") == []
    lamp.backfill("shop", *dates, conf={"days": 2})
    lamp.advance(minutes=30)
    confs = [dict(run.conf) for run in lamp.runs("shop") if run.run_type == "backfill"]
    assert confs == [{"days": 2}] * 2


def test_new_definition_has_its_own_schemas(lamp: LocalDeployment) -> None:
    """A push changes what is allowed from then on."""
    lamp.push([grouped(params={"days": Param("1")})])
    lamp.trigger("shop", conf={"days": "any"})
    assert [dict(run.conf) for run in lamp.runs("shop")] == [{"days": "any"}]
