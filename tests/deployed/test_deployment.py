"""The whole of it, deployed: pushes, timers, events, jobs, an upgrade in the middle."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import boto3
import pendulum
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from lamplighter import aws, runtime
from lamplighter.events.emit import emit
from lamplighter.store.models import AssetEvents, Dags, Runs, Steps
from lamplighter_local.emr.fake_emr import FakeJob
from tests.account.checks import CHECKS
from tests.account.results import FAIL, SKIP, run_check
from tests.account.stage import FLAGS, Stage
from tests.deployed.conftest import OPERATOR, READER, SOON_SECONDS, STACK, WATCHED_QUEUE, Deployed
from tests.deployed.life import TASKS, jobs_by_step, overlap, push_life
from tests.deployed.two_bundles import (
    FORGER,
    HEALTHY,
    HOSTILE,
    IN_VAIN,
    STEADY,
    forge_events,
    prepare_forger,
    push_calm,
    push_forger,
    push_healthy,
    push_hostile,
    push_steady,
    reach,
    reports_and_contexts,
    rights_of,
)
from tests.hostile.test_jobs import forge
from tests.tools.emulated import ACCOUNT, REGION
from tests.tools.recorded_emr import Recording
from tests.tools.reports import secret_of

SHOP = {"after_workday", "fx_twice_a_day", "orders_hourly", "revenue_daily", "weekly_report"}


def _runs(dag_id: str, **having: Any) -> list[Runs]:
    found = Runs.query(dag_id, consistent_read=True)
    return [run for run in found if all(getattr(run, k) == v for k, v in having.items())]


def _event_ids(asset: str) -> list[str]:
    return [row.event_id for row in AssetEvents.query(asset, consistent_read=True)]


def test_pushed_bundle_is_registered(deployed: Deployed) -> None:
    """The object in the bucket wakes `register`, which asks the sandbox and writes the DAGs."""

    def registered() -> bool:
        names = {each["dag_id"] for each in deployed.command("dags", "list")}
        return names == SHOP | {"every_minute", "held", "kinds", "sold", "count", "greet"}

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
    assert _event_ids("fx").count("rates-of-today") == 1
    deployed.soon(lambda: _runs("weekly_report", state="success", triggered_by="asset"))
    shown = deployed.command("runs", "show", f"revenue_daily/{run.run_id}")
    assert {step["state"] for step in shown["steps"]} == {"success"}
    trace = deployed.command("events", "trace", "rates-of-today")
    assert run.run_id in str(trace)


def test_smallest_example_runs_at_once(deployed: Deployed) -> None:
    """What a newcomer pushes first has a run by time, not only tomorrow, and one by its event."""
    deployed.soon(lambda: _runs("count", state="success", triggered_by="timetable"))
    deployed.soon(lambda: _runs("greet", state="success", triggered_by="asset"), sweeps=True)


def test_steps_of_all_kinds_follow_each_other(deployed: Deployed) -> None:
    """An execution follows a job, and the function `task` runs a program that reads its output.

    EventBridge tells of the execution. The emulator has no destination for an invocation that went
    well, so the end of the Python step is found by the sweep.
    """
    (run,) = deployed.soon(lambda: _runs("kinds", state="success"), sweeps=True)
    name, day = f"kinds/{run.run_id}", str(run.logical_date.date())
    shown = deployed.command("runs", "show", name, "--outputs")
    logs = deployed.run("runs", "logs", name, who=OPERATOR)

    assert {step["task_id"]: step["executor"] for step in shown["steps"]} == {
        "load": "emr-serverless",
        "export": "step-functions",
        "check": "lambda",
    }
    assert shown["outputs"] == {"export": {"day": day}, "check": {"is_right": True}}
    (checked,) = deployed.soon(lambda: list(AssetEvents.query("checked", consistent_read=True)))
    assert checked.extra == {"day": day}
    assert "ExecutionSucceeded" in logs.stdout
    assert f"checking {day}" in logs.stdout, logs


@pytest.mark.full
def test_steps_of_all_kinds_live_alike(deployed: Deployed, tmp_path: Path) -> None:
    """They are tried again, skipped, ended in time, cancelled, cleared, and wait for their past."""
    push_life(tmp_path, deployed.emr)

    def states(dag: str, *, of: int = -1) -> dict[str, str]:
        run = sorted(_runs(dag), key=lambda run: run.run_key)[of]
        shown = deployed.command("runs", "show", f"{dag}/{run.run_id}")
        return {"run": run.state, **{step["task_id"]: step["state"] for step in shown["steps"]}}

    def all_are(state: str, run: str) -> dict[str, str]:
        return {"run": run, **dict.fromkeys(TASKS, state)}

    deployed.soon(lambda: len(_runs("life_past")) == 2)
    for dag in ("life_fails", "life_skips", "life_hangs", "life_held"):
        deployed.command("runs", "trigger", dag, "--run-id", "first")
    deployed.soon(lambda: states("life_held") == all_are("running", "running"), sweeps=True)
    deployed.command("runs", "cancel", "life_held/first")

    deployed.soon(lambda: _runs("life_held", state="cancelled"), sweeps=True)
    deployed.soon(lambda: _runs("life_fails", state="success"), sweeps=True)
    deployed.command("runs", "clear", "life_fails/first")
    deployed.soon(lambda: states("life_skips") == all_are("skipped", "success"), sweeps=True)
    deployed.soon(lambda: states("life_hangs") == all_are("failed", "failed"), sweeps=True)
    deployed.soon(lambda: len(_runs("life_past", state="success")) == 2, sweeps=True)
    deployed.soon(lambda: states("life_fails") == all_are("success", "success"), sweeps=True)

    found = jobs_by_step()
    assert {len(lives) for step, lives in found.items() if step.dag == "life_fails"} == {3}
    assert [step for step, lives in found.items() if overlap(lives)] == []
    assert deployed.emr.doubles() == []
    assert _event_ids("never") == []


def test_only_named_state_machines_may_be_started(deployed: Deployed) -> None:
    """Whoever had the rights of `submit` could start the one that is named, and no other."""
    stolen = boto3.client("stepfunctions", **deployed.stolen_credentials("submit"))
    prefix = deployed.settings.state_machine_prefix
    name = {"name": "by-a-thief", "input": "{}"}

    with pytest.raises(ClientError, match="AccessDenied"):
        stolen.start_execution(stateMachineArn=f"{prefix}other", **name)
    assert stolen.start_execution(stateMachineArn=f"{prefix}export", **name)["executionArn"]


def test_poisoned_event_is_a_dead_letter_with_its_reason(deployed: Deployed) -> None:
    """What cannot be an event is kept, with the reason, and keeps no other event waiting."""
    sqs = aws.client("sqs")
    for body in ("not json", '{"asset": "nobody_knows_it"}'):
        sqs.send_message(QueueUrl=deployed.settings.queue_url("events"), MessageBody=body)
    emit("fx", event_id="behind-the-poison")

    def reasons() -> set[str]:
        letters = deployed.command("dlq", "list")
        return {letter["reason"] for letter in letters}

    found = deployed.soon(lambda: len(reasons()) >= 2 and reasons())
    assert any("JSON" in reason for reason in found)
    assert any("nobody_knows_it" in reason for reason in found)
    deployed.soon(lambda: "behind-the-poison" in _event_ids("fx"))


def test_watchers_are_told_by_a_bus_and_a_queue(deployed: Deployed) -> None:
    """A rule of the stack brings events of a bus, and a queue of others wakes `watch` itself."""
    sale = {"Source": "shop.till", "DetailType": "Sale", "Detail": '{"amount": 12}'}
    assert aws.client("events").put_events(Entries=[sale])["FailedEntryCount"] == 0
    sqs = aws.client("sqs")
    url = sqs.get_queue_url(QueueName=WATCHED_QUEUE)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody='{"amount": 30}')

    def told() -> list[str]:
        return sorted(row.source["watcher"] for row in AssetEvents.query("sales"))

    assert deployed.soon(lambda: len(told()) >= 2 and told()) == ["tills", "web"]
    deployed.soon(lambda: _runs("sold", state="success"))


def test_bundle_goes_on_beside_one_that_attacks(deployed: Deployed, tmp_path: Path) -> None:
    """Author code finds no credentials, and those of its function would not write DAGs for it.

    While its watcher hangs, the neighbour's has its events, and what the neighbour pushes runs.
    """
    mark = tmp_path / "hangs"
    place = deployed.place
    stolen = deployed.stolen_credentials("watch")
    push_healthy(tmp_path, WATCHED_QUEUE)
    push_hostile(tmp_path, WATCHED_QUEUE, mark=mark, stack=STACK, place=place, stolen=stolen)
    sqs = aws.client("sqs")
    url = sqs.get_queue_url(QueueName=WATCHED_QUEUE)["QueueUrl"]

    def send(how: str) -> None:
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"name": "attack", "how": how}))

    def told(asset: str) -> list[str]:
        return [row.extra["payload"] for row in AssetEvents.query(asset, consistent_read=True)]

    def names() -> set[str]:
        return {each["dag_id"] for each in deployed.command("dags", "list")}

    try:
        deployed.soon(lambda: names() >= {HEALTHY, HOSTILE, IN_VAIN})
        errors = {each["file"] for each in deployed.command("dags", "errors")}
        assert errors == {"dags/kills.py", "dags/exits.py"}
        send("hunts")
        assert deployed.soon(lambda: told(HOSTILE)) == [IN_VAIN]
        send("hangs")
        deployed.soon(mark.exists)
        deployed.soon(lambda: told(HEALTHY) == ["attack"] * 2)
        deployed.soon(lambda: _runs(HEALTHY, state="success"))
        push_healthy(tmp_path, WATCHED_QUEUE, "new_neighbour")
        deployed.soon(lambda: "new_neighbour" in names())
        deployed.command("runs", "trigger", "new_neighbour")
        deployed.soon(lambda: _runs("new_neighbour", state="success"))
    finally:
        push_calm(tmp_path)
    deployed.soon(lambda: "calm" in names())
    assert len(told(HOSTILE)) == 1


def test_bundle_goes_on_beside_one_that_forges(deployed: Deployed, tmp_path: Path) -> None:
    """Templates, reports, events and cycles without end are the trouble of those who have them.

    AWS keeps a job from what is another's, whatever its role allows; and what is written all the
    same is not believed.
    """
    for dag in (STEADY, FORGER):
        deployed.emr.takes(dag, "t", minutes=2)
    push_steady(tmp_path)
    push_forger(tmp_path)

    def names() -> set[str]:
        return {each["dag_id"] for each in deployed.command("dags", "list")}

    def live() -> dict[str, FakeJob]:
        return {job.dag: job for job in deployed.emr.live() if job.dag in {STEADY, FORGER}}

    deployed.soon(lambda: names() >= {STEADY, "steady_reader", FORGER, "greedy", "endless"})
    errors = [each["message"] for each in deployed.command("dags", "errors")]
    assert any("DAG 'refused'" in each and "without end" in each for each in errors)
    prepare_forger(pendulum.now("UTC"))
    for dag in ("greedy", FORGER, STEADY):
        deployed.command("runs", "trigger", dag)
    emit("y")
    jobs = deployed.soon(lambda: len(found := live()) == 2 and found)
    own, other = jobs[FORGER], jobs[STEADY]
    s3 = rights_of(own, deployed.place, ACCOUNT)
    tried = reports_and_contexts(own, other)
    said = {what: reach(s3, uri, write=write) for what, (uri, write) in tried.items()}
    assert said == {
        "own context": "done",
        "own report": "done",
        "context of another": "AccessDenied",
        "report of another": "AccessDenied",
    }
    forge(other, secret_of(own.context_uri))
    forge_events(1)

    deployed.soon(lambda: _runs(STEADY, state="success"))
    (step,) = Steps.query(f"{STEADY}|{_runs(STEADY)[0].run_key}")
    assert "was refused" in step.error
    deployed.soon(lambda: _runs("steady_reader", state="success"))
    forge_events(2)
    deployed.soon(lambda: Dags.get("endless", consistent_read=True).is_paused)
    assert len(_runs("endless")) == 1
    deployed.soon(lambda: _runs("greedy", state="failed"))

    def reserved() -> list[str]:
        reasons = [each["reason"] for each in deployed.command("dlq", "list")]
        return [reason for reason in reasons if "reserved for outlets" in reason]

    deployed.soon(lambda: len(reserved()) >= 4)
    (made,) = (row for row in AssetEvents.query("made", consistent_read=True) if row.seq)
    assert made.extra is None
    assert made.conflict is not None
    assert len(_runs("steady_reader")) == 1


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


def test_account_checks_hold_as_far_as_the_emulator_goes(
    deployed: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make account-smoke` finds nothing wrong; what the emulator has not got is skipped."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_EMR_SERVERLESS", deployed.flags["emr_endpoint"])
    stage = Stage(
        STACK,
        ACCOUNT,
        REGION,
        {**FLAGS, **deployed.flags},
        is_emulated=True,
        wait_seconds=SOON_SECONDS,
        fixtures=tmp_path,
    )
    with runtime.using(new_clients=True):
        found = {name: run_check(check, stage) for name, check in CHECKS.items()}

    assert [(name, result.text) for name, result in found.items() if result.state == FAIL] == []
    skipped = {name for name, result in found.items() if result.state == SKIP}
    assert skipped == {"report", "alarm_action", "quota_vcpus", "quota_lambda"}
    recording = Recording.load(tmp_path / "recorded.json")
    operations = {each["operation"] for each in recording.answers}
    assert operations == {"StartJobRun", "GetJobRun", "CancelJobRun", "ListJobRuns"}
    assert recording.events


def test_reader_looks_and_changes_nothing(deployed: Deployed) -> None:
    """Permissions are enforced here, and the policy for readers has none to write."""
    assert deployed.run("runs", "list", "held", who=READER).returncode == 0
    refused = deployed.run("runs", "trigger", "held", who=READER)

    assert refused.returncode == 1
    assert "these AWS credentials do not allow it" in refused.stderr
    assert _runs("held") == []


def test_function_without_its_permissions_is_refused(deployed: Deployed) -> None:
    """Functions have the permissions of their roles and no others: without them, a tick fails."""
    iam = aws.client("iam")
    policy = {"RoleName": f"{STACK}-tick-{REGION}", "PolicyName": "permissions"}
    permissions = iam.get_role_policy(**policy)["PolicyDocument"]
    logs = {"Effect": "Allow", "Action": "logs:PutLogEvents", "Resource": "*"}
    little = {"Version": "2012-10-17", "Statement": [logs]}
    iam.put_role_policy(**policy, PolicyDocument=json.dumps(little))
    try:
        refused = aws.client("lambda", read_seconds=60).invoke(FunctionName=f"{STACK}-tick")
    finally:
        iam.put_role_policy(**policy, PolicyDocument=json.dumps(permissions))

    assert "FunctionError" in refused
    assert "AccessDenied" in refused["Payload"].read().decode()


def test_second_deployment_changes_nothing(deployed: Deployed) -> None:
    """The same code and flags are the same stack."""
    assert "(no changes)" in deployed.deploy()


def test_upgrade_in_the_middle_of_work_loses_none(deployed: Deployed) -> None:
    """Functions are replaced while jobs are under way and events come.

    Each run ends well, no job is doubled, each event is recorded and has a number of its own.
    """
    deployed.emr.capacity = 0  # jobs are in line until the upgrade is done
    for number in range(6):
        deployed.command("runs", "trigger", "held", "--run-id", f"upgrade-{number}")
    deployed.soon(lambda: sum(job.dag == "held" for job in deployed.emr.live()) == 6)
    with _selling() as sold:
        said = deployed.deploy(look_ahead_seconds="240")
    deployed.emr.capacity = None

    assert "UPDATE_COMPLETE" in said
    deployed.soon(lambda: len(_runs("held", state="success")) == 6)
    assert deployed.emr.doubles() == []
    assert len(sold) >= 2
    deployed.soon(lambda: {*_event_ids("sales")} >= {*sold})
    numbers = sorted(row.seq for row in AssetEvents.query("sales", consistent_read=True))
    assert numbers == list(range(1, len(numbers) + 1))


@contextmanager
def _selling() -> Iterator[list[str]]:
    """Send events, one after the other, until the block ends; yield their ids as they are sent."""
    sent: list[str] = []
    is_over = threading.Event()

    def sell() -> None:
        while not is_over.wait(0.5):
            event_id = f"sold-{len(sent)}"
            with suppress(BotoCoreError, ClientError):  # it was not taken: it is sent again
                emit("sales", event_id=event_id)
                sent.append(event_id)

    with ThreadPoolExecutor(max_workers=1) as seller:
        selling = seller.submit(sell)
        try:
            yield sent
        finally:
            is_over.set()
            selling.result()


@pytest.mark.parametrize("dag", sorted(SHOP))
def test_no_run_of_the_shop_failed(deployed: Deployed, dag: str) -> None:
    """Nothing that was started on the way has failed."""
    assert _runs(dag, state="failed") == []
