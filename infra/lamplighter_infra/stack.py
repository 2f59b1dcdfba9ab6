"""One stack is one deployment. It composes; constructs build.

Owns: the settings of the deployment, which functions find in their environment and the command line
in the outputs.
"""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_deployment as deployment
from constructs import Construct

from lamplighter.settings import Settings
from lamplighter_infra import layers
from lamplighter_infra.alarms import Alarms
from lamplighter_infra.compute import Compute
from lamplighter_infra.config import Config
from lamplighter_infra.dashboard import Dashboard
from lamplighter_infra.managed_policies import ManagedPolicies
from lamplighter_infra.permissions import Arns
from lamplighter_infra.python_tasks import PythonTasks
from lamplighter_infra.queues import Queues
from lamplighter_infra.spark import Spark
from lamplighter_infra.storage import Storage, make_key


class LamplighterStack(cdk.Stack):
    """Everything that a deployment is made of."""

    def __init__(
        self, scope: Construct, config: Config, *, env: cdk.Environment, has_layers: bool = True
    ) -> None:
        """Compose the stack; without layers it can be looked at, but not deployed."""
        super().__init__(
            scope,
            config.stack_name,
            stack_name=config.stack_name,
            description=f"Lamplighter, stage {config.stage}: run scheduling without servers",
            env=env,
            termination_protection=config.keep_data and not config.is_local,
        )
        cdk.Tags.of(self).add("lamplighter:stack", config.stack_name)
        key = make_key(self, config)
        self.queues = Queues(self, "Queues", config=config, key=key)
        self.storage = Storage(self, "Storage", config=config, key=key, queues=self.queues)
        self.spark = Spark(self, "Spark", config=config, key=key, bucket=self.storage.bucket)
        self.arns = Arns(
            self,
            config,
            # As text: references to parts would tie everything to everything.
            bucket_arn=f"arn:{self.partition}:s3:::{config.stack_name}-{self.account}-{self.region}",
            key_arn=key.key_arn,
            application_id=self.spark.application_id,
            job_role_arns=[self.spark.role.role_arn, *config.bundle_role_arns],
        )
        self.settings = self._settings(config)
        self.compute = Compute(
            self,
            "Compute",
            config=config,
            settings=self.settings,
            arns=self.arns,
            key=key,
            queues=self.queues,
            has_layers=has_layers,
        )
        PythonTasks(
            self,
            "PythonTasks",
            config=config,
            arns=self.arns,
            function_role=self.compute.roles["task"],
        )
        ManagedPolicies(self, "ManagedPolicies", arns=self.arns)
        Alarms(self, "Alarms", config=config, key=key, queues=self.queues, compute=self.compute)
        Dashboard(
            self,
            "Dashboard",
            config=config,
            arns=self.arns,
            queues=self.queues,
            spark=self.spark,
            compute=self.compute,
        )
        if not config.is_local:
            self._ship_runtime()
        for name, value in self.settings.as_outputs().items():
            cdk.CfnOutput(self, name, value=value)

    def _settings(self, config: Config) -> Settings:
        bucket = self.storage.bucket.bucket_name
        return Settings(
            table_prefix=self.storage.prefix,
            bucket=bucket,
            queue_urls=self.queues.urls(),
            sandbox_function=f"{config.stack_name}-sandbox",
            task_function=f"{config.stack_name}-task",
            task_job_role_arn=self.arns.task_job_role,
            emr_application_id=self.spark.application_id,
            emr_job_role_arn=self.spark.role.role_arn,
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
            state_machine_prefix=self.arns.state_machine_prefix,
            **vars(config.settings),
        )

    def _ship_runtime(self) -> None:
        asset_bucket = cdk.DefaultStackSynthesizer.DEFAULT_FILE_ASSETS_BUCKET_NAME
        assets = cdk.Fn.sub(
            f"arn:${{AWS::Partition}}:s3:::{asset_bucket}".replace(
                "${Qualifier}", cdk.DefaultStackSynthesizer.DEFAULT_QUALIFIER
            )
        )
        statements = [
            iam.PolicyStatement(actions=["s3:GetObject"], resources=[f"{assets}/*"]),
            iam.PolicyStatement(
                actions=["s3:PutObject"], resources=[self.arns.objects("runtime/*")]
            ),
            iam.PolicyStatement(
                actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                resources=[self.arns.log_streams("runtime")],
            ),
            iam.PolicyStatement(
                actions=["s3:ListBucket"], resources=[assets, self.arns.bucket_arn]
            ),
            iam.PolicyStatement(
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=[self.arns.key_arn],
                conditions={"StringEquals": {"kms:ViaService": f"s3.{self.region}.amazonaws.com"}},
            ),
        ]
        log_group = logs.LogGroup(
            self,
            "RuntimeLog",
            log_group_name=f"/aws/lambda/{self.arns.prefix}runtime",
            retention=logs.RetentionDays.ONE_WEEK,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        # The CDK would give its function all permissions on the whole bucket.
        role = iam.Role(
            self,
            "RuntimeRole",
            description="Copies the files that jobs take along into the bucket",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            inline_policies={"permissions": iam.PolicyDocument(statements=statements)},
        )
        shipped = deployment.BucketDeployment(
            self,
            "JobRuntime",
            sources=[deployment.Source.asset(str(layers.runtime_files()))],
            destination_bucket=self.storage.bucket,
            destination_key_prefix=self.settings.runtime,
            # What jobs of yesterday use stays where it is.
            prune=False,
            retain_on_delete=True,
            role=role.without_policy_updates(),
            log_group=log_group,
        )
        # Jobs that it starts look for the files there.
        self.compute.functions["submit"].node.add_dependency(shipped)
