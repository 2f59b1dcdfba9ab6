"""What other services wrap round an event: notifications of S3, EventBridge and SNS.

Owns: how each of them is recognised and opened. An envelope may have fields that are not named
here: who sends it adds some from time to time.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from pendulum import DateTime

from lamplighter.errors import RejectedError
from lamplighter.events import fields

MAX_KEY = 1_024
_MAX_ID = 200
_CREATED = "ObjectCreated:"


@dataclass(frozen=True)
class CreatedObject:
    """An object of S3, the same whichever way its creation was told."""

    bucket: str
    key: str
    created_at: DateTime
    size: int | None
    etag: str | None
    version_id: str | None
    sequencer: str | None

    @property
    def event_id(self) -> str:
        """Return an id that only this creation of this object has."""
        # Some stores that speak S3 send no sequencer.
        order = self.sequencer or f"{self.created_at.isoformat()} {self.etag}"
        content = json.dumps([self.bucket, self.key, self.version_id, order])
        return f"s3:{hashlib.sha256(content.encode()).hexdigest()[:32]}"

    @property
    def facts(self) -> dict[str, Any]:
        """Return what the event tells its consumers."""
        known = {
            "bucket": self.bucket,
            "key": self.key,
            "size": self.size,
            "etag": self.etag,
            "version_id": self.version_id,
        }
        return {name: value for name, value in known.items() if value is not None}


def open_sns(data: dict[str, Any], event_id: str) -> tuple[dict[str, Any], str]:
    """Return the message in a notification of SNS, or `data` if it is none, and its id."""
    if "Type" not in data:
        return data, event_id
    if data["Type"] != "Notification":
        raise RejectedError('Type must be "Notification": nothing else of SNS is an event')
    inner = data.get("Message")
    if not isinstance(inner, str):
        raise RejectedError(f"Message must be a text, not {fields.kind(inner)}")
    message = fields.json_object(inner, "Message")
    if "Type" in message:
        raise RejectedError("Message is of SNS again: subscribe the queue to the first topic")
    return message, _id_of(data, "MessageId") or event_id


def open_eventbridge(data: dict[str, Any], event_id: str) -> tuple[dict[str, Any], str]:
    """Return the detail of an event on EventBridge, or `data` if it is none, and its id."""
    if "detail-type" not in data or "detail" not in data:
        return data, event_id
    return fields.mapping(data["detail"], "detail"), _id_of(data, "id") or event_id


def created_objects(data: dict[str, Any]) -> list[CreatedObject] | None:
    """Return the objects that S3 says were created, or None if it is not S3 who speaks."""
    if data.get("Event") == "s3:TestEvent":
        return []  # sent once, to see whether the queue can be reached
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
        raise RejectedError('eventSource must be "aws:s3": other records are not understood')
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
    # What a bucket that keeps no versions says, if it says anything.
    version = _text_of(item, field)
    return None if version == "null" else version


def _text_of(item: dict[str, Any], field: str) -> str | None:
    value = item.get(field)
    return None if value is None else fields.text(value, field)


def _id_of(envelope: dict[str, Any], field: str) -> str | None:
    value = envelope.get(field)
    return None if value is None else fields.line(value, field, limit=_MAX_ID)
