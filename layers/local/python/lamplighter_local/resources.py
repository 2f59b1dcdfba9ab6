"""Tables, queues and the bucket of a deployment, made on whatever answers the AWS calls."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import boto3
from moto.core.models import DEFAULT_ACCOUNT_ID

from lamplighter.registry.watchers import EVERYTHING
from lamplighter.settings import MAX_RECEIVES, QUEUES, RETENTION_DAYS, Settings
from lamplighter.store.tables import table_definitions

APPLICATION = "00local"
_EVERYTHING = json.dumps([EVERYTHING])
VISIBILITY_SECONDS = 180
RETENTION_SECONDS = RETENTION_DAYS * 24 * 3600


def create_tables(client: Any, prefix: str, *, leave_out: Iterable[str] = ()) -> None:
    """Create all tables; options that an emulator does not know can be left out."""
    for table in table_definitions(prefix):
        client.create_table(**{k: v for k, v in table.create.items() if k not in set(leave_out)})
        if table.ttl_attribute is not None:
            client.update_time_to_live(
                TableName=table.name,
                TimeToLiveSpecification={
                    "Enabled": True,
                    "AttributeName": table.ttl_attribute,
                },
            )


def create_all(name: str) -> Settings:
    """Create everything a deployment has, and return the settings that name it."""
    prefix = f"{name}-"
    create_tables(boto3.client("dynamodb"), prefix)
    # One for all: to make a client takes longer than all its calls here.
    sqs = boto3.client("sqs")
    urls = {queue: _create_queue(sqs, prefix, queue) for queue in QUEUES}
    bucket = f"{prefix}bucket"
    _create_bucket(bucket, _arn(sqs, urls["registers"].live))
    return Settings(
        table_prefix=prefix,
        bucket=bucket,
        claims_queue_url=urls["claims"].live,
        submits_queue_url=urls["submits"].live,
        jobstates_queue_url=urls["jobstates"].live,
        registers_queue_url=urls["registers"].live,
        claims_dead_queue_url=urls["claims"].dead,
        submits_dead_queue_url=urls["submits"].dead,
        jobstates_dead_queue_url=urls["jobstates"].dead,
        registers_dead_queue_url=urls["registers"].dead,
        events_queue_url=urls["events"].live,
        events_fifo_queue_url=urls["events.fifo"].live,
        events_dead_queue_url=urls["events"].dead,
        events_dead_fifo_queue_url=urls["events.fifo"].dead,
        sources_queue_url=urls["sources"].live,
        watch_dead_queue_url=urls["sources"].dead,
        watch_queues=_EVERYTHING,
        watch_buckets=_EVERYTHING,
        watch_event_sources=_EVERYTHING,
        sandbox_function=f"{prefix}sandbox",
        emr_application_id=APPLICATION,
        emr_job_role_arn=f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/{prefix}jobs",
        job_logs_uri=f"s3://{bucket}/logs",
    )


def create_watched_queue(name: str) -> str:
    """Create a queue that is not the deployment's own, and return its URL."""
    return _create_queue(boto3.client("sqs"), "", name).live


class _Queue(NamedTuple):
    """The URLs of a queue, and of the one for messages that were delivered too often."""

    live: str
    dead: str


def _create_queue(sqs: Any, prefix: str, name: str) -> _Queue:
    stem, dot, kind = name.partition(".")
    # The dead letters of a FIFO queue must be in one too.
    fifo = {"FifoQueue": "true"} if kind == "fifo" else {}
    kept = {"MessageRetentionPeriod": str(RETENTION_SECONDS)}
    dead_name = f"{prefix}{stem}-dead{dot}{kind}"
    dead = sqs.create_queue(QueueName=dead_name, Attributes=fifo | kept)["QueueUrl"]
    policy = json.dumps({"deadLetterTargetArn": _arn(sqs, dead), "maxReceiveCount": MAX_RECEIVES})
    attributes = {"RedrivePolicy": policy, "VisibilityTimeout": str(VISIBILITY_SECONDS)}
    live = sqs.create_queue(QueueName=f"{prefix}{name}", Attributes=fifo | kept | attributes)
    return _Queue(live["QueueUrl"], dead)


def _arn(sqs: Any, url: str) -> str:
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    arn: str = answer["Attributes"]["QueueArn"]
    return arn


def _create_bucket(name: str, registers_arn: str) -> None:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket=name)
    notification = {
        "QueueArn": registers_arn,
        "Events": ["s3:ObjectCreated:*"],
        "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": "pushes/"}]}},
    }
    s3.put_bucket_notification_configuration(
        Bucket=name, NotificationConfiguration={"QueueConfigurations": [notification]}
    )
