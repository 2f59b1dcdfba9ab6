"""The functions, their layers and roles, and what invokes them.

Owns: that no function has more permissions than `functions` says, and that a message which it could
not handle is delivered again, alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from lamplighter.executors.aws_lambda import MAX_EVENT_AGE
from lamplighter.executors.step_functions import EVENT_TYPE as EXECUTION_EVENT
from lamplighter.settings import Settings
from lamplighter.topology import FUNCTIONS, QUEUES, Function, queues_of
from lamplighter_infra import layers
from lamplighter_infra.config import Config, is_token
from lamplighter_infra.environment import require_room
from lamplighter_infra.functions import LIMITS, PERMISSIONS, limits_of
from lamplighter_infra.permissions import Arns, function_statements
from lamplighter_infra.queues import Queues, title

_JOB_STATES = ("RUNNING", "SUCCESS", "FAILED", "CANCELLED")
# As which the fake EMR Serverless of an emulator tells of its jobs: AWS's own name is protected.
LOCAL_EMR_SOURCE = "lamplighter.emr"
_NO_VERSION = "@aws-cdk/aws-lambda:snapStartRequirePublish"
_NETWORK_INTERFACES = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:UnassignPrivateIpAddresses",
)


class Compute(Construct):
    """All functions, by name."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        config: Config,
        settings: Settings,
        arns: Arns,
        key: kms.IKey,
        queues: Queues,
        has_layers: bool,
    ) -> None:
        super().__init__(scope, name)
        self._config = config
        self._settings = settings
        self._arns = arns
        self._key = key
        self._queues = queues
        # Before the layers, which take a while: a setting may be refused.
        self._environments = {name: self._environment(name) for name in FUNCTIONS}
        self._layers = self._make_layers() if has_layers else []
        self.roles: dict[str, iam.Role] = {}
        # EventBridge rules that send events to queues, by name.
        self.rules: dict[str, events.CfnRule] = {}
        self.functions = {name: self._function(name, each) for name, each in FUNCTIONS.items()}
        self.targets = {name: self._target(name) for name in FUNCTIONS}
        for function in FUNCTIONS:
            self._add_triggers(function)
        self._tell_ends_of_python_jobs()
        self._route_job_states()
        self._route_executions()
        self._route_watched_sources()

    # Layers, roles and environment.

    def _make_layers(self) -> list[lambda_.LayerVersion]:
        is_local = self._config.is_local
        return [
            self._layer("Dependencies", layers.dependencies(is_local=is_local)),
            self._layer("Library", layers.core(is_local=is_local)),
        ]

    def _layer(self, name: str, folder: Path) -> lambda_.LayerVersion:
        return lambda_.LayerVersion(
            self,
            name,
            description=f"{self._config.stack_name}: {folder.name}",
            # Its name says what is in it, which takes a while to find out from its files.
            code=lambda_.Code.from_asset(str(folder), asset_hash=folder.name),
            compatible_runtimes=[lambda_.Runtime.PYTHON_3_13],
            compatible_architectures=[_architecture(self._config)],
        )

    def _function(self, name: str, function: Function) -> lambda_.Function:
        scope, limits = Construct(self, name.capitalize()), limits_of(name, self._config)
        full_name = f"{self._config.stack_name}-{name}"
        log_group = logs.LogGroup(
            scope,
            "Log",
            log_group_name=f"/aws/lambda/{full_name}",
            encryption_key=self._key,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        made = log_group.node.default_child
        assert isinstance(made, logs.CfnLogGroup)
        made.retention_in_days = self._config.log_days
        network = self._network(scope, name)
        role = self._role(scope, name, is_in_vpc=bool(network))
        function_made = lambda_.Function(
            scope,
            "Function",
            function_name=full_name,
            description=function.description,
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=_architecture(self._config),
            handler="handler.handler",
            code=lambda_.Code.from_asset(str(layers.handler(name)), exclude=["*", "!handler.py"]),
            layers=self._layers,
            memory_size=limits.memory_mb,
            timeout=cdk.Duration.seconds(limits.timeout_seconds),
            role=role.without_policy_updates(),
            log_group=log_group,
            environment=self._environments[name],
            snap_start=(
                lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS
                if name in self._config.snap_start
                else None
            ),
            # A schedule is an endless chain of messages, which Lambda would take for a mistake.
            recursive_loop=(
                lambda_.RecursiveLoop.ALLOW if queues_of(name) or name == "task" else None
            ),
            # The next minute does what this one could not.
            max_event_age=cdk.Duration.minutes(1) if function.every_minutes else None,
            retry_attempts=0 if function.every_minutes else None,
            reserved_concurrent_executions=(
                self._config.task_concurrency or None if name == "task" else None
            ),
            **network,
        )
        if name == "watch" and self._config.watch_access_point:
            self._mount_file_system(function_made)
        return function_made

    def _mount_file_system(self, function: lambda_.Function) -> None:
        made = function.node.default_child
        assert isinstance(made, lambda_.CfnFunction)
        mount = lambda_.CfnFunction.FileSystemConfigProperty(
            arn=self._config.watch_access_point, local_mount_path=self._config.watch_mount_path
        )
        made.file_system_configs = [mount]

    def _role(self, scope: Construct, name: str, *, is_in_vpc: bool) -> iam.Role:
        statements = list(function_statements(name, PERMISSIONS[name], self._arns))
        if is_in_vpc:
            statements += self._vpc_statements(name)
        role = iam.Role(
            scope,
            "Role",
            role_name=f"{self._config.stack_name}-{name}-{cdk.Stack.of(self).region}",
            description=f"The function {name} of {self._config.stack_name}",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            inline_policies={"permissions": iam.PolicyDocument(statements=statements)},
        )
        self.roles[name] = role
        return role

    def _vpc_statements(self, name: str) -> Sequence[iam.PolicyStatement]:
        """Return what Lambda needs to put a function into a network, and keep it from that."""
        itself = {"ArnEquals": {"lambda:SourceFunctionArn": self._arns.function(name)}}
        actions = list(_NETWORK_INTERFACES)
        return [
            # Lambda asks for these on everything, before there is an interface.
            iam.PolicyStatement(actions=actions, resources=["*"]),
            iam.PolicyStatement(
                effect=iam.Effect.DENY, actions=actions, resources=["*"], conditions=itself
            ),
        ]

    def _network(self, scope: Construct, name: str) -> dict[str, Any]:
        """Return the network that a function is in, if it is in one."""
        config = self._config
        subnets = {
            "sandbox": config.sandbox_subnets,
            "task": config.task_subnets,
            "watch": config.watch_subnets,
        }.get(name, ())
        if not subnets:
            return {}
        vpc = ec2.Vpc.from_vpc_attributes(
            scope, "Network", vpc_id=config.vpc_id, availability_zones=["unknown"]
        )
        selected = [
            ec2.Subnet.from_subnet_id(scope, f"Subnet{number}", subnet)
            for number, subnet in enumerate(subnets, start=1)
        ]
        groups = (
            self._way_to_s3(scope, vpc) if name == "sandbox" else self._given_groups(scope, name)
        )
        return {
            "vpc": vpc,
            "vpc_subnets": ec2.SubnetSelection(subnets=selected),
            "security_groups": groups,
        }

    def _way_to_s3(self, scope: Construct, vpc: ec2.IVpc) -> list[ec2.ISecurityGroup]:
        """Return what lets the sandbox out to nothing but S3."""
        group = ec2.SecurityGroup(
            scope,
            "SecurityGroup",
            vpc=vpc,
            description="Author code: nothing but S3 can be reached",
            allow_all_outbound=False,
        )
        s3 = ec2.Peer.prefix_list(self._config.s3_prefix_list)
        group.add_egress_rule(s3, ec2.Port.tcp(443), "S3")
        return [group]

    def _given_groups(self, scope: Construct, name: str) -> list[ec2.ISecurityGroup]:
        """Return the deployer's groups for a function, to which the stack adds no rule."""
        is_task = name == "task"
        config = self._config
        given = config.task_security_groups if is_task else config.watch_security_groups
        return [
            ec2.SecurityGroup.from_security_group_id(
                scope, f"SecurityGroup{number}", group, mutable=False
            )
            for number, group in enumerate(given, start=1)
        ]

    def _environment(self, name: str) -> Mapping[str, str]:
        logging = {"POWERTOOLS_LOG_LEVEL": "INFO"}
        if FUNCTIONS[name].runs_author_code and not PERMISSIONS[name].tables:
            return logging  # it is told all that it needs by whoever asks it
        local = {}
        if self._config.is_local and self._config.emr_endpoint:
            local = {"AWS_ENDPOINT_URL_EMR_SERVERLESS": self._config.emr_endpoint}
        found = {**self._needed_settings(name).as_environment(), **logging, **local}
        require_room(name, found, self._config)
        return found

    def _needed_settings(self, function: str) -> Settings:
        """Return the settings without dead-letter queues of others: an environment has 4 KB."""
        needed = {*QUEUES, *(queue.dlq for queue in queues_of(function))}
        urls = {name: url for name, url in self._settings.queue_urls.items() if name in needed}
        return replace(self._settings, queue_urls=urls)

    def _target(self, name: str) -> lambda_.IFunction:
        """Return what is invoked: a snapshot belongs to a version, and has an alias of its own."""
        function = self.functions[name]
        if name not in self._config.snap_start:
            return function
        has_version = "the alias has a version published"
        cdk.Annotations.of(function).acknowledge_warning(_NO_VERSION, has_version)
        return lambda_.Alias(function, "Live", alias_name="live", version=function.current_version)

    # What invokes them.

    def _add_triggers(self, name: str) -> None:
        target, batch_size = self.targets[name], LIMITS[name].batch_size
        for queue in queues_of(name):
            arn = self._queues.queues[queue.name].queue_arn
            self._add_event_source(f"{title(queue.name)}Source", arn, target, batch_size)
        if name == "watch":
            for number, other in enumerate(self._config.watch_queues, start=1):
                arn = self._arns.external_queue(other)
                # A name that only AWS knows cannot be part of another.
                label = str(number) if is_token(other) else other
                self._add_event_source(f"Watched-{label}", arn, target, batch_size)
        if minutes := FUNCTIONS[name].every_minutes:
            rule = events.Rule(
                self,
                f"{name.capitalize()}Timer",
                rule_name=f"{self._config.stack_name}-{name}",
                description=f"Invokes {name}",
                schedule=events.Schedule.rate(cdk.Duration.minutes(minutes)),
            )
            rule.add_target(targets.LambdaFunction(target, retry_attempts=0))

    def _add_event_source(
        self, name: str, arn: str, target: lambda_.IFunction, batch_size: int
    ) -> None:
        lambda_.EventSourceMapping(
            self,
            name,
            target=target,
            event_source_arn=arn,
            batch_size=batch_size,
            report_batch_item_failures=True,
            max_concurrency=self._config.concurrency,
        )

    def _tell_ends_of_python_jobs(self) -> None:
        """Let Lambda tell of each invocation of `task`, which it never repeats by itself."""
        target = lambda_.CfnEventInvokeConfig.OnSuccessProperty(
            destination=self._queues.queues["jobstates"].queue_arn
        )
        lambda_.CfnEventInvokeConfig(
            self,
            "TaskInvocations",
            function_name=self.functions["task"].function_name,
            qualifier="$LATEST",
            maximum_event_age_in_seconds=int(MAX_EVENT_AGE.total_seconds()),
            maximum_retry_attempts=0,
            destination_config=lambda_.CfnEventInvokeConfig.DestinationConfigProperty(
                on_success=target,
                on_failure=lambda_.CfnEventInvokeConfig.OnFailureProperty(
                    destination=target.destination
                ),
            ),
        )

    def _route_job_states(self) -> None:
        sources = ["aws.emr-serverless", *([LOCAL_EMR_SOURCE] if self._config.is_local else [])]
        ours = {"applicationId": [self._arns.application_id]}
        states = {
            "source": sources,
            "detail-type": ["EMR Serverless Job Run State Change"],
            "detail": {**ours, "state": list(_JOB_STATES)},
        }
        self._route("jobstates", "JobStates", "What becomes of jobs", states)
        bills = {
            "source": sources,
            "detail-type": ["EMR Serverless Job Resource Utilization Update"],
            "detail": {**ours, "resourceUtilizationFinal": [True]},
        }
        self._route("jobstates", "JobBills", "Bills of jobs, which come after their end", bills)

    def _route_executions(self) -> None:
        if machines := self._arns.state_machines:
            states = {
                "source": ["aws.states"],
                "detail-type": [EXECUTION_EVENT],
                "detail": {"stateMachineArn": machines},
            }
            self._route("jobstates", "Executions", "What becomes of executions", states)

    def _route_watched_sources(self) -> None:
        config = self._config
        if config.watch_buckets:
            created = {
                "source": ["aws.s3"],
                "detail-type": ["Object Created"],
                "detail": {"bucket": {"name": list(config.watch_buckets)}},
            }
            self._route("sources", "WatchedBuckets", "Objects that watchers wait for", created)
        if config.watch_event_sources:
            events_of = {"source": list(config.watch_event_sources)}
            self._route("sources", "WatchedEvents", "Events that watchers wait for", events_of)

    def _route(self, queue: str, name: str, description: str, pattern: object) -> None:
        rule_name = f"{self._config.stack_name}-{name.lower()}"
        self.rules[name] = events.CfnRule(
            self,
            name,
            name=rule_name,
            description=description,
            event_pattern=pattern,
            targets=[
                events.CfnRule.TargetProperty(
                    id=queue,
                    arn=self._queues.queues[queue].queue_arn,
                    # What could not be delivered for a day lies where the dead letters are.
                    dead_letter_config=events.CfnRule.DeadLetterConfigProperty(
                        arn=self._queues.dlqs[queue].queue_arn
                    ),
                )
            ],
        )
        stack = cdk.Stack.of(self)
        # By name: a reference would make the queue wait for the rule, and the rule for the queue.
        arn = stack.format_arn(service="events", resource="rule", resource_name=rule_name)
        self._queues.allow_rule(queue, arn)


def _architecture(config: Config) -> lambda_.Architecture:
    return lambda_.Architecture.X86_64 if config.is_local else lambda_.Architecture.ARM_64
