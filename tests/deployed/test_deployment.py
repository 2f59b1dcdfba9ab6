"""The whole of it, deployed: pushes, timers, events, jobs, an upgrade in the middle."""

from typing import Any

import pytest

from lamplighter import aws
from lamplighter.events.emit import emit
from lamplighter.store.models import AssetEvents, Runs
from tests.deployed.conftest import Deployed

SHOP = {"after_workday", "fx_twice_a_day", "orders_hourly", "revenue_daily", "weekly_report"}


def _runs(dag_id: str, **having: Any) -> list[Runs]:
    found = Runs.query(dag_id, consistent_read=True)
    return [run for run in found if all(getattr(run, k) == v for k, v in having.items())]


def test_pushed_bundle_is_registered(deployed: Deployed) -> None:
    """The object in the bucket wakes `register`, which asks the sandbox and writes the DAGs."""

    def registered() -> bool:
        names = {each["dag_id"] for each in deployed.command("dags", "list")}
        return names == SHOP | {"every_minute", "held"}

    deployed.soon(registered)
    assert deployed.command("dags", "errors") == []


def test_jobs_end_well_and_wake_who_waits(deployed: Deployed) -> None:
    """States of jobs come by EventBridge; outlets become events, and these a run downstream.

    The other half of the condition is an event from outside, which comes twice.
    """
    deployed.soon(lambda: len(_runs("orders_hourly", state="success")) >= 3)
    for _ in range(2):
        emit("fx", event_id="rates-of-today", extra={"rate": 1.1})
    (run,) = deployed.soon(lambda: _runs("revenue_daily", state="success"))[:1]

    assert run.run_type == "asset_triggered"
    assert [row.event_id for row in AssetEvents.query("fx")].count("rates-of-today") == 1
    deployed.soon(lambda: _runs("weekly_report", state="success", triggered_by="asset"))
    shown = deployed.command("runs", "show", f"revenue_daily/{run.run_id}")
    assert {step["state"] for step in shown["steps"]} == {"success"}
    trace = deployed.command("events", "trace", "rates-of-today")
    assert run.run_id in str(trace)


def test_poisoned_event_is_a_dead_letter_with_its_reason(deployed: Deployed) -> None:
    """What cannot be an event is kept, with the reason."""
    sqs = aws.client("sqs")
    for body in ("not json", '{"asset": "nobody_knows_it"}'):
        sqs.send_message(QueueUrl=deployed.settings.events_queue_url, MessageBody=body)

    def reasons() -> set[str]:
        letters = deployed.command("events", "dlq", "list")
        return {letter["reason"] for letter in letters}

    found = deployed.soon(lambda: len(reasons()) >= 2 and reasons())
    assert any("JSON" in reason for reason in found)
    assert any("nobody_knows_it" in reason for reason in found)


# In the long form: where the machine is busy, the emulator brings it again only after six minutes.
@pytest.mark.full
def test_event_behind_poisoned_ones_is_recorded(deployed: Deployed) -> None:
    """What cannot be an event keeps no other event waiting for good."""
    url = deployed.settings.events_queue_url
    aws.client("sqs").send_message(QueueUrl=url, MessageBody="not json either")
    emit("fx", event_id="after-the-poison")
    deployed.soon(
        lambda: [row for row in AssetEvents.query("fx") if row.event_id == "after-the-poison"],
        within=600,
    )


def test_minute_timer_claims_runs(deployed: Deployed) -> None:
    """A DAG of every minute gets its runs from the timer, each once, and they succeed."""

    def timed() -> list[Runs]:
        return _runs("every_minute", triggered_by="timetable", state="success")

    runs = deployed.soon(lambda: len(timed()) >= 2 and timed())
    assert len({run.logical_date for run in runs}) == len(runs)


def test_command_line_finds_all_well(deployed: Deployed) -> None:
    """Doctor sees tables, queues and the tick as they should be, once that has run."""

    def is_well() -> bool:
        # There are dead letters, and the first minute may not be over.
        findings = deployed.command("doctor", exits=(0, 1, 3))["findings"]
        levels = {each["check"]: each["level"] for each in findings}
        return {levels[each] for each in ("credentials", "tables", "queues", "tick")} == {"ok"}

    deployed.soon(is_well)


def test_second_deployment_changes_nothing(deployed: Deployed) -> None:
    """The same code and flags are the same stack."""
    assert "(no changes)" in deployed.deploy()


def test_upgrade_with_runs_in_flight_loses_none(deployed: Deployed) -> None:
    """Functions are replaced while jobs are under way; each run ends well, no job is doubled."""
    deployed.emr.capacity = 0  # jobs are in line until the upgrade is done
    for number in range(6):
        deployed.command("runs", "trigger", "held", "--run-id", f"upgrade-{number}")
    deployed.soon(lambda: sum(job.dag == "held" for job in deployed.emr.live()) == 6)
    said = deployed.deploy(look_ahead_seconds="240")
    deployed.emr.capacity = None

    assert "UPDATE_COMPLETE" in said
    deployed.soon(lambda: len(_runs("held", state="success")) == 6)
    assert deployed.emr.doubles() == []


@pytest.mark.parametrize("dag", sorted(SHOP))
def test_no_run_of_the_shop_failed(deployed: Deployed, dag: str) -> None:
    """Nothing that was started on the way has failed."""
    assert _runs(dag, state="failed") == []
