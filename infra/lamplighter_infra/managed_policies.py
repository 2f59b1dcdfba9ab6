"""What people may do: managed policies to attach to whoever reads a deployment, or operates it.

Owns: the permissions of the command line. It runs the library, so that an operator has those of the
functions whose work a command does, and none to change the stack.
"""

from collections.abc import Sequence

from aws_cdk import aws_iam as iam
from constructs import Construct

from lamplighter.store.models import TABLES
from lamplighter.topology import QUEUES, URL_SETTINGS
from lamplighter_infra.permissions import Arns, Permissions, on_queues, statements

_TABLES = tuple(model.__name__ for model in TABLES)
_INDEXES = (
    "Dags/by_file",
    "Runs/by_state",
    "Runs/wake",
    "AssetEvents/by_seq",
    "Assets/open",
    "Steps/turns",
    "Steps/waiting",
)

_DLQS = " ".join(queue.dlq for queue in QUEUES.values())

READER = Permissions(
    tables={
        **dict.fromkeys(_TABLES, "BatchGetItem DescribeTable GetItem Query Scan"),
        **dict.fromkeys(_INDEXES, "Query"),
    },
    gets="jobs/* logs/*",
    jobs="GetJobRun ListJobRuns",
    executions="DescribeExecution GetExecutionHistory",
)

# What operators may do beyond that: push bundles, emit events, make and cancel runs, look through
# dead letters. They have both policies; one alone would be longer than IAM allows.
OPERATOR = Permissions(
    tables={
        "Dags": "UpdateItem",
        "Backfills": "PutItem UpdateItem",
        "Runs": "PutItem UpdateItem",
        "Steps": "PutItem UpdateItem",
        "Assets": "ConditionCheckItem",
        "AssetQueue": "UpdateItem",
        "AssetEvents": "PutItem",
        "Limits": "UpdateItem DeleteItem",
        "Variables": "UpdateItem DeleteItem",
        "Catalog": "UpdateItem",
        # Watchers that are parked have rows, which are deleted when they may go on.
        "WatcherStates": "DeleteItem",
    },
    # What is replayed goes where it came from.
    sends=" ".join(QUEUES),
    receives=_DLQS,
    delays=_DLQS,
    gets="bundles/*",
    puts="bundles/* pushes/*",
    # An address of the Spark UI lets everyone in who has it.
    jobs="CancelJobRun GetDashboardForJobRun",
    executions="StopExecution",
    # Who plans a backfill asks an author's timetable for its dates.
    invokes="sandbox",
    publishes=True,
)

# For other parts of an app: who sends events of assets, and who pushes bundles but does no more.
SENDER = Permissions(sends="events events.fifo")
PUSHER = Permissions(
    tables={
        **dict.fromkeys(("AssetQueue", "Assets", "Dags"), "BatchGetItem"),
        "Dags/by_file": "Query",
        "Catalog": "UpdateItem",
    },
    gets="bundles/*",
    puts="bundles/* pushes/*",
)


class ManagedPolicies(Construct):
    """The policies `<stack>-reader-<region>` and `<stack>-operator-<region>`."""

    def __init__(self, scope: Construct, name: str, *, arns: Arns) -> None:
        super().__init__(scope, name)
        # Without it S3 does not tell an object that is not there from one that is forbidden.
        listing = iam.PolicyStatement(actions=["s3:ListBucket"], resources=[arns.bucket_arn])
        logs = iam.PolicyStatement(
            actions=["logs:FilterLogEvents"], resources=[arns.log_group("task")]
        )
        reading = [describe_stack(arns), _read_queue_attributes(arns), listing, logs]
        self.reader = self._policy("Reader", READER, arns, reading)
        self.operator = self._policy("Operator", OPERATOR, arns, _replay_to_external_queues(arns))

    def _policy(
        self,
        name: str,
        permissions: Permissions,
        arns: Arns,
        further: Sequence[iam.PolicyStatement],
    ) -> iam.ManagedPolicy:
        # Without a description: whoever changed it would need another name too.
        return iam.ManagedPolicy(
            self,
            name,
            managed_policy_name=f"{arns.prefix}{name.lower()}-{arns.stack.region}",
            statements=[*statements(permissions, arns), *further],
        )


def describe_stack(arns: Arns) -> iam.PolicyStatement:
    """Return what the command line needs to find the deployment."""
    name = f"{arns.stack.stack_name}/*"
    arn = arns.stack.format_arn(service="cloudformation", resource="stack", resource_name=name)
    return iam.PolicyStatement(actions=["cloudformation:DescribeStacks"], resources=[arn])


def _read_queue_attributes(arns: Arns) -> iam.PolicyStatement:
    queues = [arns.queue(name) for name in URL_SETTINGS]
    actions = ["sqs:GetQueueAttributes", "sqs:GetQueueUrl"]
    return iam.PolicyStatement(actions=actions, resources=queues)


def _replay_to_external_queues(arns: Arns) -> list[iam.PolicyStatement]:
    """Return what replays dead letters to the external queues that watchers read."""
    external = [arns.external_queue(name) for name in arns.config.watch_queues]
    actions = on_queues(["GetQueueUrl", "SendMessage"], arns.config)
    return [iam.PolicyStatement(actions=actions, resources=external)] if external else []
