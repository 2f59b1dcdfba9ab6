"""What a deployed stack holds: what goes with it when it is deleted, and what stays.

Owns: that the bucket of a deployment is emptied only where the stack would delete it.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from lamplighter import aws
from lamplighter.errors import RefusedError
from lamplighter.settings import output_key

# Resources with data: another deployment does not bring it back.
_DATA = {
    "AWS::DynamoDB::Table": "table",
    "AWS::S3::Bucket": "bucket",
    "AWS::KMS::Key": "key",
    "AWS::Logs::LogGroup": "log group",
}
_BUCKET = "bucket"
_APPLICATION = "AWS::EMRServerless::Application"
_RULE = "AWS::Events::Rule"
_MAPPING = "AWS::Lambda::EventSourceMapping"
_STAYS = frozenset({"Retain", "RetainExceptOnCreate"})


@dataclass(frozen=True)
class StackContents:
    """The parts of a stack that hold data, as `kind name`."""

    name: str
    staying: tuple[str, ...]
    going: tuple[str, ...]
    # The bucket of the deployment, if it goes with the stack.
    bucket: str | None
    # Of EMR Serverless, by id.
    applications: tuple[str, ...]
    # What invokes its functions: rules of EventBridge, and event source mappings.
    rules: tuple[str, ...]
    mappings: tuple[str, ...]
    is_protected: bool


def contents_of(name: str) -> StackContents | None:
    """Return what a stack holds; None if there is no such stack."""
    client = aws.client("cloudformation")
    try:
        (stack,) = client.describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationError":
            return None
        raise
    policies = _policies(client.get_template(StackName=name)["TemplateBody"])
    everything = list(_parts(client, name))
    parts = [part for part in everything if part["ResourceType"] in _DATA]
    is_staying = {
        part["LogicalResourceId"]: policies.get(part["LogicalResourceId"]) in _STAYS
        for part in parts
    }
    staying = [_named(part) for part in parts if is_staying[part["LogicalResourceId"]]]
    going = [_named(part) for part in parts if not is_staying[part["LogicalResourceId"]]]
    outputs = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", ())}
    bucket = outputs.get(output_key("bucket"))
    return StackContents(
        name,
        tuple(staying),
        tuple(going),
        bucket if f"{_BUCKET} {bucket}" in going else None,
        applications=_ids(everything, _APPLICATION),
        rules=_ids(everything, _RULE),
        mappings=_ids(everything, _MAPPING),
        is_protected=bool(stack.get("EnableTerminationProtection")),
    )


def _ids(parts: Iterable[dict[str, Any]], kind: str) -> tuple[str, ...]:
    return tuple(part["PhysicalResourceId"] for part in parts if part["ResourceType"] == kind)


def _policies(template: Any) -> dict[str, str]:
    """Return the deletion policy of each resource that has one."""
    try:
        found = json.loads(template) if isinstance(template, str) else template
    except ValueError as error:
        raise RefusedError("the template of the stack is not JSON: delete it with `cdk`") from error
    return {
        name: resource["DeletionPolicy"]
        for name, resource in found["Resources"].items()
        if "DeletionPolicy" in resource
    }


def _parts(client: Any, name: str) -> Iterator[dict[str, Any]]:
    pages = client.get_paginator("list_stack_resources").paginate(StackName=name)
    for page in pages:
        for part in page["StackResourceSummaries"]:
            # A deletion that failed has left some parts and not others; some were never made.
            if part["ResourceStatus"] != "DELETE_COMPLETE" and part.get("PhysicalResourceId"):
                yield part


def _named(part: dict[str, Any]) -> str:
    return f"{_DATA[part['ResourceType']]} {part['PhysicalResourceId']}"


def empty(bucket: str) -> int:
    """Delete all objects of a bucket, and their versions; return how many there were."""
    client, count = aws.client("s3"), 0
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket):
        found = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        if found:
            objects = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in found]
            answer = client.delete_objects(
                Bucket=bucket, Delete={"Objects": objects, "Quiet": True}
            )
            for error in answer.get("Errors", ()):
                raise RefusedError(f"{error['Key']} in {bucket} stays: {error.get('Message')}")
            count += len(found)
    return count
