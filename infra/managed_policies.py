"""What people may do: two policies to attach to whoever reads a deployment, or operates it.

Owns: the rights of the command line. It runs the library, so that an operator has the rights of the
functions whose work a command does, and none to change the stack.
"""

from collections.abc import Sequence

from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.permissions import Places, on_queues, statements
from infra.queues import dead_name
from infra.rights import Rights
from lamplighter.settings import QUEUES
from lamplighter.store.models import TABLES

_TABLES = tuple(model.__name__ for model in TABLES)
_INDEXES = ("Dags/by_file", "Runs/by_state", "Runs/wake", "AssetEvents/by_seq", "Assets/open")

_DEAD = " ".join(dead_name(name) for name in QUEUES)

READER = Rights(
    tables={
        **dict.fromkeys(_TABLES, "BatchGetItem DescribeTable GetItem Query Scan"),
        **dict.fromkeys(_INDEXES, "Query"),
    },
    gets="jobs/* logs/*",
    jobs="GetJobRun ListJobRuns",
)

# What operators may do beyond that: push bundles, emit events, make and cancel runs, look through
# dead letters. They have both policies; one alone would be longer than IAM allows.
OPERATOR = Rights(
    tables={
        "Dags": "UpdateItem",
        "Backfills": "PutItem UpdateItem",
        "Runs": "PutItem UpdateItem",
        "Steps": "PutItem UpdateItem",
        "Assets": "ConditionCheckItem",
        "AssetQueue": "UpdateItem",
        "AssetEvents": "PutItem",
        # Watchers that are parked have rows, which are deleted when they may go on.
        "Catalog": "UpdateItem DeleteItem",
    },
    # What is replayed goes where it came from.
    sends="claims submits jobstates registers events events.fifo sources",
    receives=_DEAD,
    delays=_DEAD,
    gets="bundles/*",
    puts="bundles/* pushes/*",
    jobs="CancelJobRun",
    # Who plans a backfill asks an author's timetable for its dates.
    invokes="sandbox",
    tells=True,
)


class Access(Construct):
    """The policies `<stack>-reader-<region>` and `<stack>-operator-<region>`."""

    def __init__(self, scope: Construct, name: str, *, places: Places) -> None:
        super().__init__(scope, name)
        # Without it S3 does not tell an object that is not there from one that is forbidden.
        listing = iam.PolicyStatement(actions=["s3:ListBucket"], resources=[places.bucket_arn])
        looking = [_find_stack(places), _count_messages(places), listing]
        self.reader = self._policy("Reader", READER, places, looking)
        self.operator = self._policy("Operator", OPERATOR, places, _send_back(places))

    def _policy(
        self, name: str, rights: Rights, places: Places, further: Sequence[iam.PolicyStatement]
    ) -> iam.ManagedPolicy:
        # Without a description: whoever changed it would need another name too.
        return iam.ManagedPolicy(
            self,
            name,
            managed_policy_name=f"{places.prefix}{name.lower()}-{places.stack.region}",
            statements=[*statements(rights, places), *further],
        )


def _find_stack(places: Places) -> iam.PolicyStatement:
    name = f"{places.config.stack_name}/*"
    arn = places.stack.format_arn(service="cloudformation", resource="stack", resource_name=name)
    return iam.PolicyStatement(actions=["cloudformation:DescribeStacks"], resources=[arn])


def _count_messages(places: Places) -> iam.PolicyStatement:
    queues = [places.queue(each) for name in QUEUES for each in (name, dead_name(name))]
    actions = ["sqs:GetQueueAttributes", "sqs:GetQueueUrl"]
    return iam.PolicyStatement(actions=actions, resources=queues)


def _send_back(places: Places) -> list[iam.PolicyStatement]:
    """Return what replays dead letters to the queues of others that watchers read."""
    others = [places.others_queue(name) for name in places.config.watch_queues]
    actions = on_queues(["GetQueueUrl", "SendMessage"], places.config)
    return [iam.PolicyStatement(actions=actions, resources=others)] if others else []
