"""The handler of `settle`: what is heard of jobs late, twice, out of order, or of no one's job."""

import gzip
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset, AssetAlias, SparkTask, aws, runtime
from lamplighter.events.dead_letters import dead_letters
from lamplighter.executors.emr import EmrServerless
from lamplighter.runs.advance import settle as settle_message
from lamplighter.store.models import AssetEvents, Dags, DagVersions, Runs
from lamplighter_local import handlers
from lamplighter_local.emr.behaviour import INSTANT
from lamplighter_local.emr.fake_emr import EventFaults, FakeEmr, Outcome
from lamplighter_local.handlers import LambdaContext
from lamplighter_local.stack import LocalStack
from lamplighter_operations.runs import cancel_run, clear_run
from tests.integration.functions.job_messages import (
    DAG_ID,
    FIRST_JOB,
    JOB,
    KEY,
    fault,
    lose_messages,
    messages_on,
    of_bill,
    of_job,
    of_run,
    one_task,
    queue_run,
    record,
    settle,
    states,
    step,
    submit,
    two_parents,
    wait,
)
from tests.tools.call_counter import counted_calls
from tests.tools.definitions import register_dags
from tests.tools.faults import Faults
from tests.tools.invariants.steps import job_violations
from tests.tools.invariants.tables import violations
from tests.tools.reports import put_signed_report

A = Asset("a")


def finish_job(stack: LocalStack, *dags: DAG) -> None:
    """Start the job of a run, and let it be over; nobody has heard of that."""
    queue_run(*(dags or (one_task(outlets=[A]),)))
    assert submit(of_run()) == []
    wait(stack, seconds=2)


def own_job(uri: str) -> str:
    """Start a job that is not one of a run; return its id."""
    answer = aws.client("emr-serverless").start_job_run(
        applicationId="00local",
        clientToken="own",
        executionRoleArn="arn:aws:iam::123456789012:role/jobs",
        jobDriver={"sparkSubmit": {"entryPoint": "s3://lake/x.py", "entryPointArguments": [uri]}},
    )
    return str(answer["jobRunId"])


def told() -> list[str]:
    """Return the assets of which events are stored."""
    return [event.asset_id for event in AssetEvents.scan(consistent_read=True)]


def test_settle_of_a_success_ends_the_run_and_tells_of_outlets(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """One event of EventBridge leads to the step, the run and a message for each outlet."""
    finish_job(executing)
    assert settle(of_job()) == []
    assert states(executing) == ["success", "success"]
    assert ([m["asset"] for m in messages_on("events")], told()) == (["a"], ["a"])
    assert job_violations(emr) == violations(is_idle=False) == []


def fail_with_log(stack: LocalStack, emr: FakeEmr, text: str | None) -> str:
    """Let a job fail that left no report; return the error of its step."""
    place = f"s3://{stack.settings.bucket}/logs/"
    with runtime.using(settings=replace(stack.settings, job_logs_uri=place)):
        emr.next_outcome(DAG_ID, "t", Outcome("FAILED", details="ExitCode: 1."))
        finish_job(stack, one_task())
        if text is not None:
            bucket, key = aws.bucket_and_key(EmrServerless().log_uri(FIRST_JOB, "stderr"))
            body = gzip.compress(text.encode())
            aws.client("s3").put_object(Bucket=bucket, Key=key, Body=body)
        assert settle(of_job()) == []
    assert states(stack) == ["failed", "failed"]
    return step().error or ""


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("INFO x\nValueError: no such day\n", "ExitCode: 1.\nValueError: no such day"),
        ("INFO nothing to see\n", "ExitCode: 1."),
        (None, "ExitCode: 1."),
    ],
)
def test_settle_of_a_failure_without_a_report_looks_into_the_log(
    executing: LocalStack, emr: FakeEmr, text: str | None, error: str
) -> None:
    """The first exception of the driver stands below what EMR says; a missing log is no matter."""
    assert fail_with_log(executing, emr, text) == error


@pytest.mark.parametrize("kind", ["throttle", "lost-answer"])
def test_settle_of_a_failure_whose_log_cannot_be_read_ends_all_the_same(
    executing: LocalStack, emr: FakeEmr, kind: str
) -> None:
    """What S3 does not give is not waited for: the state of the job is known."""
    s3 = aws.client("s3", read_seconds=30.0)
    faults = Faults()
    faults.at(1, kind, "GetObject")  # type: ignore[arg-type]
    with faults.on(s3):
        assert fail_with_log(executing, emr, "ValueError: no such day\n") == "ExitCode: 1."


def test_settle_of_the_same_event_again_changes_nothing(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """Events that are doubled, in one batch or weeks later, find that all is done."""
    finish_job(executing)
    assert settle(of_job(), of_job()) == []
    (before,) = executing.runs(DAG_ID)
    wait(executing, days=20)
    assert settle(of_job(), of_run()) == []
    assert [run.rev for run in executing.runs(DAG_ID)] == [before.rev]
    assert (len(messages_on("events")), told(), len(emr.jobs)) == (1, ["a"], 1)


def test_bill_that_comes_late_and_often_is_added_and_counted_once(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """An event that comes before the bill finds none; of those after it, one adds to the metric."""
    emr.put_back(FakeEmr(behaviour=replace(INSTANT, billing_delay_seconds=600)).copy_state())
    finish_job(executing, one_task())
    early = [settle_message(json.dumps(body)).job_dollars for body in (of_job(), of_bill())]
    (run,) = executing.runs(DAG_ID)
    assert (early, run.state, run.unbilled_jobs) == ([0, 0], "success", 1)
    assert run.cost is None
    wait(executing, seconds=600)
    late = [settle_message(json.dumps(of_bill())).job_dollars for _ in range(3)]
    (run,) = executing.runs(DAG_ID)
    assert late == [run.cost, 0, 0]
    assert violations() == []


def test_event_that_comes_after_a_later_one_changes_nothing(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """What an event says is not believed: the job is asked how it is now."""
    queue_run(one_task())
    submit(of_run())
    wait(executing, seconds=0.7)
    assert settle(of_job()) == []
    assert states(executing) == ["running", "running"]
    wait(executing, seconds=1)
    stale = of_job()
    stale["detail"]["state"] = "SCHEDULED"
    assert settle(of_job(), stale, of_job()) == []
    assert states(executing) == ["success", "success"]
    assert len(emr.jobs) == 1


@pytest.mark.parametrize("seconds", [0.7, 2.0])
def test_event_before_the_row_knows_its_job_is_taken_as_the_steps(
    executing: LocalStack, emr: FakeEmr, seconds: float
) -> None:
    """A job says itself whose it is, so that its events need not wait for the row."""
    queue_run(one_task(outlets=[A]))
    with fault("crash-after", "StartJobRun"):
        submit(of_run())
    assert step().job_run_id is None
    wait(executing, seconds=seconds)
    assert settle(of_job()) == []
    assert step().job_run_id == FIRST_JOB
    executing.advance(minutes=10)
    assert (states(executing), len(emr.jobs), told()) == (["success", "success"], 1, ["a"])
    assert violations() == []


def test_event_of_another_application_is_not_asked_about(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """Whatever other applications do is no business of ours."""
    finish_job(executing)
    with counted_calls() as calls:
        assert settle(of_job(application="00other")) == []
    assert (calls["GetJobRun"], states(executing)) == (0, ["running", "submitted"])
    assert len(emr.jobs) == 1


@pytest.mark.parametrize(
    "uri",
    ["", "s3://lake/orders", "s3://local/jobs/context.json", "s3://local/jobs/a/b/c/1-5f3a/x.json"],
)
def test_job_of_someone_else_is_left_alone(executing: LocalStack, emr: FakeEmr, uri: str) -> None:
    """A job that a person has started in our application runs on."""
    assert settle(of_job(own_job(uri))) == []
    assert executing.runs(DAG_ID) == []
    assert [job.state for job in emr.jobs] == ["SUBMITTED"]


def test_job_of_another_deployment_is_left_alone(executing: LocalStack, emr: FakeEmr) -> None:
    """Two deployments may share an application; a job belongs to the one whose bucket it has."""
    queue_run(one_task())
    submit(of_run())
    Runs.get(DAG_ID, KEY).delete()  # the other one's tables do not know the run
    with runtime.using(settings=replace(executing.settings, bucket="another")):
        assert settle(of_job()) == []
    assert [job.state for job in emr.jobs] == ["SUBMITTED"]


def test_live_job_of_a_run_that_is_gone_is_cancelled(executing: LocalStack, emr: FakeEmr) -> None:
    """What runs for nobody is ended as soon as it is heard of."""
    queue_run(one_task())
    submit(of_run())
    Runs.get(DAG_ID, KEY).delete()
    assert settle(of_job()) == []
    wait(executing, seconds=5)
    assert [job.state for job in emr.jobs] == ["CANCELLED"]


def test_job_that_emr_does_not_know_is_ignored(executing: LocalStack, emr: FakeEmr) -> None:
    """An event may name a job that was forgotten since."""
    finish_job(executing)
    assert settle(of_job("00fake009999")) == []
    assert states(executing) == ["running", "submitted"]
    assert len(emr.jobs) == 1


def test_step_whose_job_emr_has_forgotten_is_tried_again(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """A step cannot wait for a job that nobody will ever hear of."""
    queue_run(one_task(retries=1, retry_delay=timedelta(0)))
    submit(of_run())
    row = step()
    row.job_run_id = "00fake009999"
    row.save()
    wait(executing, minutes=10)
    assert settle(of_run()) == []
    assert (step().state, "00fake009999" in (step().error or "")) == ("up_for_retry", True)
    assert len(emr.jobs) == 1


@pytest.mark.parametrize("state", ["SUCCESS", "FAILED"])
@pytest.mark.parametrize(
    "body",
    [
        None,
        b"",
        b"no JSON",
        b"\xff\xfe",
        b"[1, 2]",
        b"null",
        b"[" * 100_000,
        b'{"version": 1, "reason": 5, "outlets": [], "aliases": "x"}',
        b'{"outlets": {"a": [1]}, "aliases": {"x": {"name": "b"}}}',
        b'{"outlets": {"a": {"k": NaN}}, "aliases": {"x": [5, null]}}',
        b'{"outlets": {"a": {"k\\ud800": "\\ud800"}}, "reason": "half \\ud800"}',
        b'{"aliases": {"x": [{"name": 5}, {"uri": 5}, {"name": {"a": 1}}, {}]}}',
        b'{"aliases": {"x": [{"name": "\\ud800"}, {"uri": "s3://\\ud800/x"}]}}',
        b'{"aliases": {"x": [{"name": "b", "extra": 5}, {"name": "c", "extra": {"k": NaN}}]}}',
    ],
)
def test_report_that_makes_no_sense_does_not_stop_the_run(
    executing: LocalStack, emr: FakeEmr, body: bytes | None, state: Any
) -> None:
    """A job is what EMR says it is; what it says of itself may be anything."""
    emr.next_outcome(DAG_ID, "t", Outcome(state))
    finish_job(executing, one_task(outlets=[A, AssetAlias("x")]))
    (job,) = emr.jobs
    if body is not None:
        put_signed_report(job.context_uri, body)
    assert settle(of_job()) == []
    assert states(executing) == [state.lower()] * 2
    assert ("a" in told()) == (state == "SUCCESS")
    executing.advance(minutes=10)
    assert violations() == []


@pytest.mark.parametrize("kind", ["crash-before", "throttle", "lost-answer", "crash-after"])
def test_outlet_message_that_is_lost_is_sent_again(
    executing: LocalStack, emr: FakeEmr, kind: str
) -> None:
    """An event is stored with the success; its consumer runs once, whatever becomes of messages."""
    with DAG("consumer", schedule=[A]) as consumer:
        SparkTask("u", job=JOB)
    queue_run(one_task(outlets=[A]))
    register_dags(one_task(outlets=[A]), consumer)
    submit(of_run())
    wait(executing, seconds=2)
    with fault(kind, "SendMessageBatch"):
        settle(of_job())
    assert told() == ["a"]
    executing.advance(minutes=20)
    assert [run.state for run in executing.runs("consumer")] == ["success"]
    assert len(emr.jobs) == 2
    assert violations() == job_violations(emr) == []


def test_two_parents_that_end_at_once_start_their_child_once(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """Whoever is second sees that the other is done; none is overlooked."""
    queue_run(two_parents())
    submit(of_run())
    wait(executing, seconds=2)
    events = [json.dumps(of_job(job.job_run_id)) for job in emr.jobs]
    with ThreadPoolExecutor(4) as threads:
        answers = [threads.submit(settle_message, event) for event in events * 2]
    assert [answer.exception() for answer in answers] == [None] * 4
    executing.advance(minutes=1)
    assert states(executing) == ["success"] * 4
    assert sorted(job.task for job in emr.jobs) == ["a", "b", "c"]
    assert violations() == job_violations(emr) == []


def test_run_of_a_deleted_dag_is_settled(executing: LocalStack, emr: FakeEmr) -> None:
    """A run whose DAG was deleted ends alone, and nothing brings the row back."""
    finish_job(executing)
    Dags.get(DAG_ID).delete()
    assert settle(of_job()) == []
    assert states(executing) == ["success", "success"]
    assert (list(Dags.scan()), len(emr.jobs)) == ([], 1)


def test_run_of_a_changed_dag_is_settled_as_it_began(executing: LocalStack, emr: FakeEmr) -> None:
    """A task that was removed by a push still has its step, and its outlets are told."""
    finish_job(executing)
    with DAG(DAG_ID) as changed:
        SparkTask("other", job=JOB)
    register_dags(changed)
    executing.advance(minutes=10)
    assert (states(executing), told(), len(emr.jobs)) == (["success", "success"], ["a"], 1)


@pytest.mark.parametrize(
    "poison",
    [
        "no JSON",
        [],
        {},
        5,
        {"detail": {}},
        {"detail": {"applicationId": "00local"}},
        {"runs": [[]]},
        {"runs": [["no/dag", KEY]]},
    ],
)
def test_poison_among_good_messages_is_a_dead_letter(
    executing: LocalStack, emr: FakeEmr, poison: Any
) -> None:
    """A message that cannot be read does not come again; the others are dealt with."""
    finish_job(executing)
    assert settle(poison, of_job()) == []
    assert states(executing) == ["success", "success"]
    assert len(emr.jobs) == 1
    (letter,) = dead_letters(limit=10)
    assert letter.queue_url == executing.settings.queue_url("jobstates-dlq")
    assert letter.reason.startswith("the message cannot be read: ")


def test_run_that_cannot_be_moved_does_not_hold_up_others_of_its_message(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """A message names several runs; it comes again because of one, and the others are moved."""
    queue_run(one_task("bad"), one_task("good"))
    assert submit(of_run("bad"), of_run("good")) == []
    wait(executing, seconds=2)
    for version in DagVersions.scan():
        if version.dag_id == "bad":
            version.delete()
    runtime.current().caches.clear()
    assert settle({"runs": [["bad", KEY], ["good", KEY]]}) == [0]
    assert states(executing, "good") == ["success", "success"]
    assert len(emr.jobs) == 2


@pytest.mark.parametrize("operation", ["GetJobRun", "GetObject"])
@pytest.mark.parametrize("kind", ["throttle", "lost-answer"])
def test_settle_that_cannot_ask_is_delivered_again(
    executing: LocalStack, emr: FakeEmr, operation: str, kind: str
) -> None:
    """An event whose job cannot be asked about now is not lost."""
    finish_job(executing)
    with fault(kind, operation):
        assert settle(of_job()) == [0]
    assert settle(of_job()) == []
    assert states(executing) == ["success", "success"]
    assert len(emr.jobs) == 1


def test_cancel_that_emr_throttles_is_repeated(executing: LocalStack, emr: FakeEmr) -> None:
    """A run is cancelled only when its job is over, however often that must be asked for."""
    emr.next_outcome(DAG_ID, "t", Outcome.hangs())
    finish_job(executing)
    emr.refuse_next("CancelJobRun", "ThrottlingException", times=3)
    cancel_run(DAG_ID, KEY)
    executing.run_until_idle()
    assert states(executing) == ["running", "cancelling"]
    executing.advance(hours=1)
    assert states(executing) == ["cancelled", "failed"]
    assert job_violations(emr) == violations() == []


def test_event_of_an_earlier_submission_changes_nothing(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """After a clear, the job of before has no say any more."""
    finish_job(executing)
    assert settle(of_job()) == []
    emr.takes(DAG_ID, "t", minutes=60)
    clear_run(DAG_ID, KEY)
    executing.advance(minutes=5)
    assert states(executing) == ["running", "running"]
    assert settle(of_job(FIRST_JOB)) == []
    assert (states(executing), step().job_run_id) == (["running", "running"], "00fake000002")
    assert violations() == job_violations(emr) == []


def test_cancel_beside_a_start_that_waits_makes_no_storm(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """While one step is being cancelled and another cannot start, messages do not chase on."""
    with DAG(DAG_ID) as dag:
        SparkTask("a", job=JOB, priority_weight=2)
        SparkTask("b", job=JOB)
    queue_run(dag)
    emr.next_outcome(DAG_ID, "a", Outcome.hangs())
    assert submit(of_run()) == []
    row = step("b")  # as if nobody had been able to start it
    row.job_run_id = None
    row.save()
    lose_messages("submits", "jobstates")
    wait(executing, seconds=200)
    emr.refuse_next("StartJobRun", "ThrottlingException", times=1_000)
    calls: Counter[str] = Counter()
    call = handlers.call

    def counted(function: str, *arguments: Any) -> Any:
        calls[function] += 1
        assert calls.total() < 50, f"messages chase on: {calls}"
        return call(function, *arguments)

    clear_run(DAG_ID, KEY, tasks=["a"])
    with patch.object(handlers, "call", counted):
        executing._deliver()
        while executing._deliver():
            pass


def test_short_time_limit_holds_though_no_event_comes(executing: LocalStack, emr: FakeEmr) -> None:
    """A limit below five minutes is ours to keep, and is kept to the second without events."""
    emr.events = EventFaults(drop=1.0)
    emr.takes(DAG_ID, "t", minutes=4)
    queue_run(one_task(execution_timeout=timedelta(seconds=60)))
    executing.advance(seconds=70)
    assert [job.state for job in emr.jobs] == ["CANCELLED"]
    executing.advance(minutes=20)
    assert states(executing) == ["failed", "failed"]
    assert violations() == job_violations(emr) == []


def test_settle_reports_its_numbers(
    executing: LocalStack, emr: FakeEmr, capsys: pytest.CaptureFixture[str]
) -> None:
    """What became of steps and runs is written as metrics of the function."""
    finish_job(executing)
    handlers.handler_of("settle")({"Records": [record(of_job())]}, LambdaContext())
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (metrics["service"], metrics["SucceededSteps"], metrics["SucceededRuns"]) == (
        "settle",
        [1.0],
        [1.0],
    )
    assert len(emr.jobs) == 1
