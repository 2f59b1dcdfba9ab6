"""The handler of `sweep`, called as its timer calls it."""

import json
from datetime import timedelta
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset, runtime
from lamplighter.scheduler.claim import ClaimReport
from lamplighter.store.models import AssetEvents, DagVersions
from lamplighter_local import handlers
from lamplighter_local.emr.fake_emr import EventFaults, FakeEmr, Outcome
from lamplighter_local.handlers import LambdaContext
from lamplighter_local.stack import LocalStack
from lamplighter_operations.runs import cancel_run
from tests.integration.events.batches import asset_row, body, ingest, lines
from tests.integration.functions.job_messages import (
    DAG_ID,
    KEY,
    fault,
    lose_messages,
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
from tests.tools.definitions import register_dags
from tests.tools.invariants.steps import job_violations
from tests.tools.invariants.tables import violations

TIMER = {"source": "aws.events", "detail-type": "Scheduled Event", "time": "2026-01-05T12:05:00Z"}


def sweep() -> dict[str, float]:
    """Fire the timer; return what was found, without what was not."""
    answer: dict[str, float] = handlers.call("sweep", TIMER)
    return {name: number for name, number in answer.items() if number}


def leave_open(executing: LocalStack) -> None:
    """Record an event, and let whoever did it end before anyone was told."""
    register_dags(DAG("dag", schedule=[Asset("orders", "s3://lake/orders")]))
    with patch("lamplighter.events.ingest.fan_out", return_value=ClaimReport()):
        assert ingest(lines(body("orders", "a"))) == []
    assert asset_row("orders").open_shard is not None


def test_sweep_fires_what_a_crash_left_behind(executing: LocalStack) -> None:
    """An event that reached nobody creates its run after the waiting time, and only one."""
    leave_open(executing)
    assert handlers.call("sweep", TIMER)["claimed_runs"] == 0
    executing.clock.move(
        to=executing.clock.now().add(seconds=executing.settings.resend_after_seconds)
    )
    assert handlers.call("sweep", TIMER)["claimed_runs"] == 1
    assert handlers.call("sweep", TIMER)["claimed_runs"] == 0
    (run,) = executing.runs("dag")
    assert (run.run_type, run.events) == ("asset_triggered", {"orders": [0, 1]})
    assert asset_row("orders").open_shard is None


def test_sweep_of_nothing_is_answered(executing: LocalStack) -> None:
    """On most days there is nothing to do."""
    assert handlers.call("sweep", TIMER)["claimed_runs"] == 0


def test_sweep_without_time_leaves_nothing_lost(executing: LocalStack) -> None:
    """A sweep that has to stop leaves the rest as it is, for the next one."""
    leave_open(executing)
    executing.clock.move(to=executing.clock.now().add(minutes=5))
    for _ in range(executing.settings.run_shards):
        handlers.call("sweep", TIMER, LambdaContext(milliseconds=1_000))
    handlers.call("sweep", TIMER)
    assert len(executing.runs("dag")) == 1


def test_sweep_reports_its_numbers(
    executing: LocalStack, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was claimed is written as metrics of the function."""
    leave_open(executing)
    executing.clock.move(to=executing.clock.now().add(minutes=5))
    handlers.handler_of("sweep")(TIMER, LambdaContext())
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (metrics["service"], metrics["ClaimedRuns"]) == ("sweep", [1.0])


# Runs.


def test_sweep_finds_a_run_whose_message_was_lost(executing: LocalStack, emr: FakeEmr) -> None:
    """A run that was queued and never handed on is handed on after the waiting time, not before."""
    queue_run(one_task())
    lose_messages("submits")
    assert sweep() == {}
    wait(executing, seconds=executing.settings.resend_after_seconds)
    assert sweep() == {"woken_runs": 1}
    assert messages_on("submits") == [of_run()]
    executing.advance(minutes=1)
    assert states(executing) == ["success", "success"]
    assert len(emr.jobs) == 1


@pytest.mark.parametrize("state", ["SUCCESS", "FAILED", "CANCELLED"])
def test_sweep_finds_a_job_whose_events_were_lost(
    executing: LocalStack, emr: FakeEmr, state: str
) -> None:
    """A job that nobody has spoken of is asked about."""
    emr.events = EventFaults(drop=1.0)
    emr.next_outcome(DAG_ID, "t", Outcome(state))  # type: ignore[arg-type] # one of three texts
    queue_run(one_task())
    executing.run_until_idle()
    wait(executing, seconds=executing.settings.job_poll_seconds)
    found = sweep()
    wanted = "success" if state == "SUCCESS" else "failed"
    assert states(executing) == [wanted, wanted]
    # What it finds is counted as if the event had come.
    counted = "succeeded" if state == "SUCCESS" else "failed"
    assert found.pop("job_dollars") > 0
    assert found == {"woken_runs": 1, f"{counted}_steps": 1, f"{counted}_runs": 1}
    assert violations() == job_violations(emr) == []


def test_sweep_finds_a_start_of_which_nobody_took_note(executing: LocalStack, emr: FakeEmr) -> None:
    """A job whose starter died, whose message and whose events are lost, is still found."""
    emr.events = EventFaults(drop=1.0)
    queue_run(one_task())
    with fault("crash-after", "StartJobRun"):
        submit(of_run())
    lose_messages("submits", "jobstates")
    emr.forget_tokens()
    executing.advance(hours=2)
    assert (states(executing), len(emr.jobs)) == (["success", "success"], 1)
    assert violations() == job_violations(emr) == []


def test_sweep_finds_a_retry_whose_message_was_lost(executing: LocalStack, emr: FakeEmr) -> None:
    """A step whose time to be tried again has come is tried again."""
    emr.fail_next(DAG_ID, "t")
    queue_run(one_task(retries=1, retry_delay=timedelta(minutes=3)))
    submit(of_run())
    wait(executing, seconds=2)
    settle(of_job())
    lose_messages("submits", "jobstates")
    assert step().state == "up_for_retry"
    executing.advance(minutes=10)
    assert states(executing) == ["success", "success"]
    assert len(emr.jobs) == 2


def test_sweep_cancels_what_a_lost_message_left_running(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """A cancel of which nobody heard takes place all the same."""
    emr.events = EventFaults(drop=1.0)
    emr.next_outcome(DAG_ID, "t", Outcome.hangs())
    queue_run(one_task())
    executing.advance(seconds=5)
    cancel_run(DAG_ID, KEY)
    lose_messages("jobstates")
    assert sweep() == {"woken_runs": 1, "cancelled_jobs": 1}
    assert [job.state for job in emr.live()] == ["CANCELLING"]
    executing.advance(hours=1)
    assert states(executing) == ["cancelled", "failed"]
    assert violations() == job_violations(emr) == []


def test_sweep_sends_an_outlet_again_until_it_has_a_number(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """An event that was stored and never arrived is sent again; one that arrived is not."""
    queue_run(one_task(outlets=[Asset("orders")]))
    submit(of_run())
    wait(executing, seconds=2)
    settle(of_job())
    lose_messages("events")
    assert sweep() == {}
    wait(executing, seconds=executing.settings.resend_after_seconds)
    assert sweep() == {"resent_events": 1}
    executing.run_until_idle()
    (event,) = AssetEvents.scan(consistent_read=True)
    assert event.seq == 1
    assert event.pending_shard is None
    wait(executing, minutes=10)
    assert sweep() == {}
    assert len(emr.jobs) == 1


def test_sweep_goes_on_after_a_run_that_cannot_be_moved(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """One run in trouble does not keep the sweep from those after it."""
    queue_run(one_task("bad"), one_task("good"))
    lose_messages("submits")
    for version in DagVersions.scan(consistent_read=True):
        if version.dag_id == "bad":
            version.delete()
    runtime.current().caches.clear()
    executing.advance(minutes=10)
    assert states(executing, "good") == ["success", "success"]
    assert [job.dag for job in emr.jobs] == ["good"]


@pytest.mark.parametrize("call", [1, 2, 3])
def test_sweep_whose_search_fails_goes_on_with_the_next(
    executing: LocalStack, emr: FakeEmr, call: int
) -> None:
    """A throttle in one search costs the others nothing, and is made good by the next sweep."""
    queue_run(one_task())
    lose_messages("submits")
    wait(executing, minutes=5)
    with fault("throttle", "Query", call):
        found = sweep()
    assert found.get("failed_searches", 0) + found.get("woken_runs", 0) >= 1
    wait(executing, minutes=5)
    sweep()
    executing.advance(minutes=5)
    assert states(executing) == ["success", "success"]
    assert len(emr.jobs) == 1


def test_sweep_without_time_leaves_the_other_runs_for_the_next(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """A sweep that has to stop has moved one run, and the next one goes on with the others."""
    queue_run(*(one_task(f"dag{number}") for number in range(4)))
    lose_messages("submits")
    wait(executing, minutes=5)
    answer = handlers.call("sweep", TIMER, LambdaContext(milliseconds=1_000))
    assert 1 <= answer["woken_runs"] <= 4
    executing.advance(minutes=20)
    assert [states(executing, f"dag{number}") for number in range(4)] == [["success"] * 2] * 4
    assert len(emr.jobs) == 4


def test_sweep_leaves_a_run_that_is_over_alone(executing: LocalStack, emr: FakeEmr) -> None:
    """Nothing that has ended is looked at again."""
    queue_run(one_task())
    executing.advance(minutes=1)
    wait(executing, days=30)
    assert sweep() == {}
    assert len(emr.jobs) == 1
