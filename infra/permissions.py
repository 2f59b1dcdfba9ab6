"""Rights in the words of IAM: one statement for each kind of thing, on named resources only."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from infra.config import Config
from infra.rights import Rights
from lamplighter.runs import effects

# What Lambda itself does with a queue in the name of its function.
_POLL = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
_BATCHED = frozenset({"SendMessage", "DeleteMessage", "ChangeMessageVisibility"})
_ON_APPLICATION = frozenset({"StartJobRun", "ListJobRuns"})
EMR_SERVICE = "emr-serverless.amazonaws.com"


@dataclass(frozen=True)
class Places:
    """Where everything is: the ARNs that statements are about."""

    stack: cdk.Stack
    config: Config
    bucket_arn: str
    key_arn: str
    application_id: str
    job_role_arn: str

    @property
    def prefix(self) -> str:
        """What the names of tables, queues and functions begin with."""
        return f"{self.config.stack_name}-"

    def table(self, name: str) -> str:
        """Return the ARN of a table, or of an index as in "Dags/due"."""
        table, slash, index = name.partition("/")
        tail = f"/index/{index}" if slash else ""
        return self._arn("dynamodb", "table", f"{self.prefix}{table}{tail}")

    def queue(self, name: str) -> str:
        """Return the ARN of a queue of the stack."""
        return self.others_queue(f"{self.prefix}{name}")

    def others_queue(self, name: str) -> str:
        """Return the ARN of a queue of someone else's, in this account."""
        return str(self.stack.format_arn(service="sqs", resource=name))

    def function(self, name: str) -> str:
        """Return the ARN of a function."""
        return self._colon_arn("lambda", "function", f"{self.prefix}{name}")

    def log_streams(self, name: str) -> str:
        """Return the pattern of all streams in the log of a function."""
        return self._colon_arn("logs", "log-group", f"/aws/lambda/{self.prefix}{name}:*")

    def objects(self, keys: str) -> str:
        """Return the pattern of objects in the bucket."""
        return f"{self.bucket_arn}/{keys}"

    @property
    def application(self) -> str:
        """The ARN of the application."""
        return self._arn("emr-serverless", "", f"applications/{self.application_id}")

    @property
    def job_runs(self) -> str:
        """The pattern of all jobs of the application."""
        return f"{self.application}/jobruns/*"

    @property
    def bus(self) -> str:
        """The ARN of the bus of EventBridge."""
        return self._arn("events", "event-bus", "default")

    def _arn(self, service: str, resource: str, name: str) -> str:
        found = self.stack.format_arn(service=service, resource=resource, resource_name=name)
        return str(found)

    def _colon_arn(self, service: str, resource: str, name: str) -> str:
        form = cdk.ArnFormat.COLON_RESOURCE_NAME
        found = self.stack.format_arn(
            service=service, resource=resource, resource_name=name, arn_format=form
        )
        return str(found)


def function_statements(name: str, rights: Rights, places: Places) -> Iterator[iam.PolicyStatement]:
    """Yield all that a function may do: its rights, its log, and the key as far as it needs it."""
    yield _allow(("logs:CreateLogStream", "logs:PutLogEvents"), [places.log_streams(name)])
    yield from statements(rights, places)


def statements(rights: Rights, places: Places) -> Iterator[iam.PolicyStatement]:
    """Yield rights as statements."""
    yield from _tables(rights, places)
    yield from _queues(rights, places)
    yield from _objects(rights, places)
    yield from _jobs(rights, places)
    if rights.invokes:
        functions = [places.function(each) for each in rights.invokes.split()]
        yield _allow(["lambda:InvokeFunction"], functions)
    if rights.tells:
        ours = {"StringEquals": {"events:source": effects.SOURCE}}
        yield _allow(["events:PutEvents"], [places.bus], ours)
    if services := list(_encrypted(rights)):
        region = places.stack.region
        via = {"kms:ViaService": [f"{service}.{region}.amazonaws.com" for service in services]}
        actions = ["kms:Decrypt", "kms:GenerateDataKey"]
        yield _allow(actions, [places.key_arn], {"StringEquals": via})


def _tables(rights: Rights, places: Places) -> Iterator[iam.PolicyStatement]:
    """Yield one statement for the operations that are allowed on the same tables.

    A policy for people has 6,144 characters at most.
    """
    tables: dict[str, list[str]] = {}
    for table, operations in rights.tables.items():
        for operation in operations.split():
            tables.setdefault(operation, []).append(table)
    together: dict[tuple[str, ...], list[str]] = {}
    for operation, names in tables.items():
        together.setdefault(tuple(sorted(names)), []).append(f"dynamodb:{operation}")
    for same, actions in together.items():
        yield _allow(actions, [places.table(name) for name in same])


def _queues(rights: Rights, places: Places) -> Iterator[iam.PolicyStatement]:
    sends = [places.queue(each) for each in rights.sends.split()]
    receives = [places.queue(each) for each in rights.receives.split()]
    delays = [places.queue(each) for each in rights.delays.split()]
    if rights.is_for_watchers:
        receives += [places.others_queue(each) for each in places.config.watch_queues]
    for operations, queues in (
        (("SendMessage",), sends),
        (_POLL, receives),
        (("ChangeMessageVisibility",), delays),
    ):
        if queues:
            yield _allow(on_queues(operations, places.config), queues)


def on_queues(operations: Sequence[str], config: Config) -> list[str]:
    """Return actions of SQS. Whoever may do something may do it with ten messages at once.

    The emulator has rights of their own for that, by names that IAM does not know.
    """
    names = [f"sqs:{operation}" for operation in operations]
    batches = [f"sqs:{operation}Batch" for operation in operations if operation in _BATCHED]
    return [*names, *(batches if config.is_local else [])]


def _objects(rights: Rights, places: Places) -> Iterator[iam.PolicyStatement]:
    if rights.gets:
        yield _allow(["s3:GetObject"], [places.objects(each) for each in rights.gets.split()])
    if rights.puts:
        yield _allow(["s3:PutObject"], [places.objects(each) for each in rights.puts.split()])
    if rights.lists:
        below = {"StringLike": {"s3:prefix": rights.lists.split()}}
        yield _allow(["s3:ListBucket"], [places.bucket_arn], below)
    watched = places.config.watch_buckets if rights.is_for_watchers else ()
    if watched:
        partition = places.stack.partition
        yield _allow(["s3:ListBucket"], [f"arn:{partition}:s3:::{each}" for each in watched])


def _jobs(rights: Rights, places: Places) -> Iterator[iam.PolicyStatement]:
    operations = set(rights.jobs.split())
    if on_application := operations & _ON_APPLICATION:
        yield _allow(_emr(on_application), [places.application])
    if on_jobs := operations - _ON_APPLICATION:
        yield _allow(_emr(on_jobs), [places.job_runs])
    if "StartJobRun" in operations:
        # Jobs are started with tags, by which their costs are told apart.
        yield _allow(["emr-serverless:TagResource"], [places.job_runs])
        to_emr = {"StringEquals": {"iam:PassedToService": EMR_SERVICE}}
        yield _allow(["iam:PassRole"], [places.job_role_arn], to_emr)


def _emr(operations: Iterable[str]) -> list[str]:
    return sorted(f"emr-serverless:{operation}" for operation in operations)


def _encrypted(rights: Rights) -> Iterator[str]:
    """Yield the services that decrypt with our key for whoever has these rights."""
    if rights.tables:
        yield "dynamodb"
    if rights.sends or rights.receives:
        yield "sqs"
    if rights.gets or rights.puts:
        yield "s3"


def _allow(
    actions: Sequence[str],
    resources: Sequence[str],
    conditions: dict[str, dict[str, str]] | dict[str, dict[str, list[str]]] | None = None,
) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=sorted(actions), resources=list(resources), conditions=conditions
    )
