"""Findings of cdk-nag that are as they should be: the finding, where, and the reason."""

from typing import NamedTuple


class Accepted(NamedTuple):
    """A pattern of findings, and why they stay."""

    finding: str
    place: str
    reason: str


_LOGS = "AwsSolutions-IAM5[[]Resource::arn:*:logs:*:log-group:/aws/lambda/*:[*]]"
_OURS = "AwsSolutions-IAM5[[]Resource::*/{}]"

ACCEPTED = (
    Accepted("AwsSolutions-L1", "*/Compute/*", "the layer is locked and tested for Python 3.13"),
    Accepted("AwsSolutions-L1", "*/Custom::CDKBucketDeployment*", "the CDK chooses it"),
    Accepted(
        "AwsSolutions-S1",
        "lamplighter-dev/*/Storage/Bucket/*",
        "it goes with its stack, which could not be deleted while S3 writes a log of it",
    ),
    Accepted(_LOGS, "*/Role/*", "Lambda names the streams of a log"),
    Accepted(_LOGS, "*/RuntimeRole/*", "as above"),
    Accepted(_OURS.format("bundles/[*]"), "*", "archives are named by their content"),
    Accepted(_OURS.format("pushes/[*]"), "*", "pushes are numbered"),
    Accepted(_OURS.format("results/[*]"), "*", "answers are named at random"),
    Accepted(_OURS.format("runtime/[*]"), "*", "runtimes are named by their content"),
    Accepted(_OURS.format("logs/[*]"), "*", "EMR Serverless lays them out"),
    Accepted(_OURS.format("logs/[*]/SPARK_DRIVER/stderr.gz"), "*", "as above"),
    Accepted(
        "AwsSolutions-IAM5[[]Resource::arn:*:logs:*:log-group:*[*]]",
        "*/Spark/[JB]*Role*/*",
        "EMR Serverless names the streams, and looks the log group up by listing",
    ),
    Accepted(_OURS.format("jobs/[*]"), "*/ManagedPolicies/*", "people read contexts and reports"),
    Accepted(_OURS.format("jobs/[*]/context.json"), "*", "each job has a folder"),
    Accepted(_OURS.format("jobs/[*]/report.json"), "*", "each job has a folder"),
    Accepted(_OURS.format("jobruns/[*]"), "*", "jobs get their ids when they start"),
    Accepted(
        "AwsSolutions-IAM5[[]Resource::arn:*:states:*:execution:*:[*]]",
        "*",
        "executions are named by the submissions of steps",
    ),
    Accepted(
        "AwsSolutions-IAM5[[]Resource::*:stack/*/[*]]",
        "*/ManagedPolicies/*",
        "the id of a stack is made with it",
    ),
    Accepted(_OURS.format("[*]"), "*/Spark/JobRole/*", "a bucket of data, all of it, by its flag"),
    Accepted(_OURS.format("[*]"), "*/RuntimeRole/*", "assets of the CDK are named by content"),
    Accepted(
        "AwsSolutions-IAM5[[]Resource::[*]]",
        "*/Sandbox/Role/*",
        "Lambda asks for network interfaces on everything, and the function itself is denied them",
    ),
    Accepted("AwsSolutions-IAM5[[]Resource::[*]]", "*/Watch/Role/*", "as above"),
    Accepted("AwsSolutions-IAM5[[]Resource::[*]]", "*/Task/Role/*", "as above"),
    Accepted(_OURS.format("[*]"), "*/Watch/Role/*", "a file system, by its access point"),
)
