"""What is said of a job too late, of another run, or not at all: it is not taken for news."""

import pytest

from lamplighter import aws
from lamplighter.store.models import Dags, Runs, Steps
from lamplighter_local.emr.fake_emr import EventFaults, FakeEmr, Outcome
from lamplighter_local.stack import LocalStack
from lamplighter_operations.runs import cancel_run
from lamplighter_operations.trigger import create_manual_run
from tests.integration.functions.job_messages import (
    DAG_ID,
    FIRST_JOB,
    KEY,
    RUN_ID,
    before_call,
    fault,
    messages_on,
    of_job,
    of_run,
    one_task,
    queue_run,
    settle,
    states,
    step,
    submit,
    wait,
)
from tests.tools.faults import Faults
from tests.tools.invariants.steps import job_violations
from tests.tools.invariants.tables import violations

HANGS = Outcome.hangs()


def test_job_started_for_a_step_that_is_over_is_not_noted_but_looked_at(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """The row keeps what it said, and the job, of which no event tells, is cancelled."""
    emr.events = EventFaults(drop=1.0)
    emr.next_outcome(DAG_ID, "t", HANGS)
    queue_run(one_task())

    def give_up_and_cancel() -> None:
        wait(executing, seconds=executing.settings.job_start_timeout_seconds + 20)
        cancel_run(DAG_ID, KEY)
        settle(of_run())
        assert states(executing) == ["cancelled", "failed"]

    with before_call("StartJobRun", give_up_and_cancel):
        submit(of_run())

    assert step().job_run_id is None
    assert {"job": FIRST_JOB, "executor": "emr-serverless"} in messages_on("jobstates")
    executing.run_until_idle()
    executing.advance(seconds=5)
    assert emr.live() == []
    assert states(executing) == ["cancelled", "failed"]
    assert violations() == []


def test_job_of_an_earlier_run_of_the_same_name_ends_no_step(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """A run that was deleted and made anew has jobs of its own, whose names differ by a mark."""
    queue_run(one_task())
    submit(of_run())
    wait(executing, seconds=5)
    settle(of_job())
    assert states(executing) == ["success", "success"]
    step().delete()
    Runs(DAG_ID, KEY).delete()
    emr.next_outcome(DAG_ID, "t", HANGS)
    create_manual_run(DAG_ID, logical_date=None, run_id=RUN_ID)
    with fault("crash-after", "StartJobRun"):
        submit(of_run())
    assert step().submission == 1
    assert step().job_run_id is None

    assert settle(of_job(FIRST_JOB)) == []

    assert states(executing) == ["running", "submitted"]
    assert step().job_run_id is None
    cancel_run(DAG_ID, KEY)
    executing.advance(minutes=10)
    assert states(executing) == ["cancelled", "failed"]


def test_running_job_of_an_earlier_submission_is_not_noted_but_cancelled(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """A step whose newer job nobody has noted yet does not take the older one for it."""
    emr.next_outcome(DAG_ID, "t", HANGS)
    queue_run(one_task())
    with fault("crash-after", "StartJobRun"):
        submit(of_run())
    # As after a clear that came before the first job was started, and so found none.
    step().update([Steps.submission.set(2)])
    wait(executing, seconds=5)

    assert settle(of_job(FIRST_JOB)) == []

    assert step().state == "submitted"
    assert step().job_run_id is None
    wait(executing, seconds=5)
    assert emr.live() == []
    executing.advance(minutes=30)
    assert states(executing) == ["success", "success"]
    assert job_violations(emr) == []


@pytest.mark.parametrize("look", ["sweep", "settle", "submit"])
def test_look_that_changes_nothing_lets_the_run_be_looked_at_later(
    executing: LocalStack, emr: FakeEmr, look: str
) -> None:
    """Else every sweep would look at it again, and ask EMR about its job."""
    emr.events = EventFaults(drop=1.0)
    emr.next_outcome(DAG_ID, "t", HANGS)
    queue_run(one_task())
    submit(of_run())
    wait(executing, seconds=5)
    settle(of_job())
    assert states(executing) == ["running", "running"]
    run = Runs.get(DAG_ID, KEY, consistent_read=True)
    assert run.wake_at is not None
    executing.clock.move(to=run.wake_at.add(seconds=1))
    before = (step().state, run.state)

    if look == "sweep":
        executing.sweep()
    else:
        (settle if look == "settle" else submit)(of_run())

    run = Runs.get(DAG_ID, KEY, consistent_read=True)
    assert (step().state, run.state) == before
    assert run.wake_at is not None
    assert run.wake_at > executing.clock.now()


# Reports that may not be read.


def test_report_that_may_not_be_read_lets_the_message_come_again(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """The step is not settled as if its job had said nothing; later it is, with what it said."""
    emr.next_outcome(DAG_ID, "t", Outcome.skipped("nothing new"))
    queue_run(one_task())
    submit(of_run())
    wait(executing, seconds=5)
    faults = Faults()
    faults.at(1, "throttle", "GetObject", code="AccessDenied")
    with faults.on(aws.client("s3")):
        assert settle(of_job()) == [0]
    assert states(executing) == ["running", "submitted"]

    assert settle(of_job()) == []

    assert states(executing) == ["success", "skipped"]


def test_missing_report_that_is_called_forbidden_counts_as_none(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """S3 may answer so about an object that does not exist; the list of objects decides."""
    queue_run(one_task())
    submit(of_run())
    wait(executing, seconds=1_000)
    s3 = aws.client("s3")
    listed = s3.list_objects_v2(Bucket=executing.settings.bucket, Prefix="jobs/")["Contents"]
    for key in [each["Key"] for each in listed if each["Key"].endswith("report.json")]:
        s3.delete_object(Bucket=executing.settings.bucket, Key=key)
    faults = Faults()
    faults.at(1, "throttle", "GetObject", code="AccessDenied")
    with faults.on(s3):
        assert settle(of_job()) == []

    assert not faults.pending
    assert states(executing) == ["success", "success"]


def test_sweep_leaves_a_step_alone_whose_report_may_not_be_read(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """It looks again later, and nothing is decided meanwhile."""
    emr.events = EventFaults(drop=1.0)
    emr.next_outcome(DAG_ID, "t", Outcome.skipped("nothing new"))
    queue_run(one_task())
    submit(of_run())
    wait(executing, seconds=1_000)
    faults = Faults()
    faults.at(1, "throttle", "GetObject", code="AccessDenied")
    with faults.on(aws.client("s3")):
        executing.sweep()
    assert not faults.pending
    assert states(executing) == ["running", "submitted"]
    assert Dags.get(DAG_ID, consistent_read=True).active == {KEY}

    executing.sweep()

    assert states(executing) == ["success", "skipped"]
