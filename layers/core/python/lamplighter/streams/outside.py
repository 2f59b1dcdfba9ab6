"""What watchers may have done outside of their process; whoever runs them says how.

The function does it with its own rights. A process of author code has none, and asks the function.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pendulum

from lamplighter import aws
from lamplighter.events import dead_letters
from lamplighter.events.dead_letters import SOURCES_DLQ, FailedMessage
from lamplighter.streams.outbox import Send, send_to_sqs
from lamplighter.triggers.sources import SourceItem

# The maximum that fits into a row.
MAX_ITEMS = 40_000


def send_to_dlq(failed: Sequence[FailedMessage]) -> list[FailedMessage]:
    """Send messages to the dead-letter queue of watchers; return those that could not be sent."""
    return dead_letters.send_to_dlq(failed, SOURCES_DLQ)


def list_objects(bucket: str, prefix: str) -> list[SourceItem]:
    """Return the objects with a prefix, up to one more than allowed."""
    items: list[SourceItem] = []
    pages = aws.client("s3").get_paginator("list_objects_v2")
    for page in pages.paginate(Bucket=bucket, Prefix=prefix):
        for content in page.get("Contents", []):
            items.append(_object_item(bucket, content))
            if len(items) > MAX_ITEMS:
                return items
    return items


def _object_item(bucket: str, content: Any) -> SourceItem:
    key, etag = content["Key"], content["ETag"].strip('"')
    uri = f"s3://{bucket}/{key}"
    modified_at = pendulum.instance(content["LastModified"])
    payload = {"bucket": bucket, "key": key, "uri": uri, "size": content["Size"], "etag": etag}
    # Storing the same content again counts as a new version.
    return SourceItem(uri, f"{etag} {modified_at.isoformat()}", payload, modified_at)


@dataclass(frozen=True)
class Outside:
    """How to send events and dead letters, and to list a bucket."""

    send: Send = send_to_sqs
    send_to_dlq: Callable[[Sequence[FailedMessage]], list[FailedMessage]] = send_to_dlq
    list_objects: Callable[[str, str], Sequence[SourceItem]] = list_objects
