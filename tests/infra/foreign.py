"""The app of someone else: a network, a bucket, a topic and roles of its own, and a deployment."""

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk_nag
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs

from lamplighter_infra import Lamplighter
from tests.infra.synthesis import ACCOUNT, REGION, Synthesis, findings_in

STACK = "Lakehouse"
GRANTS = Path(__file__).with_name("grants.txt")
# As `cdk init` sets them in new apps, as far as they could touch what we make.
_FLAGS = (
    "@aws-cdk/aws-iam:minimizePolicies",
    "@aws-cdk/aws-kms:aliasNameRef",
    "@aws-cdk/aws-kms:reduceCrossAccountRegionPolicyScope",
    "@aws-cdk/aws-lambda:recognizeLayerVersion",
    "@aws-cdk/aws-lambda:recognizeVersionProps",
    "@aws-cdk/aws-s3:createDefaultLoggingPolicy",
    "@aws-cdk/aws-s3:keepNotificationInImportedBucket",
    "@aws-cdk/aws-sns-subscriptions:restrictSqsDescryption",
    "@aws-cdk/core:checkSecretUsage",
    "@aws-cdk/core:enablePartitionLiterals",
    "@aws-cdk/customresources:installLatestAwsSdkDefault",
)


def new_app(folder: Path) -> tuple[cdk.App, cdk.Stack]:
    """Return an app, as `cdk init` makes them, and a stack in it."""
    app = cdk.App(context=dict.fromkeys(_FLAGS, True), outdir=str(folder))
    env = cdk.Environment(account=ACCOUNT, region=REGION)
    return app, cdk.Stack(app, STACK, env=env)


class Lakehouse:
    """The stack of someone else, and what the deployment in it is given."""

    def __init__(self, folder: Path, **props: Any) -> None:
        self._folder = folder
        self.app, self.stack = new_app(folder)
        stack = self.stack
        self.vpc = ec2.Vpc(stack, "Vpc", max_azs=2, nat_gateways=1)
        self.lake = s3.Bucket(stack, "Lake", encryption=s3.BucketEncryption.KMS)
        self.topic = sns.Topic(stack, "People")
        self.prices = sns.Topic(stack, "Prices")
        self.key = kms.Key(stack, "Key")
        self.raw = sqs.Queue(stack, "Raw")
        self.password = secretsmanager.Secret(stack, "Password")
        self.role = self._role("Producer")
        self.lamp = Lamplighter(
            stack,
            "Lamp",
            stage="prod",
            vpc=self.vpc,
            data_buckets=[self.lake],
            event_senders=[self.role, self.prices, self.lake],
            notify=self.topic,
            key=self.key,
            watch_queues=[self.raw],
            secrets=[self.password],
            settings={"watch_session_seconds": 45, "bundle_roles": {"sales": self._role("Sales")}},
            has_layers=False,
            **props,
        )
        self.reader, self.operator = self._role("Reader"), self._role("Operator")
        self.ci = self._role("Ci")
        self.lamp.grant_send_events(self.role)
        self.lamp.grant_read(self.reader)
        self.lamp.grant_operate(self.operator)
        self.lamp.grant_push(self.ci)

    def _role(self, name: str) -> iam.Role:
        return iam.Role(
            self.stack, name, assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com")
        )

    def synthesize(self) -> Synthesis:
        """Return what CloudFormation would get, looked through by cdk-nag."""
        cdk.Validations.of(self.app).add_plugins(cdk_nag.AwsSolutionsChecks(self.app))
        try:
            self.app.synth()
        except RuntimeError:
            if not (self._folder / "validation-report.json").is_file():
                raise
        path = self._folder / f"{STACK}.template.json"
        template = json.loads(path.read_text())
        return Synthesis(self.lamp.config, template, path, list(findings_in(self._folder)))
