"""A deployment whose jobs run on the fake EMR Serverless with the limits of an AWS account."""

import datetime
import json
from dataclasses import replace
from typing import Any

import pendulum
import pytest

from lamplighter import DAG, SparkTask, aws
from lamplighter.zones import as_utc
from lamplighter_local import LocalDeployment
from lamplighter_local.emr.behaviour import Resources
from lamplighter_local.emr.fake_emr import EmrBehaviour, EventFaults, FakeEmr

START = as_utc(datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC))
# An account that has been used for long.
LARGE = EmrBehaviour(account_vcpus=4_000, max_concurrent_runs=100)


def hourly(dag_id: str = "hourly", **task: Any) -> DAG:
    """Return a DAG with one task, every hour."""
    with DAG(dag_id, schedule="0 * * * *", start_date=pendulum.instance(START)) as dag:
        SparkTask("load", entry_point="jobs/load.py", **task)
    return dag


def emr_of(lamp: LocalDeployment) -> FakeEmr:
    """Return what runs the jobs of a deployment."""
    assert isinstance(lamp.executor, FakeEmr)
    return lamp.executor


def messages(lamp: LocalDeployment) -> int:
    """Return how many messages wait on the queue of job states."""
    url = lamp.queue_url("jobstates")
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    answer = aws.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)
    return sum(int(answer["Attributes"][name]) for name in names)


def test_deployment_on_emr_has_the_limits_of_a_new_account() -> None:
    """Rates, quotas and delays are AWS's defaults, and chance is the deployment's."""
    with LocalDeployment([hourly()], at=START, executor="emr", seed=7) as lamp:
        capacity = Resources(vcpus=16, memory_gb=64, disk_gb=400)
        assert emr_of(lamp).behaviour == EmrBehaviour(maximum_capacity=capacity, seed=7)
        lamp.advance(hours=2, minutes=10)
        assert [run.state for run in lamp.runs("hourly")] == ["success", "success"]
        running = [job.running_at for job in emr_of(lamp).jobs]
        assert all(at is not None and at >= START.add(hours=1, minutes=1) for at in running)
        lamp.check_invariants()


def test_utilization_event_is_acknowledged(lamplighter: Any) -> None:
    """A message about the bill of a job does no harm and does not stay."""
    lamp = lamplighter([hourly()], at=START, executor="emr")
    lamp.advance(hours=1, minutes=10)
    assert messages(lamp) == 0
    assert lamp.dead_letters() == []
    assert emr_of(lamp).take_events() == []


@pytest.mark.parametrize(
    "kind", ["EMR Serverless Application State Change", "EMR Serverless Job Run Retry"]
)
def test_event_of_another_kind_is_acknowledged(lamplighter: Any, kind: str) -> None:
    """An event that says nothing to us is taken from the queue, and is no dead letter."""
    lamp = lamplighter([hourly()], at=START, executor="emr")
    body = json.dumps({"detail-type": kind, "detail": {"applicationId": "00local"}})
    aws.client("sqs").send_message(QueueUrl=lamp.queue_url("jobstates"), MessageBody=body)
    lamp.run_until_idle()
    assert messages(lamp) == 0
    assert lamp.dead_letters() == []


def test_outcomes_and_durations_of_tasks_hold_on_emr(lamplighter: Any) -> None:
    """What a test says of tasks holds whichever fake runs them."""
    lamp = lamplighter([hourly(retries=1)], at=START, executor="emr")
    lamp.fail_next("hourly", "load")
    lamp.takes("hourly", "load", minutes=5)
    lamp.advance(hours=1, minutes=30)
    (run,) = lamp.runs("hourly")
    assert (run.state, run.step("load").try_number) == ("success", 2)
    lamp.skip_next("hourly", "load", reason="nothing new")
    lamp.advance(hours=1)
    assert lamp.runs("hourly")[1].step("load").state == "skipped"


def test_starts_above_the_rate_are_throttled_and_lose_nothing(lamplighter: Any) -> None:
    """Of forty runs at one instant the burst is started; the others follow, each once."""
    dags = [hourly(f"dag-{n}") for n in range(40)]
    emr = FakeEmr(takes_seconds=60, behaviour=LARGE)
    lamp = lamplighter(dags, at=START, executor=emr)
    lamp.advance(hours=1, minutes=30)
    assert emr.throttles["StartJobRun"] > 0
    assert len(emr.jobs) == 40
    assert emr.doubles() == []
    assert {lamp.runs(dag.dag_id)[0].state for dag in dags} == {"success"}


def test_lost_events_of_all_kinds_lose_no_run(lamplighter: Any) -> None:
    """Runs end although EventBridge tells nothing at all."""
    emr = FakeEmr(takes_seconds=60, behaviour=LARGE)
    emr.events = EventFaults(drop=1)
    lamp = lamplighter([hourly()], at=START, executor=emr)
    lamp.advance(hours=2)
    assert lamp.runs("hourly")[0].state == "success"


@pytest.mark.parametrize("seed", [1, 2])
def test_history_on_emr_depends_on_the_seed(seed: int) -> None:
    """Two deployments with one seed see the same instants."""

    def history() -> list[Any]:
        with LocalDeployment([hourly()], at=START, executor="emr", seed=seed) as lamp:
            lamp.advance(hours=2, minutes=10)
            return [job.timeline for job in emr_of(lamp).jobs]

    assert history() == history()


def test_capacity_can_be_raised_while_jobs_wait(lamplighter: Any) -> None:
    """An application that grows lets queued jobs begin."""
    emr = FakeEmr(takes_seconds=60, behaviour=replace(LARGE, max_concurrent_runs=1))
    lamp = lamplighter([hourly(f"dag-{n}") for n in range(3)], at=START, executor=emr)
    lamp.takes("dag-0", "load", hours=3)
    lamp.advance(hours=1, minutes=10)
    assert [str(job.state) for job in emr.jobs].count("QUEUED") > 0
    emr.capacity = 3
    lamp.advance(minutes=20)
    assert [str(job.state) for job in emr.jobs[:3]].count("SUCCESS") == 2
