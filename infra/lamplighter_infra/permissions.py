"""Permissions as data, and as IAM statements: one for each kind of resource, on named ones only.

Owns: the way from one to the other. `functions` says what each function may do.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from lamplighter.runs import effects
from lamplighter_infra.config import Config

# What Lambda itself does with a queue in the name of its function.
_POLL = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
_BATCHED = frozenset({"SendMessage", "DeleteMessage", "ChangeMessageVisibility"})
_ON_APPLICATION = frozenset({"StartJobRun", "ListJobRuns"})
_ON_STATE_MACHINES = frozenset({"StartExecution"})
EMR_SERVICE = "emr-serverless.amazonaws.com"


@dataclass(frozen=True, kw_only=True)
class Permissions:
    """Names separated by blanks; none is no permission at all."""

    # Operations by table, or by index as in "Dags/due". Transactions are made of these too.
    tables: Mapping[str, str] = field(default_factory=dict)
    # Queues to send to, to be invoked by, and on which to delay messages that are tried again.
    sends: str = ""
    receives: str = ""
    delays: str = ""
    # Patterns of keys in the bucket.
    gets: str = ""
    puts: str = ""
    # Patterns of keys to list: else S3 says of a missing object that it is forbidden.
    lists: str = ""
    # Operations on jobs of the application.
    jobs: str = ""
    # Operations on the state machines that a flag names, and on their executions.
    executions: str = ""
    invokes: str = ""
    # Whether it may assume the role of what Python tasks run.
    assumes_task_role: bool = False
    # Whether it may put `Run Finished` on the bus.
    publishes: bool = False
    # Whether it is invoked by the external queues, may list the external buckets, uses the file
    # system, and may assume the roles of author code, that flags and settings of watchers name.
    reads_watched_sources: bool = False

    def __or__(self, other: "Permissions") -> "Permissions":
        """Return what is allowed by one of the two."""
        names = {*self.tables, *other.tables}
        return Permissions(
            tables={
                name: _both(self.tables.get(name, ""), other.tables.get(name, ""))
                for name in sorted(names)
            },
            sends=_both(self.sends, other.sends),
            receives=_both(self.receives, other.receives),
            delays=_both(self.delays, other.delays),
            gets=_both(self.gets, other.gets),
            puts=_both(self.puts, other.puts),
            lists=_both(self.lists, other.lists),
            jobs=_both(self.jobs, other.jobs),
            executions=_both(self.executions, other.executions),
            invokes=_both(self.invokes, other.invokes),
            assumes_task_role=self.assumes_task_role or other.assumes_task_role,
            publishes=self.publishes or other.publishes,
            reads_watched_sources=self.reads_watched_sources or other.reads_watched_sources,
        )


def _both(one: str, other: str) -> str:
    return " ".join(sorted({*one.split(), *other.split()}))


@dataclass(frozen=True)
class Arns:
    """The ARNs of everything that a statement can be about."""

    stack: cdk.Stack
    config: Config
    bucket_arn: str
    key_arn: str
    application_id: str
    job_role_arns: Sequence[str]

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
        return self.external_queue(f"{self.prefix}{name}")

    def external_queue(self, name: str) -> str:
        """Return the ARN of a queue in this account that is not the stack's."""
        return str(self.stack.format_arn(service="sqs", resource=name))

    def function(self, name: str) -> str:
        """Return the ARN of a function."""
        return self._colon_arn("lambda", "function", f"{self.prefix}{name}")

    @property
    def task_job_role(self) -> str:
        """The ARN of the role of what Python tasks run."""
        # As text: the function that assumes it is made before it.
        stack = self.stack
        name = f"{self.prefix}python-jobs-{stack.region}"
        return f"arn:{stack.partition}:iam::{stack.account}:role/{name}"

    def log_group(self, name: str) -> str:
        """Return the ARN of the log group of a function."""
        return self._colon_arn("logs", "log-group", f"/aws/lambda/{self.prefix}{name}")

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
    def state_machine_prefix(self) -> str:
        """What the ARNs of state machines begin with; nothing if tasks may start none."""
        return self._colon_arn("states", "stateMachine", "") if self.config.state_machines else ""

    @property
    def state_machines(self) -> list[str]:
        """The ARNs of the state machines that tasks may start."""
        return [f"{self.state_machine_prefix}{name}" for name in self.config.state_machines]

    @property
    def executions(self) -> list[str]:
        """The patterns of all executions of these."""
        names = self.config.state_machines
        return [self._colon_arn("states", "execution", f"{name}:*") for name in names]

    @property
    def event_bus(self) -> str:
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


def function_statements(
    name: str, permissions: Permissions, arns: Arns
) -> Iterator[iam.PolicyStatement]:
    """Yield all that a function may do: its permissions, and writing its log."""
    yield _allow(("logs:CreateLogStream", "logs:PutLogEvents"), [arns.log_streams(name)])
    yield from statements(permissions, arns)


def statements(permissions: Permissions, arns: Arns) -> Iterator[iam.PolicyStatement]:
    """Yield permissions as statements, and the use of the key that they need."""
    yield from _tables(permissions, arns)
    yield from _queues(permissions, arns)
    yield from _objects(permissions, arns)
    yield from _jobs(permissions, arns)
    yield from _executions(permissions, arns)
    yield from _file_system(permissions, arns)
    yield from _roles(permissions, arns)
    if permissions.invokes:
        functions = [arns.function(each) for each in permissions.invokes.split()]
        yield _allow(["lambda:InvokeFunction"], functions)
    if permissions.publishes:
        own_source = {"StringEquals": {"events:source": effects.EVENT_SOURCE}}
        yield _allow(["events:PutEvents"], [arns.event_bus], own_source)
    if services := list(_encrypted(permissions)):
        region = arns.stack.region
        via = {"kms:ViaService": [f"{service}.{region}.amazonaws.com" for service in services]}
        actions = ["kms:Decrypt", "kms:GenerateDataKey"]
        yield _allow(actions, [arns.key_arn], {"StringEquals": via})


def _tables(permissions: Permissions, arns: Arns) -> Iterator[iam.PolicyStatement]:
    """Yield one statement for the operations that are allowed on the same tables.

    A policy for people has 6,144 characters at most.
    """
    tables: dict[str, list[str]] = {}
    for table, operations in permissions.tables.items():
        for operation in operations.split():
            tables.setdefault(operation, []).append(table)
    together: dict[tuple[str, ...], list[str]] = {}
    for operation, names in tables.items():
        together.setdefault(tuple(sorted(names)), []).append(f"dynamodb:{operation}")
    for same, actions in together.items():
        yield _allow(actions, [arns.table(name) for name in same])


def _queues(permissions: Permissions, arns: Arns) -> Iterator[iam.PolicyStatement]:
    sends = [arns.queue(each) for each in permissions.sends.split()]
    receives = [arns.queue(each) for each in permissions.receives.split()]
    delays = [arns.queue(each) for each in permissions.delays.split()]
    if permissions.reads_watched_sources:
        receives += [arns.external_queue(each) for each in arns.config.watch_queues]
    for operations, queues in (
        (("SendMessage",), sends),
        (_POLL, receives),
        (("ChangeMessageVisibility",), delays),
    ):
        if queues:
            yield _allow(on_queues(operations, arns.config), queues)


def on_queues(operations: Sequence[str], config: Config) -> list[str]:
    """Return actions of SQS. Whoever may do something may do it with ten messages at once.

    The emulator has permissions of their own for that, by names that IAM does not know.
    """
    names = [f"sqs:{operation}" for operation in operations]
    batches = [f"sqs:{operation}Batch" for operation in operations if operation in _BATCHED]
    return [*names, *(batches if config.is_local else [])]


def _objects(permissions: Permissions, arns: Arns) -> Iterator[iam.PolicyStatement]:
    if permissions.gets:
        yield _allow(["s3:GetObject"], [arns.objects(each) for each in permissions.gets.split()])
    if permissions.puts:
        yield _allow(["s3:PutObject"], [arns.objects(each) for each in permissions.puts.split()])
    if permissions.lists:
        below = {"StringLike": {"s3:prefix": permissions.lists.split()}}
        yield _allow(["s3:ListBucket"], [arns.bucket_arn], below)
    watched = arns.config.watch_buckets if permissions.reads_watched_sources else ()
    if watched:
        partition = arns.stack.partition
        yield _allow(["s3:ListBucket"], [f"arn:{partition}:s3:::{each}" for each in watched])


def _file_system(permissions: Permissions, arns: Arns) -> Iterator[iam.PolicyStatement]:
    access_point = arns.config.watch_access_point
    if permissions.reads_watched_sources and access_point:
        # An access point belongs to one file system, whose name it does not have.
        file_systems = f"{access_point.partition(':access-point/')[0]}:file-system/*"
        through = {"StringEquals": {"elasticfilesystem:AccessPointArn": access_point}}
        actions = ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"]
        yield _allow(actions, [file_systems], through)


def _roles(permissions: Permissions, arns: Arns) -> Iterator[iam.PolicyStatement]:
    roles = arns.config.settings.watcher_roles.values()
    if permissions.reads_watched_sources and roles:
        yield _allow(["sts:AssumeRole"], sorted(set(roles)))
    if permissions.assumes_task_role:
        yield _allow(["sts:AssumeRole"], [arns.task_job_role])


def _jobs(permissions: Permissions, arns: Arns) -> Iterator[iam.PolicyStatement]:
    operations = set(permissions.jobs.split())
    if on_application := operations & _ON_APPLICATION:
        yield _allow(_emr(on_application), [arns.application])
    if on_jobs := operations - _ON_APPLICATION:
        yield _allow(_emr(on_jobs), [arns.job_runs])
    if "StartJobRun" in operations:
        # Jobs are started with tags, by which their costs are told apart.
        yield _allow(["emr-serverless:TagResource"], [arns.job_runs])
        to_emr = {"StringEquals": {"iam:PassedToService": EMR_SERVICE}}
        yield _allow(["iam:PassRole"], arns.job_role_arns, to_emr)


def _executions(permissions: Permissions, arns: Arns) -> Iterator[iam.PolicyStatement]:
    operations = set(permissions.executions.split())
    for of_them, things in (
        (operations & _ON_STATE_MACHINES, arns.state_machines),
        (operations - _ON_STATE_MACHINES, arns.executions),
    ):
        if of_them and things:
            yield _allow([f"states:{operation}" for operation in of_them], things)


def _emr(operations: Iterable[str]) -> list[str]:
    return sorted(f"emr-serverless:{operation}" for operation in operations)


def reading_secrets(stack: cdk.Stack, config: Config) -> list[iam.PolicyStatement]:
    """Return what jobs need to read the secrets that the deployer names, and no others."""
    form = cdk.ArnFormat.COLON_RESOURCE_NAME
    arns: dict[str, list[str]] = {"secretsmanager": [], "ssm": []}
    for reference in config.secrets:
        service, _, name = reference.partition(":")
        if service == "ssm":
            arn = stack.format_arn(
                service=service, resource="parameter", resource_name=name.removeprefix("/")
            )
        else:
            # Secrets Manager adds a hyphen and six characters to the name.
            arn = stack.format_arn(
                service=service,
                resource="secret",
                resource_name=f"{name}-??????",
                arn_format=form,
            )
        arns[service].append(arn)
    actions = {"secretsmanager": "secretsmanager:GetSecretValue", "ssm": "ssm:GetParameter"}
    return [_allow([actions[service]], found) for service, found in arns.items() if found]


def _encrypted(permissions: Permissions) -> Iterator[str]:
    """Yield the services that decrypt with the stack's key for whoever has these permissions."""
    if permissions.tables:
        yield "dynamodb"
    if permissions.sends or permissions.receives:
        yield "sqs"
    if permissions.gets or permissions.puts:
        yield "s3"


def _allow(
    actions: Sequence[str],
    resources: Sequence[str],
    conditions: dict[str, dict[str, str]] | dict[str, dict[str, list[str]]] | None = None,
) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=sorted(actions), resources=list(resources), conditions=conditions
    )
