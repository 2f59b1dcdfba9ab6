"""What a deployment remembers: the tables of the models, the bucket, and the key to both.

Owns: everything that must outlive a stack, and who else may use the key.
"""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from lamplighter.store.tables import TableDefinition, table_definitions
from lamplighter_infra.config import Config
from lamplighter_infra.queues import Queues, owner, sending_service

_USE_KEY = ("kms:Decrypt", "kms:GenerateDataKey")
# What a log group needs beside that.
_LOG_WITH_KEY = (
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)
# Announcements may be delivered again for 14 days, answers of the sandbox are read at once.
_KEEP_PUSHES_DAYS = 30
_KEEP_RESULTS_DAYS = 7
# A context is read by a job, and its report once; a run may wait for long before that.
_MORE_DAYS_FOR_JOBS = 30
_KEEP_ACCESS_DAYS = 90


def make_key(scope: Construct, config: Config, given: kms.IKey | None = None) -> kms.IKey:
    """Return the key of all that is stored: an existing one, or one of the stack's own.

    The policy of one that is `given` by the app that makes it is completed, too.
    """
    if given is None and config.kms_key_arn:
        return kms.Key.from_key_arn(scope, "Key", config.kms_key_arn)
    key = given or kms.Key(
        scope,
        "Key",
        alias=f"alias/{config.stack_name}",
        description=f"Everything that {config.stack_name} stores",
        enable_key_rotation=True,
        removal_policy=_removal(config),
    )
    _admit(key, config, cdk.Stack.of(scope))
    return key


def _admit(key: kms.IKey, config: Config, stack: cdk.Stack) -> None:
    """Let services and senders use the key, each for what they do for this deployment."""
    # These put messages into our queues, whose policies name rules, buckets and accounts. Not all
    # that they do with a key says for whom it is done, but SQS always says for which queue.
    queues = stack.format_arn(service="sqs", resource=f"{config.stack_name}-*")
    to_our_queues = {"ArnLike": {"kms:EncryptionContext:aws:sqs:arn": queues}}
    for service in ("events", "s3"):
        who = iam.ServicePrincipal(f"{service}.amazonaws.com")
        key.add_to_resource_policy(_statement(who, to_our_queues))
    this_account = {"StringEquals": {"aws:SourceAccount": stack.account}}
    alarms = iam.ServicePrincipal("cloudwatch.amazonaws.com")
    key.add_to_resource_policy(_statement(alarms, this_account))
    logs = [
        stack.format_arn(
            service="logs",
            resource="log-group",
            resource_name=name,
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        for name in (f"/aws/lambda/{config.stack_name}-*", config.job_log_group)
        if name
    ]
    key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal(f"logs.{stack.region}.amazonaws.com")],
            actions=[*_USE_KEY, *_LOG_WITH_KEY],
            resources=["*"],  # of a key's own policy: this key
            conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": logs}},
        )
    )
    _allow_senders(key, config, stack)


def _statement(
    principal: iam.IPrincipal, conditions: dict[str, dict[str, str]] | None = None
) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        principals=[principal],
        actions=list(_USE_KEY),
        resources=["*"],  # of a key's own policy: this key
        conditions=conditions,
    )


def _allow_senders(key: kms.IKey, config: Config, stack: cdk.Stack) -> None:
    """Let those who may send events encrypt them, through SQS only."""
    via = {"StringEquals": {"kms:ViaService": f"sqs.{stack.region}.amazonaws.com"}}
    for arn in config.event_senders:
        service = sending_service(arn)
        if service is None:
            key.add_to_resource_policy(_statement(iam.ArnPrincipal(arn), via))
        elif service == "sns":
            account = {"aws:SourceAccount": owner(arn, stack)}
            source = {"ArnEquals": {"aws:SourceArn": arn}, "StringEquals": account}
            key.add_to_resource_policy(
                _statement(iam.ServicePrincipal("sns.amazonaws.com"), source)
            )


def _removal(config: Config) -> cdk.RemovalPolicy:
    # What a failed first deployment leaves behind would be in the way of the second.
    kept = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    return kept if config.keep_data else cdk.RemovalPolicy.DESTROY


class Storage(Construct):
    """Tables and buckets."""

    def __init__(
        self, scope: Construct, name: str, *, config: Config, key: kms.IKey, queues: Queues
    ) -> None:
        super().__init__(scope, name)
        self._config = config
        self._key = key
        self.prefix = f"{config.stack_name}-"
        self.tables = {
            table.name.removeprefix(self.prefix): self._table(table)
            for table in table_definitions(self.prefix)
        }
        # S3 goes on writing for hours: where the data go with the stack, it could not be deleted.
        self.access_logs = self._access_logs() if config.keep_data else None
        self.bucket = self._bucket(queues)

    def _table(self, table: TableDefinition) -> dynamodb.CfnTable:
        create = table.create
        made = dynamodb.CfnTable(
            self,
            table.name.removeprefix(self.prefix),
            table_name=table.name,
            key_schema=[_key(each) for each in create["KeySchema"]],
            attribute_definitions=[
                dynamodb.CfnTable.AttributeDefinitionProperty(
                    attribute_name=each["AttributeName"], attribute_type=each["AttributeType"]
                )
                for each in create["AttributeDefinitions"]
            ],
            global_secondary_indexes=[
                dynamodb.CfnTable.GlobalSecondaryIndexProperty(
                    index_name=index["IndexName"],
                    key_schema=[_key(each) for each in index["KeySchema"]],
                    projection=dynamodb.CfnTable.ProjectionProperty(
                        projection_type=index["Projection"]["ProjectionType"],
                        non_key_attributes=index["Projection"].get("NonKeyAttributes"),
                    ),
                )
                for index in create.get("GlobalSecondaryIndexes", ())
            ]
            or None,
            billing_mode=create["BillingMode"],
            # Where data may go with the stack, the stack must be able to delete them.
            deletion_protection_enabled=self._config.keep_data,
            point_in_time_recovery_specification=(
                dynamodb.CfnTable.PointInTimeRecoverySpecificationProperty(
                    point_in_time_recovery_enabled=table.has_point_in_time_recovery
                )
            ),
            sse_specification=dynamodb.CfnTable.SSESpecificationProperty(
                sse_enabled=True, sse_type="KMS", kms_master_key_id=self._key.key_arn
            ),
            time_to_live_specification=dynamodb.CfnTable.TimeToLiveSpecificationProperty(
                attribute_name=table.ttl_attribute, enabled=True
            )
            if table.ttl_attribute
            else None,
        )
        made.apply_removal_policy(_removal(self._config))
        return made

    def _access_logs(self) -> s3.Bucket:
        return s3.Bucket(
            self,
            "AccessLogs",
            # S3 itself writes here, and takes no key of ours for it.
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            lifecycle_rules=[s3.LifecycleRule(expiration=cdk.Duration.days(_KEEP_ACCESS_DAYS))],
            removal_policy=_removal(self._config),
        )

    def _bucket(self, queues: Queues) -> s3.Bucket:
        stack = cdk.Stack.of(self)
        # Named, so that queues can admit it before it is made.
        name = f"{self._config.stack_name}-{stack.account}-{stack.region}"
        bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=name,
            encryption=s3.BucketEncryption.KMS,
            encryption_key=self._key,
            bucket_key_enabled=True,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            # What may go with the stack must be easy to empty.
            versioned=self._config.keep_data,
            server_access_logs_bucket=self.access_logs,
            server_access_logs_prefix="bucket/" if self.access_logs else None,
            lifecycle_rules=_lifecycle(self._config),
            removal_policy=_removal(self._config),
        )
        policy = queues.allow_bucket("registers", f"arn:{stack.partition}:s3:::{name}")
        # Not by `add_event_notification`, which brings a function with permissions on every bucket.
        made = bucket.node.default_child
        assert isinstance(made, s3.CfnBucket)
        made.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            queue_configurations=[
                s3.CfnBucket.QueueConfigurationProperty(
                    event="s3:ObjectCreated:*",
                    queue=queues.queues["registers"].queue_arn,
                    filter=_below("pushes/"),
                )
            ]
        )
        # S3 tries the queue when it is told of it.
        made.node.add_dependency(policy)
        return bucket


def _key(each: dict[str, str]) -> dynamodb.CfnTable.KeySchemaProperty:
    return dynamodb.CfnTable.KeySchemaProperty(
        attribute_name=each["AttributeName"], key_type=each["KeyType"]
    )


def _below(prefix: str) -> s3.CfnBucket.NotificationFilterProperty:
    rule = s3.CfnBucket.FilterRuleProperty(name="prefix", value=prefix)
    return s3.CfnBucket.NotificationFilterProperty(
        s3_key=s3.CfnBucket.S3KeyFilterProperty(rules=[rule])
    )


def _lifecycle(config: Config) -> Sequence[s3.LifecycleRule]:
    runs_days = config.settings.run_retention_days
    days = {
        "pushes/": _KEEP_PUSHES_DAYS,
        "results/": _KEEP_RESULTS_DAYS,
        "jobs/": runs_days + _MORE_DAYS_FOR_JOBS,
        "logs/": runs_days,
    }
    return [
        *(
            s3.LifecycleRule(prefix=prefix, expiration=cdk.Duration.days(count))
            for prefix, count in days.items()
        ),
        s3.LifecycleRule(
            noncurrent_version_expiration=cdk.Duration.days(_KEEP_PUSHES_DAYS),
            abort_incomplete_multipart_upload_after=cdk.Duration.days(1),
            expired_object_delete_marker=True,
        ),
    ]
