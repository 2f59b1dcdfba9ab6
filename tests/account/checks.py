"""What only an account can show, one check each: the key, logs, a job, its events, alarms, quotas.

Owns: the checks and their order. A check looks, does as little as it must, and answers with one
sentence, which says what to do when something is wrong. Each can be repeated.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import uuid4

from lamplighter import aws
from lamplighter.store.assets import recent_events
from lamplighter.store.dags import read_dag
from lamplighter.store.models import Runs
from lamplighter.store.runs import FINISHED, SUCCESS, read_run, runs_of
from lamplighter.topology import FUNCTIONS, QUEUES
from lamplighter_operations.push import push_bundle
from lamplighter_operations.trigger import create_manual_run
from lamplighter_operations.views import Step, steps_of
from tests.account.recording import record_answers
from tests.account.results import Check, Result, failed, passed, skipped
from tests.account.stage import ROOT, Stage

_HELLO = ROOT / "examples" / "hello"
_DAG, _ASSET = "count", "numbers"
_RUN_IDS = "smoke-"
# A state that came by an event is on the run within seconds; the sweep looks after ten minutes.
_SOON_SECONDS = 120
_USE_KEY = {"kms:Decrypt", "kms:GenerateDataKey"}
_VCPU_QUOTA = ("emr-serverless", "L-D05C8A75")
_LAMBDA_QUOTA = ("lambda", "L-B99A9384")
_NO_QUOTAS = "the emulator has no Service Quotas"


def key_policy(stage: Stage) -> Result:
    """Check that EventBridge, S3, CloudWatch and CloudWatch Logs may use the key."""
    kms = aws.client("kms")
    key = kms.describe_key(KeyId=f"alias/{stage.stack}")["KeyMetadata"]["KeyId"]
    policy = json.loads(kms.get_key_policy(KeyId=key, PolicyName="default")["Policy"])
    wanted = {"events", "s3", "cloudwatch", f"logs.{stage.region}"}
    missing = sorted(wanted - _services_that_may(policy["Statement"], _USE_KEY))
    if missing:
        return failed(f"the key's policy does not let {', '.join(missing)} use it: deploy again")
    return passed("EventBridge, S3, CloudWatch and CloudWatch Logs may use the key")


def _services_that_may(statements: Iterable[Mapping[str, Any]], actions: set[str]) -> set[str]:
    found = set()
    for each in statements:
        principals = each["Principal"].get("Service", ()) if each["Effect"] == "Allow" else ()
        if actions <= set(_listed(each["Action"])):
            found |= {name.removesuffix(".amazonaws.com") for name in _listed(principals)}
    return found


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def log_groups(stage: Stage) -> Result:
    """Check that every function has an encrypted log group."""
    prefix = f"/aws/lambda/{stage.stack}-"
    answer = aws.client("logs").describe_log_groups(logGroupNamePrefix=prefix)["logGroups"]
    groups = {each["logGroupName"].removeprefix(prefix): each for each in answer}
    if missing := sorted(set(FUNCTIONS) - set(groups)):
        return failed(f"there is no log group of {', '.join(missing)}: deploy again")
    if plain := sorted(name for name in FUNCTIONS if not groups[name].get("kmsKeyId")):
        return failed(f"log groups are not encrypted with the key: {', '.join(plain)}")
    return passed(f"{len(FUNCTIONS)} log groups, encrypted with the key")


def log_lines(stage: Stage) -> Result:
    """Check that the function `tick` writes into its log group."""
    group = f"/aws/lambda/{stage.stack}-tick"

    def lines() -> Any:
        return aws.client("logs").filter_log_events(logGroupName=group, limit=1)["events"]

    if not stage.wait_for(lines):
        return failed(f"{group} stays empty: see the errors of `tick` and the key's policy")
    return passed(f"{group} receives lines")


def push(stage: Stage) -> Result:
    """Check that a pushed bundle is registered."""
    pushed = push_bundle(_HELLO, "hello")
    if not stage.wait_for(lambda: read_dag(_DAG)):
        return failed("the pushed DAGs are not registered: see the logs of `register`")
    return passed(f"push {pushed.number} of examples/hello is registered")


def job(stage: Stage) -> Result:
    """Check that a run of one job succeeds."""
    made = create_manual_run(_DAG, logical_date=None, run_id=f"{_RUN_IDS}{uuid4().hex[:12]}")

    def finished() -> Runs | None:
        run = read_run(_DAG, made.run_key)
        return run if run is not None and run.state in FINISHED else None

    run = stage.wait_for(finished)
    if run is None:
        return failed(f"run {made.run_id} has not ended: `lamplighter runs show {_name(made)}`")
    if run.state != SUCCESS:
        return failed(f"run {run.run_id} {run.state}: {_step(run).error}")
    return passed(f"run {run.run_id} succeeded as job {_step(run).job_run_id}")


def report(stage: Stage) -> Result:
    """Check that the job has written its report, and that its event carries what it says."""
    run = _newest_run()
    if run is None:
        return skipped("no run has succeeded: see `job`")

    def extra() -> Any:
        of_run = [each for each in recent_events([_ASSET], limit=20) if _is_of(each, run)]
        return {"found": of_run[0].extra or {}} if of_run else None

    found = stage.wait_for(extra)
    if found is None:
        return failed(f"the event of run {run.run_id} is not recorded: see the log of `settle`")
    if "counted" not in found["found"]:
        if stage.is_emulated:
            return skipped("the emulator executes no jobs, which would write a report")
        return failed("the job has not written report.json: see its log and the jobs' role")
    return passed(f"report.json says counted={found['found']['counted']}, and so does the event")


def cost(_: Stage) -> Result:
    """Check that the job's resources and dollars are on its run."""
    run = _newest_run()
    if run is None:
        return skipped("no run has succeeded: see `job`")
    step = _step(run)
    if not step.cost or not step.vcpu_hours:
        return failed("the job has no billedResourceUtilization when it ends: its cost is unknown")
    return passed(f"{step.vcpu_hours:.4f} vCPU hours, {step.cost:.4f} dollars")


def job_events(stage: Stage) -> Result:
    """Check that the end of the job came through EventBridge, and not minutes later by a sweep."""
    rule = aws.client("events").describe_rule(Name=f"{stage.stack}-jobstates")
    if rule["State"] != "ENABLED":
        return failed(f"rule {rule['Name']} is {rule['State']}: enable it")
    run = _newest_run()
    if run is None or run.ended_at is None:
        return skipped("no run has succeeded: see `job`")
    answer = aws.client("emr-serverless").get_job_run(
        applicationId=stage.settings.emr_application_id, jobRunId=_step(run).job_run_id
    )
    seconds = (run.ended_at - answer["jobRun"]["updatedAt"]).total_seconds()
    if seconds > _SOON_SECONDS:
        return failed(
            f"the run ended {seconds:.0f} seconds after its job: events do not reach the queue;"
            " see the alarm JobStatesUndelivered and the key's policy"
        )
    return passed(f"the run ended {max(seconds, 0):.0f} seconds after its job")


def alarm_topic(stage: Stage) -> Result:
    """Check that the alarm topic accepts messages, and who gets them."""
    topic = f"arn:aws:sns:{stage.region}:{stage.account}:{stage.stack}-alarms"
    sns = aws.client("sns")
    text = "A test of the alarm topic; nothing is wrong."
    sns.publish(TopicArn=topic, Subject=f"{stage.stack}: test", Message=text)
    found = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    waiting = [each["Endpoint"] for each in found if not each["SubscriptionArn"].startswith("arn:")]
    if waiting:
        return failed(f"{', '.join(waiting)} has not confirmed: open the mail from AWS")
    if not found:
        return passed("the topic takes messages; nobody is subscribed (-c alarm_email=…)")
    return passed(f"the topic takes messages for {', '.join(each['Endpoint'] for each in found)}")


def alarm_action(stage: Stage) -> Result:
    """Check that an alarm can publish to the encrypted topic; it goes back by itself."""
    name = f"{stage.stack}-WatchersParked"
    cloudwatch = aws.client("cloudwatch")
    for state in ("OK", "ALARM"):
        cloudwatch.set_alarm_state(AlarmName=name, StateValue=state, StateReason="a test")

    def executed() -> Any:
        answer = cloudwatch.describe_alarm_history(
            AlarmName=name, HistoryItemType="Action", MaxRecords=10
        )
        return answer["AlarmHistoryItems"]

    if stage.is_emulated and not executed():
        return skipped("the emulator's alarms take no actions")
    items = stage.wait_for(executed)
    if items is None:
        return failed(f"alarm {name} took no action within {stage.wait_seconds:.0f} seconds")
    if "Successfully" not in items[0]["HistorySummary"]:
        return failed(f"alarm {name}: {items[0]['HistorySummary']}; see the policies of the topic")
    return passed(f"alarm {name} has published to the topic")


def quota_vcpus(stage: Stage) -> Result:
    """Check that the account's vCPUs suffice for `spark_vcpus`."""
    if stage.is_emulated:
        return skipped(_NO_QUOTAS)
    allowed, wanted = _quota(*_VCPU_QUOTA), int(stage.flags["spark_vcpus"])
    jobs = allowed // 16
    said = f"{allowed:.0f} vCPUs in the account: {jobs:.0f} jobs of the default size at a time"
    if allowed < wanted:
        return failed(f"{said}; request {wanted}, or deploy with -c spark_vcpus={allowed:.0f}")
    return passed(f"{said}; enough for spark_vcpus={wanted}")


def quota_lambda(stage: Stage) -> Result:
    """Check that the account's concurrent executions suffice for `concurrency`."""
    if stage.is_emulated:
        return skipped(_NO_QUOTAS)
    allowed, each = _quota(*_LAMBDA_QUOTA), int(stage.flags["concurrency"])
    # Every queue may use as many, and each timer one.
    wanted = len(QUEUES) * each + sum(bool(one.every_minutes) for one in FUNCTIONS.values())
    said = f"{allowed:.0f} concurrent executions of functions in the account"
    if allowed < wanted:
        return failed(
            f"{said}, and concurrency={each} may use {wanted}: messages are delayed, none is"
            " lost; request 1,000"
        )
    return passed(f"{said}; concurrency={each} may use {wanted}")


def _quota(service: str, code: str) -> float:
    quotas = aws.client("service-quotas")
    answer = quotas.get_service_quota(ServiceCode=service, QuotaCode=code)
    return float(answer["Quota"]["Value"])


def _newest_run() -> Runs | None:
    """Return the newest run that these checks made, if it has succeeded."""
    runs = [run for run in runs_of(_DAG, limit=50) if run.run_id.startswith(_RUN_IDS)]
    newest = max(runs, key=lambda run: run.created_at, default=None)
    return newest if newest is not None and newest.state == SUCCESS else None


def _step(run: Runs) -> Step:
    (step,) = steps_of(run)
    return step


def _is_of(event: Any, run: Runs) -> bool:
    source = event.source or {}
    return bool(source.get("dag_id") == run.dag_id and source.get("run_id") == run.run_id)


def _name(run: Runs) -> str:
    return f"{run.dag_id}/{run.run_id}"


# In this order: later ones use what earlier ones left.
CHECKS: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        key_policy,
        log_groups,
        log_lines,
        push,
        job,
        report,
        cost,
        job_events,
        record_answers,
        alarm_topic,
        alarm_action,
        quota_vcpus,
        quota_lambda,
    )
}
