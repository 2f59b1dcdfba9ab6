"""The handler of `submit`: one job for each submission, whatever happens on the way."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from lamplighter import DAG, SparkTask, aws, runtime
from lamplighter.events.dead_letters import dead_letters
from lamplighter.runs.advance import SUBMIT, advance_all
from lamplighter.store import catalog
from lamplighter.store.models import Dags, DagVersions
from lamplighter_local import handlers
from lamplighter_local.emr.fake_emr import EventFaults, FakeEmr, Outcome
from lamplighter_local.handlers import LambdaContext
from lamplighter_local.stack import LocalStack
from lamplighter_operations.pause import pause, unpause
from lamplighter_operations.runs import cancel_run, clear_run
from tests.integration.functions.job_messages import (
    DAG_ID,
    FIRST_JOB,
    JOB,
    KEY,
    before_call,
    fault,
    messages_on,
    of_run,
    one_task,
    queue_run,
    record,
    settle,
    states,
    step,
    submit,
    wait,
)
from tests.tools.call_counter import counted_calls
from tests.tools.definitions import register_dags
from tests.tools.invariants.steps import job_violations
from tests.tools.invariants.tables import violations


def require_one_job(emr: FakeEmr) -> None:
    """Check that there has been one job, which the row knows, and that all is sound."""
    assert [job.job_run_id for job in emr.jobs] == [FIRST_JOB]
    assert step().job_run_id == FIRST_JOB
    assert violations(is_idle=False) == job_violations(emr) == []


def test_submit_of_a_queued_run_starts_its_job(executing: LocalStack, emr: FakeEmr) -> None:
    """The context is put, the job is started, and the row says which one it is."""
    queue_run(one_task(arguments=["{{ run_id }}"]))
    assert submit(of_run()) == []
    require_one_job(emr)
    assert states(executing) == ["running", "submitted"]
    (job,) = emr.jobs
    bucket, key = aws.bucket_and_key(job.context_uri)
    context = json.load(aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"])
    assert (context["task_id"], context["submission"], context["arguments"]) == ("t", 1, ["first"])


def test_submit_again_while_the_job_runs_starts_nothing(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """A message that comes twice finds nothing to do."""
    queue_run(one_task())
    assert submit(of_run(), of_run()) == []
    assert submit(of_run()) == []
    require_one_job(emr)


@pytest.mark.parametrize("kind", ["crash-before", "crash-after", "lost-answer", "throttle"])
@pytest.mark.parametrize("operation", ["StartJobRun", "UpdateItem", "PutObject"])
def test_submit_that_fails_round_the_start_is_repeated_with_one_job(
    executing: LocalStack, emr: FakeEmr, operation: str, kind: str
) -> None:
    """A job that was started, and of which nobody took note, is taken over."""
    queue_run(one_task())
    with fault(kind, operation):
        submit(of_run())
    wait(executing, seconds=20)
    assert submit(of_run()) == []
    require_one_job(emr)


def test_submit_long_after_a_lost_start_finds_the_job_by_name(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """When its token may be forgotten, the job is looked for among all of that time."""
    queue_run(one_task())
    emr.takes(DAG_ID, "t", minutes=60)
    emr.page_size = 1
    with fault("crash-after", "StartJobRun"):
        submit(of_run())
    emr.forget_tokens()
    wait(executing, seconds=executing.settings.client_token_valid_seconds + 1)
    assert submit(of_run()) == []
    require_one_job(emr)


def test_submits_at_once_start_one_job(executing: LocalStack, emr: FakeEmr) -> None:
    """Of many that move a run at the same moment, one decides and all others see that."""
    queue_run(one_task())
    with ThreadPoolExecutor(8) as threads:
        for _ in range(16):
            threads.submit(advance_all, [(DAG_ID, KEY)], permissions=SUBMIT)
    submit(of_run())
    require_one_job(emr)


@pytest.mark.parametrize(
    "code",
    [
        "ThrottlingException",
        "ServiceQuotaExceededException",
        "ConflictException",
        "InternalServerException",
    ],
)
def test_submit_while_emr_is_busy_waits_without_spending_a_try(
    executing: LocalStack, emr: FakeEmr, code: str
) -> None:
    """Nothing fails: the message is taken, and another one comes later, each time after longer."""
    queue_run(one_task())
    emr.refuse_next("StartJobRun", code, times=6)
    executing.advance(seconds=15)
    assert (emr.jobs, step().state, step().try_number) == ([], "submitted", 1)
    executing.advance(minutes=30)
    assert states(executing) == ["success", "success"]
    assert (step().try_number, step().submission, len(emr.jobs)) == (1, 1, 1)


def test_submit_while_emr_is_busy_leaves_the_other_steps_for_later(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """The first refusal is enough: the rest would fare no better."""
    with DAG(DAG_ID) as dag:
        for number in range(5):
            SparkTask(f"t{number}", job=JOB)
    queue_run(dag)
    emr.refuse_next("StartJobRun", "ThrottlingException")
    with counted_calls() as calls:
        assert submit(of_run()) == []
    assert calls["StartJobRun"] == 1
    executing.advance(minutes=5)
    assert states(executing) == ["success"] * 6
    assert job_violations(emr) == violations() == []


def test_submit_at_an_application_without_room_leaves_the_job_in_its_queue(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """A job that waits in EMR's own queue is not started again."""
    emr.capacity = 0
    queue_run(one_task())
    executing.advance(minutes=40)
    assert (states(executing), [job.state for job in emr.jobs]) == (
        ["running", "submitted"],
        ["QUEUED"],
    )
    emr.capacity = 1
    executing.advance(minutes=1)
    assert states(executing) == ["success", "success"]
    assert len(emr.jobs) == 1


def test_submit_that_emr_refuses_costs_a_try(executing: LocalStack, emr: FakeEmr) -> None:
    """A refused start is an attempt like any other: it follows `retries`, with the reason."""
    queue_run(one_task(retries=1, retry_delay=60))
    emr.refuse_next("StartJobRun", "ValidationException", times=2)
    assert submit(of_run()) == []
    assert (states(executing), step().try_number) == (["running", "up_for_retry"], 1)
    executing.advance(minutes=5)
    assert (states(executing), step().try_number) == (["failed", "failed"], 2)
    assert "ValidationException" in (step().error or "")
    assert (emr.jobs, violations()) == ([], [])


def test_submit_without_rights_is_delivered_again(executing: LocalStack, emr: FakeEmr) -> None:
    """What an operator must repair goes on when it is repaired."""
    queue_run(one_task())
    emr.refuse_next("StartJobRun", "AccessDeniedException")
    assert submit(of_run()) == [0]
    assert submit(of_run()) == []
    require_one_job(emr)


def test_submit_with_a_template_that_cannot_be_filled_fails_the_step(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """An author's mistake is on the row, costs no job, and does not come again."""
    queue_run(one_task(arguments=["{{ ds }}"]))
    assert submit(of_run()) == []
    assert (states(executing), emr.jobs) == (["failed", "failed"], [])
    assert "ds" in (step().error or "")


def test_submit_with_a_variable_that_went_away_does_not_block_the_run(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """A template that could be filled in, and now cannot, ends the step like any other mistake."""
    queue_run(one_task(arguments=["{{ var.value.root }}"]))
    emr.refuse_next("StartJobRun", "ThrottlingException")
    catalog.set_variable("root", "/lake")
    assert submit(of_run()) == []
    catalog.delete_variable("root")
    executing.advance(hours=1)
    assert (states(executing), emr.jobs) == (["failed", "failed"], [])
    assert violations() == []


@pytest.mark.parametrize(
    "poison",
    [
        "no JSON",
        [],
        {},
        {"runs": [["dag"]]},
        {"runs": [["no/dag", KEY]]},
        {"runs": "dag"},
        {"runs": None},
    ],
)
def test_poison_among_good_messages_is_a_dead_letter(
    executing: LocalStack, emr: FakeEmr, poison: Any
) -> None:
    """A message that cannot be read does not come again; the others are dealt with."""
    queue_run(one_task("one"), one_task("two"))
    assert submit(of_run("one"), poison, of_run("two")) == []
    assert sorted(job.dag for job in emr.jobs) == ["one", "two"]
    (letter,) = dead_letters(limit=10)
    assert letter.queue_url == executing.settings.queue_url("submits-dlq")
    assert letter.reason.startswith("the message cannot be read: ")


def test_run_that_cannot_be_moved_does_not_hold_up_others_of_its_message(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """A message names several runs; it comes again because of one, and the others are moved."""
    queue_run(one_task("bad"), one_task("good"))
    for version in DagVersions.scan():
        if version.dag_id == "bad":
            version.delete()
    assert submit({"runs": [["bad", KEY], ["good", KEY]]}) == [0]
    assert [job.dag for job in emr.jobs] == ["good"]


@pytest.mark.parametrize("is_paced", [False, True])
def test_submit_that_runs_out_of_time_hands_its_runs_on(
    executing: LocalStack, emr: FakeEmr, *, is_paced: bool
) -> None:
    """What no longer fits is acknowledged and sent again, so that nothing is done twice."""
    queue_run(one_task("one"), one_task("two"))
    changed = replace(executing.settings, job_starts_per_second=int(is_paced))
    event = {"Records": [record(of_run("one")), record(of_run("two"))]}
    before = messages_on("submits")
    with runtime.using(settings=changed):
        answer = handlers.handler_of("submit")(event, LambdaContext(milliseconds=4_000))
    assert answer == {"batchItemFailures": []}
    assert emr.jobs == []
    assert messages_on("submits") == [*before, of_run("one"), of_run("two")]
    executing.run_until_idle()
    assert sorted(job.dag for job in emr.jobs) == ["one", "two"]


def test_old_messages_change_nothing(executing: LocalStack, emr: FakeEmr) -> None:
    """Dead letters of weeks ago name runs that are over, or that are no more."""
    queue_run(one_task())
    executing.advance(minutes=1)
    (before,) = executing.runs(DAG_ID)
    wait(executing, days=20)
    assert submit(of_run(), of_run(DAG_ID, "~gone"), of_run("gone", KEY)) == []
    assert [run.rev for run in executing.runs(DAG_ID)] == [before.rev]
    assert len(emr.jobs) == 1


def test_run_keeps_the_definition_it_was_created_with(executing: LocalStack, emr: FakeEmr) -> None:
    """A push between claim and submit is for the runs after it."""
    queue_run(one_task())
    with DAG(DAG_ID) as changed:
        SparkTask("other", job=JOB)
    register_dags(changed)
    executing.advance(minutes=1)
    assert ([job.task for job in emr.jobs], states(executing)) == (["t"], ["success", "success"])


def test_run_of_a_deleted_dag_ends_alone(executing: LocalStack, emr: FakeEmr) -> None:
    """The run goes on to its end, and does not bring the DAG's row back."""
    queue_run(one_task())
    Dags.get(DAG_ID).delete()
    executing.advance(minutes=1)
    assert (states(executing), len(emr.jobs)) == (["success", "success"], 1)
    assert list(Dags.scan()) == []


def test_submit_of_a_paused_dag_starts_nothing_until_it_goes_on(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """A run that was queued before the pause begins after it."""
    queue_run(one_task())
    pause(DAG_ID)
    executing.advance(minutes=20)
    assert (emr.jobs, executing.runs(DAG_ID)[0].state) == ([], "queued")
    unpause(DAG_ID)
    executing.advance(minutes=20)
    assert states(executing) == ["success", "success"]


def test_cancel_that_overtakes_a_late_start_leaves_no_job(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """A start that is repeated after long is known to whoever cancels at that moment."""
    queue_run(one_task())
    emr.events = EventFaults(drop=1.0)
    emr.next_outcome(DAG_ID, "t", Outcome.hangs())
    emr.refuse_next("StartJobRun", "ThrottlingException")
    submit(of_run())
    wait(executing, seconds=400)

    with before_call("StartJobRun", lambda: (cancel_run(DAG_ID, KEY), settle(of_run()))):
        submit(of_run())
    executing.advance(hours=1)
    assert job_violations(emr) == violations() == []
    assert states(executing) == ["cancelled", "failed"]


def test_clear_that_overtakes_a_late_start_makes_no_second_live_job(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """The step begins again when the job that was being started is over."""
    queue_run(one_task())
    emr.takes(DAG_ID, "t", minutes=30)
    emr.refuse_next("StartJobRun", "ThrottlingException")
    submit(of_run())
    wait(executing, seconds=400)

    with before_call(
        "StartJobRun", lambda: (clear_run(DAG_ID, KEY), settle(of_run()), submit(of_run()))
    ):
        submit(of_run())
    executing.advance(hours=2)
    assert job_violations(emr) == violations() == []
    assert states(executing) == ["success", "success"]


def test_submit_reports_its_numbers(
    executing: LocalStack, emr: FakeEmr, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was started is written as metrics of the function."""
    queue_run(one_task())
    handlers.handler_of("submit")({"Records": [record(of_run())]}, LambdaContext())
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (metrics["service"], metrics["StartedJobs"]) == ("submit", [1.0])
    assert len(emr.jobs) == 1


def test_submit_of_nothing_is_answered(executing: LocalStack) -> None:
    """An empty batch has no failures."""
    assert executing.runs(DAG_ID) == []
    assert handlers.call("submit", {"Records": []}) == {"batchItemFailures": []}
    assert messages_on("submits") == []
