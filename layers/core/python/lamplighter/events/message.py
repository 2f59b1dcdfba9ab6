"""The messages on `events`: plain ones, read and written, and envelopes of S3, EventBridge, SNS.

Envelopes may have more fields than are named here, as AWS adds some over time. Refuses: looking
anything up; whether the asset exists is not known here.
"""

import datetime
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote_plus

from pendulum import DateTime

from lamplighter.errors import RejectedError
from lamplighter.events import fields
from lamplighter.identifiers import OUTLET

# A DynamoDB key is limited to 1,024 bytes; under an alias it includes the asset's id.
MAX_EVENT_ID = 200
MAX_KEY = 1_024
# Of a plain message; one without a number is of the first.
VERSION = 1
_CREATED = "ObjectCreated:"


@dataclass(frozen=True)
class AssetEvent:
    """One event as its producer sent it. Exactly one of asset, uri and object_uri is set."""

    event_id: str
    asset: str | None = None
    uri: str | None = None  # normalized
    object_uri: str | None = None  # of an object below an asset's URI
    aliases: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    timestamp: DateTime | None = None
    partition_key: str | None = None
    source: dict[str, Any] | str | None = None

    @property
    def content_hash(self) -> str:
        """A hash of all but the id; equal for the same event however often it is sent."""
        # S3 and EventBridge give the same object different instants.
        timestamp = self.timestamp if self.object_uri is None else None
        what = (self.asset, self.uri, self.object_uri, self.aliases, self.partition_key)
        content = [*what, self.extra, self.source, timestamp and timestamp.isoformat()]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class CreatedObject:
    """An S3 object, independent of how its creation was notified."""

    bucket: str
    key: str
    created_at: DateTime
    size: int | None
    etag: str | None
    version_id: str | None
    sequencer: str | None

    @property
    def event_id(self) -> str:
        """Return an id that is unique to this creation of this object."""
        # Some S3-compatible stores send no sequencer.
        order = self.sequencer or f"{self.created_at.isoformat()} {self.etag}"
        content = json.dumps([self.bucket, self.key, self.version_id, order])
        return f"s3:{hashlib.sha256(content.encode()).hexdigest()[:32]}"

    @property
    def facts(self) -> dict[str, Any]:
        """Return the extra of the event."""
        known = {
            "bucket": self.bucket,
            "key": self.key,
            "size": self.size,
            "etag": self.etag,
            "version_id": self.version_id,
        }
        return {name: value for name, value in known.items() if value is not None}


_READERS: dict[str, Callable[[object, str], Any]] = {
    "asset": fields.text,
    "uri": fields.uri,
    "extra": fields.extra,
    "event_id": partial(fields.line, limit=MAX_EVENT_ID),
    "timestamp": fields.instant,
    "partition_key": fields.partition_key,
    "source": fields.source,
    "aliases": fields.aliases,
}


def read_events(body: str, *, first_id: str) -> list[AssetEvent]:
    """Return the events of a message, possibly none; reject it if it is invalid.

    `first_id` is the event id if neither the producer nor a service gives one.
    """
    data, event_id = open_sns(fields.json_object(body, "body"), first_id)
    objects = created_objects(data)
    if objects is not None:
        return [_event_of(created) for created in objects]
    return [_read_plain(*open_eventbridge(data, event_id))]


def _event_of(created: CreatedObject) -> AssetEvent:
    return AssetEvent(
        created.event_id,
        object_uri=f"s3://{created.bucket}/{created.key}",
        extra=created.facts,
        timestamp=created.created_at,
        source="s3",
    )


def _read_plain(message: dict[str, Any], event_id: str) -> AssetEvent:
    data = {name: value for name, value in message.items() if name != "version"}
    version = message.get("version", VERSION)
    if version != VERSION or isinstance(version, bool):
        raise RejectedError(
            f"version {fields.shown(json.dumps(version))}: this deployment reads events of version"
            f" {VERSION}; leave it out, or upgrade the deployment and send the event again"
        )
    unknown = sorted(data.keys() - _READERS.keys())
    if unknown:
        raise RejectedError(
            f"{fields.shown(unknown[0])} is not a field of an event: send {', '.join(_READERS)}"
        )
    if ("asset" in data) == ("uri" in data):
        raise RejectedError("send exactly one of asset (a name) and uri")
    given = {name: read(data[name], name) for name, read in _READERS.items() if name in data}
    return AssetEvent(**{"event_id": event_id, **given})


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
    """Return the body of a valid event message; reject invalid fields."""
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
        # A single string is refused below; `list` would make each character an alias.
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


# Events of outlets: nobody but a step that succeeded can tell of one.


# The `source` of an outlet's event.
_STEP = frozenset({"dag_id", "run_id", "task_id"})
RESERVED = "event_id, source: ids with outlet- and the names of a step are reserved for outlets"


def claims_outlet(event: AssetEvent) -> bool:
    """Return whether an event looks like one of an outlet."""
    source = event.source if isinstance(event.source, dict) else {}
    return event.event_id.startswith(OUTLET) or source.keys() >= _STEP


# Envelopes.


def open_sns(data: dict[str, Any], event_id: str) -> tuple[dict[str, Any], str]:
    """Return the message of an SNS notification and its id; other data is returned unchanged."""
    if "Type" not in data:
        return data, event_id
    if data["Type"] != "Notification":
        raise RejectedError('Type must be "Notification": other SNS messages are not events')
    inner = data.get("Message")
    if not isinstance(inner, str):
        raise RejectedError(f"Message must be a string, not {fields.kind(inner)}")
    message = fields.json_object(inner, "Message")
    if "Type" in message:
        raise RejectedError("Message is an SNS message again: subscribe to the first topic")
    return message, _id_of(data, "MessageId") or event_id


def open_eventbridge(data: dict[str, Any], event_id: str) -> tuple[dict[str, Any], str]:
    """Return the detail of an EventBridge event and its id; other data is returned unchanged."""
    if "detail-type" not in data or "detail" not in data:
        return data, event_id
    return fields.mapping(data["detail"], "detail"), _id_of(data, "id") or event_id


def created_objects(data: dict[str, Any]) -> list[CreatedObject] | None:
    """Return the objects that S3 notifies of, or None if it is not an S3 notification."""
    if data.get("Event") == "s3:TestEvent":
        return []  # sent once, to test the queue
    if "Records" in data:
        return _in_records(data["Records"])
    if data.get("source") == "aws.s3" and "detail" in data:
        return [_in_detail(data)]
    return None


def _in_records(records: object) -> list[CreatedObject]:
    if not isinstance(records, list) or not records:
        raise RejectedError("Records must be a list with at least one record of S3")
    return [
        _in_record(fields.mapping(record, f"Records[{at}]")) for at, record in enumerate(records)
    ]


def _in_record(record: dict[str, Any]) -> CreatedObject:
    if record.get("eventSource") != "aws:s3":
        raise RejectedError('eventSource must be "aws:s3": other sources are not supported')
    name = fields.text(record.get("eventName"), "eventName")
    if not name.startswith(_CREATED):
        raise RejectedError(f"eventName {fields.shown(name)}: notify of {_CREATED}* only")
    s3 = fields.mapping(record.get("s3"), "s3")
    item = fields.mapping(s3.get("object"), "object")
    try:
        key = unquote_plus(fields.text(item.get("key"), "key", limit=3 * MAX_KEY), errors="strict")
    except UnicodeDecodeError as error:
        raise RejectedError("key must be URL-encoded UTF-8") from error
    return CreatedObject(
        bucket=_bucket(s3),
        key=fields.text(key, "key", limit=MAX_KEY),
        created_at=fields.instant(record.get("eventTime"), "eventTime"),
        size=_size(item),
        etag=_text_of(item, "eTag"),
        version_id=_version(item, "versionId"),
        sequencer=_text_of(item, "sequencer"),
    )


def _in_detail(envelope: dict[str, Any]) -> CreatedObject:
    name = fields.text(envelope.get("detail-type"), "detail-type")
    if name != "Object Created":
        raise RejectedError(f'detail-type {fields.shown(name)}: send "Object Created" only')
    detail = fields.mapping(envelope["detail"], "detail")
    item = fields.mapping(detail.get("object"), "object")
    return CreatedObject(
        bucket=_bucket(detail),
        key=fields.text(item.get("key"), "key", limit=MAX_KEY),
        created_at=fields.instant(envelope.get("time"), "time"),
        size=_size(item),
        etag=_text_of(item, "etag"),
        version_id=_version(item, "version-id"),
        sequencer=_text_of(item, "sequencer"),
    )


def _bucket(data: dict[str, Any]) -> str:
    bucket = fields.mapping(data.get("bucket"), "bucket")
    return fields.line(bucket.get("name"), "bucket.name", limit=255)


def _size(item: dict[str, Any]) -> int | None:
    size = item.get("size")
    if size is None or (isinstance(size, int) and not isinstance(size, bool)):
        return size
    raise RejectedError(f"size must be a whole number, not {fields.kind(size)}")


def _version(item: dict[str, Any], field: str) -> str | None:
    # A bucket without versioning may send "null".
    version = _text_of(item, field)
    return None if version == "null" else version


def _text_of(item: dict[str, Any], field: str) -> str | None:
    value = item.get(field)
    return None if value is None else fields.text(value, field)


def _id_of(envelope: dict[str, Any], field: str) -> str | None:
    value = envelope.get(field)
    return None if value is None else fields.line(value, field, limit=MAX_EVENT_ID)
