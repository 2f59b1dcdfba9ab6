"""A deployment as a construct, for any stack of any CDK app.

Owns: of which parts it consists, the settings that functions find in their environment and the
command line in the outputs of the stack, and what the rest of an app may use of it.
"""

from typing import Any, Unpack

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lamplighter.errors import SettingsError
from lamplighter.settings import Settings
from lamplighter_infra import grants, layers
from lamplighter_infra.alarms import Alarms
from lamplighter_infra.compute import Compute
from lamplighter_infra.config import Config
from lamplighter_infra.dashboard import Dashboard
from lamplighter_infra.job_runtime import ship_runtime
from lamplighter_infra.managed_policies import (
    PUSHER,
    SENDER,
    ManagedPolicies,
    describe_stack,
)
from lamplighter_infra.permissions import Arns, statements
from lamplighter_infra.props import Props, read_props
from lamplighter_infra.python_tasks import PythonTasks
from lamplighter_infra.queues import Queues
from lamplighter_infra.spark import Spark
from lamplighter_infra.storage import Storage, make_key

# The command line finds a deployment by the outputs of its stack, so there is one in each.
_OUTPUTS = "LamplighterOutputs"
# What the app of a deployer says of these is about its own buckets.
_CONTEXT = {"@aws-cdk/aws-s3:serverAccessLogsUseBucketPolicy": True}


class Lamplighter(Construct):
    """Everything that a deployment is made of.

    Args:
        stage: "dev" and "prod" have defaults of their own; any other name will do too.
        config: The stage as flags describe it, instead of props.
        has_layers: Whether it can be deployed; without layers its template can be looked at.
        props: As `Props` has them; `docs/deploy.md` says what each is for.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: str = "dev",
        config: Config | None = None,
        has_layers: bool = True,
        **props: Unpack[Props],
    ) -> None:
        """Compose a deployment in the stack of `scope`."""
        stack = _require_only_one(scope)
        if config is not None and props:
            raise SettingsError(f"config describes a whole stage: leave out {', '.join(props)}")
        config = config or read_props(stack, stage, props)
        super().__init__(scope, construct_id)
        for name, value in _CONTEXT.items():
            self.node.set_context(name, value)
        self.config = config
        self._key = make_key(self, config, _given(props.get("key")))
        self._queues = Queues(self, "Queues", config=config, key=self._key)
        self._storage = Storage(self, "Storage", config=config, key=self._key, queues=self._queues)
        self._spark = Spark(
            self, "Spark", config=config, key=self._key, bucket=self._storage.bucket
        )
        self._arns = self._name_all(stack)
        self.settings = self._settings()
        self._compute = Compute(
            self,
            "Compute",
            config=config,
            settings=self.settings,
            arns=self._arns,
            key=self._key,
            queues=self._queues,
            has_layers=has_layers,
        )
        PythonTasks(
            self,
            "PythonTasks",
            config=config,
            arns=self._arns,
            function_role=self._compute.roles["task"],
        )
        self._policies = ManagedPolicies(self, "ManagedPolicies", arns=self._arns)
        self._watch_over(_given(props.get("notify")))
        self._put_out(stack)

    @property
    def keeps_data(self) -> bool:
        """Whether tables, bucket and key outlast the stack, which is to be protected then."""
        return self.config.keep_data and not self.config.is_local

    @property
    def events_queue(self) -> sqs.IQueue:
        """The queue that takes events of assets in any order."""
        return self._queues.queues["events"]

    @property
    def events_fifo_queue(self) -> sqs.IQueue:
        """The queue that takes events of assets in lanes."""
        return self._queues.queues["events.fifo"]

    @property
    def tables(self) -> dict[str, Any]:
        """The tables, by the names of their models."""
        return dict(self._storage.tables)

    @property
    def key(self) -> kms.IKey:
        """The key of all that is stored."""
        return self._key

    @property
    def bundle_bucket(self) -> s3.IBucket:
        """The bucket of bundles, and of what jobs are given and report."""
        return self._storage.bucket

    @property
    def job_role(self) -> iam.IRole:
        """The role of jobs on Spark; what it may do with data is up to the app."""
        return self._spark.role

    @property
    def function_roles(self) -> dict[str, iam.IRole]:
        """The roles of the functions, by the names of these."""
        return dict(self._compute.roles)

    def grant_send_events(self, grantee: iam.IGrantable) -> None:
        """Let a role, user or function of this account send events of assets.

        Those of other accounts, topics, buckets and rules are `event_senders`.
        """
        grants.allow("grant_send_events", grantee, statements(SENDER, self._arns))

    def grant_read(self, grantee: iam.IGrantable) -> None:
        """Let a role, user or group look at everything with the command line."""
        grants.attach("grant_read", grantee, self._policies.reader)

    def grant_operate(self, grantee: iam.IGrantable) -> None:
        """Let a role, user or group do everything that the command line can do."""
        grants.attach("grant_operate", grantee, self._policies.reader)
        grants.attach("grant_operate", grantee, self._policies.operator)

    def grant_push(self, grantee: iam.IGrantable) -> None:
        """Let a role or user push bundles, with the preview of what that changes."""
        found = (*statements(PUSHER, self._arns), describe_stack(self._arns))
        grants.allow("grant_push", grantee, found)

    def _name_all(self, stack: cdk.Stack) -> Arns:
        name = f"{self.config.stack_name}-{stack.account}-{stack.region}"
        return Arns(
            stack,
            self.config,
            # As text: references to parts would tie everything to everything.
            bucket_arn=f"arn:{stack.partition}:s3:::{name}",
            key_arn=self._key.key_arn,
            application_id=self._spark.application_id,
            job_role_arns=[self._spark.role.role_arn, *self.config.bundle_role_arns],
        )

    def _settings(self) -> Settings:
        config, arns = self.config, self._arns
        bucket = self._storage.bucket.bucket_name
        return Settings(
            table_prefix=self._storage.prefix,
            bucket=bucket,
            queue_urls=self._queues.urls(),
            sandbox_function=f"{config.stack_name}-sandbox",
            task_function=f"{config.stack_name}-task",
            task_job_role_arn=arns.task_job_role,
            emr_application_id=self._spark.application_id,
            emr_job_role_arn=self._spark.role.role_arn,
            emr_release="" if config.emr_application_id else config.emr_release,
            # Named by what is in it: jobs that are under way keep what they were started with.
            runtime=f"runtime/{layers.runtime_files().name}",
            job_logs_uri=f"s3://{bucket}/logs",
            job_log_group=config.job_log_group,
            event_bus="default",
            watch_queues=config.watch_queues,
            watch_buckets=config.watch_buckets,
            watch_event_sources=config.watch_event_sources,
            state_machines=config.state_machines,
            state_machine_prefix=arns.state_machine_prefix,
            **vars(config.settings),
        )

    def _watch_over(self, topic: sns.ITopic | None) -> None:
        Alarms(
            self,
            "Alarms",
            config=self.config,
            key=self._key,
            queues=self._queues,
            compute=self._compute,
            topic=topic,
        )
        Dashboard(
            self,
            "Dashboard",
            config=self.config,
            arns=self._arns,
            queues=self._queues,
            spark=self._spark,
            compute=self._compute,
        )

    def _put_out(self, stack: cdk.Stack) -> None:
        """Put what jobs take along into the bucket, and the settings into the stack's outputs."""
        if not self.config.is_local:
            shipped = ship_runtime(
                self, arns=self._arns, bucket=self.bundle_bucket, prefix=self.settings.runtime
            )
            # Jobs that it starts look for the files there.
            self._compute.functions["submit"].node.add_dependency(shipped)
        outputs = Construct(stack, _OUTPUTS)
        for name, value in self.settings.as_outputs().items():
            # By these names the command line looks for them, wherever the construct is.
            cdk.CfnOutput(outputs, name, value=value).override_logical_id(name)


def _given(thing: Any) -> Any:
    """Return what another part of the app has made; of what is named, nothing can be changed."""
    return None if isinstance(thing, str) else thing


def _require_only_one(scope: Construct) -> cdk.Stack:
    stack = cdk.Stack.of(scope)
    if stack.nested:
        raise SettingsError("Lamplighter needs a stack with a name, not a nested one")
    if stack.node.try_find_child(_OUTPUTS) is not None:
        raise SettingsError(
            f"stack {stack.stack_name} has a Lamplighter already: use a stack for each"
        )
    return stack
