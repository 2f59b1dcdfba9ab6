"""Where jobs run: an application of EMR Serverless, and the role that they have there.

Owns: what jobs may read and write. An application costs nothing while no job runs, unless workers
are kept warm.
"""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_emrserverless as emr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from lamplighter import clock
from lamplighter.executors.emr_releases import support_problem
from lamplighter.executors.emr_workers import Sizes
from lamplighter_infra.config import Config
from lamplighter_infra.permissions import EMR_SERVICE, reading_secrets

# As the fake of the offline deployment calls itself; an emulator has no EMR Serverless.
LOCAL_APPLICATION = "00local"
_READ = ("s3:GetObject", "s3:ListBucket", "s3:GetBucketLocation")
_WRITE = ("s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
# What jobs find in the bucket of the deployment.
_FOLDERS = ("bundles/*", "runtime/*", "jobs/*")


class Spark(Construct):
    """The application and the role of its jobs."""

    def __init__(
        self, scope: Construct, name: str, *, config: Config, key: kms.IKey, bucket: s3.IBucket
    ) -> None:
        super().__init__(scope, name)
        self._config = config
        if config.job_log_group:
            self._keep_logs(key)
        self.role = self._role(key, bucket)
        # Of an application of others, nobody knows.
        self.application_name = "" if config.emr_application_id else config.stack_name
        self.application_id = config.emr_application_id or (
            LOCAL_APPLICATION if config.is_local else self._application().attr_application_id
        )

    def _application(self) -> emr.CfnApplication:
        config = self._config
        made = emr.CfnApplication(
            self,
            "Application",
            name=config.stack_name,
            type="Spark",
            release_label=config.emr_release,
            architecture=config.settings.spark_architecture.upper(),
            auto_start_configuration=emr.CfnApplication.AutoStartConfigurationProperty(
                enabled=True
            ),
            auto_stop_configuration=emr.CfnApplication.AutoStopConfigurationProperty(
                enabled=True, idle_timeout_minutes=config.spark_idle_minutes
            ),
            maximum_capacity=self._limits(),
            scheduler_configuration=emr.CfnApplication.SchedulerConfigurationProperty(
                max_concurrent_runs=config.spark_concurrent_runs,
                queue_timeout_minutes=config.spark_queue_minutes,
            ),
            initial_capacity=self._warm_workers(),
            network_configuration=self._network(),
        )
        if problem := support_problem(config.emr_release, clock.now().date()):
            cdk.Annotations.of(self).add_warning_v2("lamplighter:release", problem)
        # A job that runs has its logs and its report with us; the application can be made anew.
        made.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
        return made

    def _keep_logs(self, key: kms.IKey) -> None:
        """Make the log group of the drivers, with a retention as that of functions."""
        group = logs.LogGroup(
            self,
            "DriverLog",
            log_group_name=self._config.job_log_group,
            encryption_key=key,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        made = group.node.default_child
        assert isinstance(made, logs.CfnLogGroup)
        made.retention_in_days = self._config.log_days

    def _limits(self) -> emr.CfnApplication.MaximumAllowedResourcesProperty | None:
        chosen = self._config.settings
        if not (chosen.spark_vcpus and chosen.spark_memory_gb):
            return None
        disk = chosen.spark_disk_gb
        return emr.CfnApplication.MaximumAllowedResourcesProperty(
            cpu=f"{chosen.spark_vcpus} vCPU",
            memory=f"{chosen.spark_memory_gb} GB",
            disk=f"{disk} GB" if disk else None,
        )

    def _warm_workers(
        self,
    ) -> list[emr.CfnApplication.InitialCapacityConfigKeyValuePairProperty] | None:
        executors = self._config.spark_warm_executors
        if not executors:
            return None
        # Of the default sizes: a job can only use a warm worker that it fits into.
        sizes = Sizes.of({}, self._config.settings)
        return [
            emr.CfnApplication.InitialCapacityConfigKeyValuePairProperty(
                key=worker.kind.capitalize(),
                value=emr.CfnApplication.InitialCapacityConfigProperty(
                    worker_count=count,
                    worker_configuration=emr.CfnApplication.WorkerConfigurationProperty(
                        cpu=f"{worker.cores} vCPU",
                        memory=f"{worker.memory_gb} GB",
                        disk=f"{worker.disk_gb} GB",
                    ),
                ),
            )
            for worker, count in ((sizes.driver, 1), (sizes.executor, executors))
        ]

    def _network(self) -> emr.CfnApplication.NetworkConfigurationProperty | None:
        config = self._config
        if not config.spark_subnets:
            return None
        vpc = ec2.Vpc.from_vpc_attributes(
            self, "Network", vpc_id=config.vpc_id, availability_zones=["unknown"]
        )
        group = ec2.SecurityGroup(
            self,
            "JobNetwork",
            vpc=vpc,
            description="Jobs, which talk to each other and to services of AWS",
            allow_all_outbound=False,
        )
        group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "services of AWS")
        group.add_ingress_rule(group, ec2.Port.all_tcp(), "drivers and executors")
        group.add_egress_rule(group, ec2.Port.all_tcp(), "drivers and executors")
        return emr.CfnApplication.NetworkConfigurationProperty(
            subnet_ids=list(config.spark_subnets), security_group_ids=[group.security_group_id]
        )

    def _role(self, key: kms.IKey, bucket: s3.IBucket) -> iam.Role:
        stack = cdk.Stack.of(self)
        statements = self._for_every_job(key, bucket)
        if self._config.bundle_role_arns:
            # Roles that exist: what they may do with data is someone else's affair.
            iam.Policy(
                self,
                "BundleRolesPolicy",
                statements=statements,
                roles=[
                    iam.Role.from_role_arn(self, f"BundleRole{number}", arn)
                    for number, arn in enumerate(self._config.bundle_role_arns, start=1)
                ],
            )
        arns = [f"arn:{stack.partition}:s3:::{name}" for name in self._config.data_buckets]
        if arns:
            data = _statement([*_READ, *_WRITE], [*arns, *(f"{arn}/*" for arn in arns)])
            statements = [*statements, data]
        if self._config.data_keys:
            statements = [*statements, self._using_keys(list(self._config.data_keys))]
        statements = [*statements, *reading_secrets(stack, self._config)]
        this_account = {"StringEquals": {"aws:SourceAccount": stack.account}}
        return iam.Role(
            self,
            "JobRole",
            role_name=f"{self._config.stack_name}-jobs-{stack.region}",
            description="Jobs: their bundle and context, their report and logs, the data buckets",
            assumed_by=iam.ServicePrincipal(EMR_SERVICE, conditions=this_account),
            inline_policies={"permissions": iam.PolicyDocument(statements=statements)},
            managed_policies=[
                iam.ManagedPolicy.from_managed_policy_arn(self, f"JobPolicy{number}", arn)
                for number, arn in enumerate(self._config.job_policies, start=1)
            ],
        )

    def _for_every_job(self, key: kms.IKey, bucket: s3.IBucket) -> list[iam.PolicyStatement]:
        """Return what any job needs; its policy narrows it to what its own submission has."""
        own = _statement(
            ["s3:GetObject"],
            [
                bucket.arn_for_objects(key)
                for key in ("bundles/*", "runtime/*", "jobs/*/context.json")
            ],
        )
        reports = _statement(
            ["s3:AbortMultipartUpload", "s3:PutObject"],
            [bucket.arn_for_objects(key) for key in ("jobs/*/report.json", "logs/*")],
        )
        # Before it writes a file, Hadoop asks whether there is a folder of that name.
        below = {"StringLike": {"s3:prefix": list(_FOLDERS)}}
        listing = _statement(["s3:ListBucket"], [bucket.bucket_arn], below)
        encrypting = self._using_keys([key.key_arn])
        return [own, reports, listing, *self._writing_logs(), encrypting]

    def _using_keys(self, arns: list[str]) -> iam.PolicyStatement:
        region = cdk.Stack.of(self).region
        via = {"StringEquals": {"kms:ViaService": f"s3.{region}.amazonaws.com"}}
        return _statement(["kms:Decrypt", "kms:GenerateDataKey"], arns, via)

    def _writing_logs(self) -> list[iam.PolicyStatement]:
        """Return what jobs need to write to CloudWatch: their own role does it, not the service."""
        group = self._config.job_log_group
        if not group:
            return []
        form = cdk.ArnFormat.COLON_RESOURCE_NAME
        streams, groups = (
            cdk.Stack.of(self).format_arn(
                service="logs", resource="log-group", resource_name=name, arn_format=form
            )
            for name in (f"{group}:*", "*")
        )
        writing = ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]
        return [_statement(writing, [streams]), _statement(["logs:DescribeLogGroups"], [groups])]


def _statement(
    actions: list[str],
    resources: list[str],
    conditions: dict[str, dict[str, str]] | dict[str, dict[str, list[str]]] | None = None,
) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=actions, resources=resources, conditions=conditions)
