"""Tables, queues and the bucket of a deployment, made on whatever answers the AWS calls."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.core.models import DEFAULT_ACCOUNT_ID

from lamplighter import aws
from lamplighter.executors.step_functions import EVERY
from lamplighter.registry.watchers import EVERYTHING
from lamplighter.settings import Settings
from lamplighter.store.tables import table_definitions
from lamplighter.topology import MAX_RECEIVES, QUEUES, RETENTION_DAYS, Queue
from lamplighter_local.emr.job import REGION
from lamplighter_local.emulator import moto_memory

APPLICATION = "00local"
_EVERYTHING = (EVERYTHING,)
STATE_MACHINES = f"arn:aws:states:{REGION}:{DEFAULT_ACCOUNT_ID}:stateMachine:"
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


def create_all(name: str, client: Callable[[str], Any] = boto3.client) -> Settings:
    """Create everything a deployment has, and return the settings that name it."""
    prefix = f"{name}-"
    create_tables(client("dynamodb"), prefix)
    # One for all: to make a client takes longer than all its calls here.
    sqs = client("sqs")
    urls = {
        name: url
        for queue in QUEUES.values()
        for name, url in _create_queue(sqs, prefix, queue).items()
    }
    bucket = f"{prefix}bucket"
    _create_bucket(client("s3"), bucket, _arn(sqs, urls["registers"]))
    return Settings(
        table_prefix=prefix,
        bucket=bucket,
        queue_urls=urls,
        watch_queues=_EVERYTHING,
        watch_buckets=_EVERYTHING,
        watch_event_sources=_EVERYTHING,
        sandbox_function=f"{prefix}sandbox",
        task_function=f"{prefix}task",
        emr_application_id=APPLICATION,
        emr_job_role_arn=f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/{prefix}jobs",
        job_logs_uri=f"s3://{bucket}/logs",
        job_starts_per_second=0,
        state_machines=(EVERY,),
        state_machine_prefix=STATE_MACHINES,
    )


@contextmanager
def created(name: str) -> Iterator[Settings]:
    """Create everything a deployment has in moto; it is gone when the block ends."""
    made = create_all(name, aws.client)  # the deployment goes on with the same clients
    try:
        yield made
    finally:
        moto_memory.remove(
            tables=[table.name for table in table_definitions(made.table_prefix)],
            queues=made.queue_urls.values(),
            bucket=made.bucket,
            log_group=f"/aws/lambda/{made.task_function}",
        )


def create_watched_queue(name: str) -> str:
    """Create a queue that is not the deployment's own, and return its URL."""
    return _create_queue(boto3.client("sqs"), "", Queue(name=name, consumer="watch"))[name]


def _create_queue(sqs: Any, prefix: str, queue: Queue) -> dict[str, str]:
    """Create a queue and its dead-letter queue; return their URLs by name."""
    fifo = {"FifoQueue": "true"} if queue.is_fifo else {}
    kept = {"MessageRetentionPeriod": str(RETENTION_SECONDS)}
    made = sqs.create_queue(QueueName=f"{prefix}{queue.dlq}", Attributes=fifo | kept)
    dlq_url = made["QueueUrl"]
    redrive = {"deadLetterTargetArn": _arn(sqs, dlq_url), "maxReceiveCount": MAX_RECEIVES}
    attributes = {
        "RedrivePolicy": json.dumps(redrive),
        "VisibilityTimeout": str(VISIBILITY_SECONDS),
    }
    made = sqs.create_queue(QueueName=f"{prefix}{queue.name}", Attributes=fifo | kept | attributes)
    return {queue.name: made["QueueUrl"], queue.dlq: dlq_url}


def _arn(sqs: Any, url: str) -> str:
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    arn: str = answer["Attributes"]["QueueArn"]
    return arn


def _create_bucket(s3: Any, name: str, registers_arn: str) -> None:
    s3.create_bucket(Bucket=name)
    notification = {
        "QueueArn": registers_arn,
        "Events": ["s3:ObjectCreated:*"],
        "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": "pushes/"}]}},
    }
    s3.put_bucket_notification_configuration(
        Bucket=name, NotificationConfiguration={"QueueConfigurations": [notification]}
    )
