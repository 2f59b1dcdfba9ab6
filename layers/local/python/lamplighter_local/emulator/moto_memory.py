"""What moto holds in memory: tables, queues and buckets, looked at without a request.

For whoever drives the clock and must know what comes next, at every instant of a month.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import Item
from moto.logs.models import logs_backends
from moto.s3.models import s3_backends
from moto.sqs.models import sqs_backends
from pendulum import DateTime

REGION = "us-east-1"


def tables() -> list[Any]:
    """Return the tables."""
    return list(dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].tables.values())


def items_of(table: str) -> Iterator[Item]:
    """Yield the items of a table, in no order."""
    for partition in dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].tables[table].items.values():
        # A partition of a table with a range key is a dictionary, otherwise the item itself.
        yield from [partition] if isinstance(partition, Item) else partition.values()


def texts_of(table: str, column: str, *, listed_by: str) -> list[str]:
    """Return a column of those items that are in a sparse index, whose first key is `listed_by`."""
    return [item.attrs[column].value for item in items_of(table) if listed_by in item.attrs]


def queues() -> list[Any]:
    """Return the queues."""
    return list(sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues.values())


def queue_at(url: str) -> Any:
    """Return the queue that has a URL."""
    return sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues[url.rpartition("/")[2]]


def remove(*, tables: Iterable[str], queues: Iterable[str], bucket: str, log_group: str) -> None:
    """Forget tables, queues (by their URLs), a bucket and a log group, with all that is in them."""
    _logs().groups.pop(log_group, None)
    for table in tables:
        dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].tables.pop(table, None)
    for url in queues:
        sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues.pop(url.rpartition("/")[2], None)
    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    if bucket in backend.buckets:
        backend.buckets[bucket].keys.clear()  # only an empty one is deleted
        backend.delete_bucket(bucket)


def put_log_lines(log_group: str, stream: str, lines: Iterable[str], at: DateTime) -> None:
    """Write a log of its own, at an instant of any clock: moto takes none of other years."""
    logs = _logs()
    if log_group not in logs.groups:
        logs.create_log_group(log_group, {})
    logs.create_log_stream(log_group, stream)
    milliseconds = int(at.timestamp() * 1000)
    events = [{"timestamp": milliseconds, "message": line} for line in lines]
    logs.groups[log_group].put_log_events(stream, events)


def _logs() -> Any:
    return logs_backends[DEFAULT_ACCOUNT_ID][REGION]


def buckets() -> list[Any]:
    """Return the buckets."""
    return list(s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets.values())
