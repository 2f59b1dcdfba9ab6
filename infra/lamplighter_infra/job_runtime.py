"""The files that every job takes along, copied into the bucket of the deployment.

Owns: what the function that copies them may do.
"""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as s3_assets
from aws_cdk import aws_s3_deployment as deployment
from constructs import Construct

from lamplighter_infra import layers
from lamplighter_infra.permissions import Arns


def ship_runtime(
    scope: Construct, *, arns: Arns, bucket: s3.IBucket, prefix: str
) -> deployment.BucketDeployment:
    """Copy the files below `prefix`; return what functions that start jobs must wait for."""
    log_group = logs.LogGroup(
        scope,
        "RuntimeLog",
        log_group_name=f"/aws/lambda/{arns.prefix}runtime",
        retention=logs.RetentionDays.ONE_WEEK,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    files = s3_assets.Asset(scope, "RuntimeFiles", path=str(layers.runtime_files()))
    # The CDK would give its function all permissions on the whole bucket.
    role = iam.Role(
        scope,
        "RuntimeRole",
        description="Copies the files that jobs take along into the bucket",
        assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        inline_policies={
            "permissions": iam.PolicyDocument(statements=_statements(arns, files.bucket))
        },
    )
    return deployment.BucketDeployment(
        scope,
        "JobRuntime",
        sources=[deployment.Source.bucket(files.bucket, files.s3_object_key)],
        destination_bucket=bucket,
        destination_key_prefix=prefix,
        # What jobs of yesterday use stays where it is.
        prune=False,
        retain_on_delete=True,
        role=role.without_policy_updates(),
        log_group=log_group,
    )


def _statements(arns: Arns, assets: s3.IBucket) -> list[iam.PolicyStatement]:
    via = {"kms:ViaService": f"s3.{arns.stack.region}.amazonaws.com"}
    return [
        iam.PolicyStatement(actions=["s3:GetObject"], resources=[assets.arn_for_objects("*")]),
        iam.PolicyStatement(actions=["s3:PutObject"], resources=[arns.objects("runtime/*")]),
        iam.PolicyStatement(
            actions=["logs:CreateLogStream", "logs:PutLogEvents"],
            resources=[arns.log_streams("runtime")],
        ),
        iam.PolicyStatement(
            actions=["s3:ListBucket"], resources=[assets.bucket_arn, arns.bucket_arn]
        ),
        iam.PolicyStatement(
            actions=["kms:Decrypt", "kms:GenerateDataKey"],
            resources=[arns.key_arn],
            conditions={"StringEquals": via},
        ),
    ]
