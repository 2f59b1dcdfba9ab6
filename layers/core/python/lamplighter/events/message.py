"""What a message on `events` says: an event as its producer wrote it, or as a service wrapped it.

Owns: every shape that is understood. Refuses: looking anything up, so that whether the asset exists
is not known here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pendulum import DateTime

from lamplighter.errors import RejectedError
from lamplighter.events import fields
from lamplighter.identifiers import MAX_ID_LENGTH

# A key of DynamoDB has 1,024 bytes; one under an alias holds the asset's id too.
MAX_EVENT_ID = 200


@dataclass(frozen=True)
class AssetEvent:
    """One event as its producer described it. Exactly one of asset, uri and object_uri is given."""

    event_id: str
    asset: str | None = None
    uri: str | None = None  # in normal form
    object_uri: str | None = None  # of an object, which lies below some asset's URI
    aliases: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    timestamp: DateTime | None = None
    partition_key: str | None = None
    source: dict[str, Any] | str | None = None


_READERS: dict[str, Callable[[object, str], Any]] = {
    "asset": fields.text,
    "uri": fields.uri,
    "extra": fields.extra,
    "event_id": partial(fields.line, limit=MAX_EVENT_ID),
    "timestamp": fields.instant,
    "partition_key": partial(fields.line, limit=MAX_ID_LENGTH),
    "source": fields.source,
    "aliases": fields.aliases,
}


def read_events(body: str, *, first_id: str) -> list[AssetEvent]:
    """Return the events of a message, which may be none; reject what is not understood.

    `first_id` is the id of an event that neither its producer nor a service has given one.
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


def _read_plain(data: dict[str, Any], event_id: str) -> AssetEvent:
    unknown = sorted(data.keys() - _READERS.keys())
    if unknown:
        raise RejectedError(
            f"{fields.shown(unknown[0])} is not a field of an event: send {', '.join(_READERS)}"
        )
    if ("asset" in data) == ("uri" in data):
        raise RejectedError("send exactly one of asset, which is a name, and uri")
    given = {name: read(data[name], name) for name, read in _READERS.items() if name in data}
    return AssetEvent(**{"event_id": event_id, **given})
