"""Sending asset events from Python: checked here, before they are on the queue."""

import datetime
import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from lamplighter import aws, settings
from lamplighter.errors import RejectedError
from lamplighter.events.message import read_events

# What SQS takes as the name of a group and as a deduplication id.
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
    """Send one event and return its id; events of one lane are recorded in the order sent."""
    # Part of the body, so that sending again after a lost answer makes no second event.
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
    # With the asset: an id is an event's name among those of its asset, not among all.
    address = _address(f"{asset or uri}#{event_id}", lane)
    aws.client("sqs").send_message(MessageBody=body, **address)
    return event_id


def event_body(
    asset: str | None = None,
    *,
    uri: str | None = None,
    extra: Mapping[str, Any] | None = None,
    event_id: str | None = None,
    timestamp: datetime.datetime | str | None = None,
    partition_key: str | None = None,
    source: Mapping[str, Any] | str | None = None,
    aliases: Iterable[str] = (),
) -> str:
    """Return the body of a message that will be understood; reject what would not be."""
    given = {
        "asset": asset,
        "uri": uri,
        "extra": _plain(extra),
        "event_id": event_id,
        "timestamp": timestamp.isoformat()
        if isinstance(timestamp, datetime.datetime)
        else timestamp,
        "partition_key": partition_key,
        "source": _plain(source),
        # One text is refused below; as a list it would be an alias for each of its letters.
        "aliases": (aliases if isinstance(aliases, str) else list(aliases)) or None,
    }
    try:
        body = json.dumps({name: value for name, value in given.items() if value is not None})
    except (RecursionError, TypeError, ValueError) as error:
        raise RejectedError(f"an event holds JSON values only: {error}") from error
    read_events(body, first_id="unsent")
    return body


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else value


def _address(name: str, lane: str | None) -> dict[str, str]:
    deployment = settings.current()
    if lane is None:
        return {"QueueUrl": deployment.queue_url("events")}
    if not lane:
        raise RejectedError("lane must not be empty: name one, or leave it out")
    return {
        "QueueUrl": deployment.queue_url("events.fifo"),
        "MessageGroupId": _token(lane),
        "MessageDeduplicationId": _token(name),
    }


def _token(name: str) -> str:
    return name if _TOKEN.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()
