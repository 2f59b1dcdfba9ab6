"""What the construct takes: a stage, in objects of the CDK where a deployer has them.

Owns: the names and types of the props, and how they become a `Config`. Wherever an object is taken,
its name or ARN is taken too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypedDict

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_efs as efs
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as stepfunctions

from lamplighter.checked_fields import require_known
from lamplighter.errors import SettingsError
from lamplighter.settings import ChosenSettings
from lamplighter_infra import cdk_names
from lamplighter_infra.config import Config


class Props(TypedDict, total=False):
    """The fields of `Config`, as a CDK app has them; all are optional."""

    name: str
    keep_data: bool
    log_days: int
    alarm_email: str
    notify: sns.ITopic | str
    key: kms.IKey | str
    settings: Mapping[str, Any]
    concurrency: int
    snap_start: Sequence[str]
    event_senders: Sequence[iam.IRole | iam.IUser | sns.ITopic | s3.IBucket | events.IRule | str]
    watch_queues: Sequence[sqs.IQueue | str]
    watch_buckets: Sequence[s3.IBucket | str]
    watch_event_sources: Sequence[str]
    watch_access_point: efs.IAccessPoint | str
    watch_mount_path: str
    emr_application_id: str
    emr_release: str
    spark_concurrent_runs: int
    spark_queue_minutes: int
    spark_idle_minutes: int
    spark_warm_executors: int
    spark_cloudwatch_logs: bool
    data_buckets: Sequence[s3.IBucket | str]
    data_keys: Sequence[kms.IKey | str]
    job_policies: Sequence[iam.IManagedPolicy | str]
    secrets: Sequence[secretsmanager.ISecret | str]
    task_memory_mb: int
    task_concurrency: int
    task_policies: Sequence[iam.IManagedPolicy | str]
    state_machines: Sequence[stepfunctions.IStateMachine | str]
    # The subnets are some of its own. With `vpc` alone, jobs run in its private ones.
    vpc: ec2.IVpc | str
    sandbox_subnets: ec2.SubnetSelection | Sequence[ec2.ISubnet | str]
    s3_prefix_list: str
    watch_subnets: ec2.SubnetSelection | Sequence[ec2.ISubnet | str]
    watch_security_groups: Sequence[ec2.ISecurityGroup | str]
    task_subnets: ec2.SubnetSelection | Sequence[ec2.ISubnet | str]
    task_security_groups: Sequence[ec2.ISecurityGroup | str]
    spark_subnets: ec2.SubnetSelection | Sequence[ec2.ISubnet | str]


# Fields of another name.
_RENAMED = {"vpc": "vpc_id", "key": "kms_key_arn"}
_SUBNETS = ("sandbox_subnets", "watch_subnets", "task_subnets", "spark_subnets")


def read_props(stack: cdk.Stack, stage: str, props: Mapping[str, Any]) -> Config:
    """Return the stage that props describe; refuse names that do not exist."""
    known = (*Props.__annotations__, "stage")
    for name in props:
        require_known("prop", name, known)
    given = dict(props)
    chosen = _settings(given.pop("settings", {}))
    vpc = given.get("vpc")
    if vpc is not None:
        given |= _subnets_of(vpc, given)
    values = {
        _RENAMED.get(name, name): _plain(stack, name, value)
        for name, value in given.items()
        if value is not None
    }
    if keys := _keys_of(given.get("data_buckets") or ()):
        values["data_keys"] = [*values.get("data_keys", ()), *keys]
    return Config.of_stage({"stage": stage, **values}, chosen)


def _settings(chosen: Mapping[str, Any]) -> dict[str, Any]:
    names = [each.name for each in fields(ChosenSettings)]
    for name in chosen:
        require_known("setting", name, names)
    return {name: _roles(name, value) for name, value in chosen.items()}


def _roles(name: str, value: Any) -> Any:
    """Return a setting with ARNs for the roles of bundles and watchers."""
    if not isinstance(value, Mapping):
        return value
    return {key: cdk_names.text(name, each) for key, each in value.items()}


def _subnets_of(vpc: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(vpc, str):
        selected = {name: cdk_names.subnets(vpc, given[name]) for name in _SUBNETS if name in given}
        if selected or given.get("emr_application_id"):
            return selected
        return {"spark_subnets": cdk_names.subnets(vpc, ec2.SubnetSelection())}
    for name in _SUBNETS:
        if isinstance(given.get(name), ec2.SubnetSelection):
            raise SettingsError(f"{name}: a selection needs the network itself as vpc, not its id")
    return {}


def _plain(stack: cdk.Stack, name: str, value: Any) -> Any:
    """Return a prop as a flag would have it."""
    match value:
        case str() | bool() | int() | float():
            return value
        case list() | tuple() if name == "event_senders":
            return [cdk_names.sender(stack, each) for each in value]
        case list() | tuple():
            return [cdk_names.text(name, each) for each in value]
    return cdk_names.text(name, value)


def _keys_of(buckets: Sequence[Any]) -> list[str]:
    """Return the keys that buckets are encrypted with, as far as the app knows them."""
    keys = (getattr(bucket, "encryption_key", None) for bucket in buckets)
    return list(dict.fromkeys(str(key.key_arn) for key in keys if key is not None))
