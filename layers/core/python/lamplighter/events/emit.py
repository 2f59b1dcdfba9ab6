"""Sends asset events from Python, validated before they are queued."""

import datetime
import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from lamplighter import aws, settings
from lamplighter.errors import RejectedError
from lamplighter.events.message import RESERVED, claims_outlet, event_body, read_events

# What SQS allows as message group and deduplication id.
_TOKEN = re.compile(r"[!-~]{1,128}")


def emit(
    asset: str | None = None,
    *,
    uri: str | None = None,
    extra: Mapping[str, Any] | None = None,
    event_id: str | None = None,
    timestamp: datetime.datetime | str | None = None,
    partition_key: str | None = None,
    source: Mapping[str, Any] | str | None = None,
    aliases: Iterable[str] = (),
    lane: str | None = None,
) -> str:
    """Send one event and return its id; events of one lane are recorded in order."""
    # Part of the body, so that sending again after a lost response makes no second event.
    event_id = uuid.uuid4().hex if event_id is None else event_id
    body = event_body(
        asset,
        uri=uri,
        extra=extra,
        event_id=event_id,
        timestamp=timestamp,
        partition_key=partition_key,
        source=source,
        aliases=aliases,
    )
    if any(map(claims_outlet, read_events(body, first_id=event_id))):
        raise RejectedError(RESERVED)
    # With the asset, because an event id is unique only within its asset.
    address = _address(f"{asset or uri}#{event_id}", lane)
    aws.client("sqs").send_message(MessageBody=body, **address)
    return event_id


def _address(name: str, lane: str | None) -> dict[str, str]:
    deployment = settings.current()
    if lane is None:
        return {"QueueUrl": deployment.queue_url("events")}
    if not lane:
        raise RejectedError("lane must not be empty: give a name, or leave it out")
    return {
        "QueueUrl": deployment.queue_url("events.fifo"),
        "MessageGroupId": _token(lane),
        "MessageDeduplicationId": _token(name),
    }


def _token(name: str) -> str:
    return name if _TOKEN.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()
