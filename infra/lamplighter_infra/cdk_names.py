"""The names of what other parts of an app have made, as texts that a `Config` holds.

Owns: which of its names stands for an object. The texts may be tokens, which AWS fills in.
"""

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

from lamplighter.errors import SettingsError

# An object has one of them: jsii does not know instances of interfaces.
_NAMES = (
    "role_arn",
    "user_arn",
    "topic_arn",
    "key_arn",
    "managed_policy_arn",
    "access_point_arn",
    "bucket_name",
    "queue_name",
    "vpc_id",
    "subnet_id",
    "security_group_id",
)


def text(prop: str, thing: Any) -> str:
    """Return the name or ARN by which a flag would name a thing; a text is one already."""
    if isinstance(thing, str):
        return thing
    if hasattr(thing, "secret_arn"):
        return f"secretsmanager:{thing.secret_name}"
    if hasattr(thing, "state_machine_arn"):
        form = cdk.ArnFormat.COLON_RESOURCE_NAME
        parts = cdk.Stack.of(thing).split_arn(thing.state_machine_arn, form)
        return str(parts.resource_name)
    for name in _NAMES:
        if (found := getattr(thing, name, None)) is not None:
            return str(found)
    raise SettingsError(
        f"{prop}: {type(thing).__name__} is neither a text nor a construct that it takes"
    )


def sender(stack: cdk.Stack, thing: Any) -> str:
    """Return the ARN of who sends events, from which the service that sends can be read."""
    if isinstance(thing, str):
        return thing
    if hasattr(thing, "bucket_name"):
        return f"arn:{stack.partition}:s3:::{thing.bucket_name}"
    for service, resource, name in (("sns", "", "topic_name"), ("events", "rule", "rule_name")):
        if hasattr(thing, name):
            where = {"account": thing.env.account, "region": thing.env.region}
            if resource:
                found = stack.format_arn(
                    service=service, resource=resource, resource_name=getattr(thing, name), **where
                )
            else:
                found = stack.format_arn(service=service, resource=getattr(thing, name), **where)
            return str(found)
    return text("event_senders", thing)


def subnets(vpc: ec2.IVpc, wanted: ec2.SubnetSelection | Sequence[Any]) -> list[str]:
    """Return the ids of the subnets of a network that are wanted."""
    if not isinstance(wanted, ec2.SubnetSelection):
        return [text("subnets", each) for each in wanted]
    found = vpc.select_subnets(
        availability_zones=wanted.availability_zones,
        one_per_az=wanted.one_per_az,
        subnet_filters=wanted.subnet_filters,
        subnet_group_name=wanted.subnet_group_name,
        subnets=wanted.subnets,
        subnet_type=wanted.subnet_type,
    )
    return list(found.subnet_ids)
