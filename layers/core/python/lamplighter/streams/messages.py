"""A message of a source, as the triggers that read its queue see it.

Owns: by which id a message is known, so that what is told twice fires once.
"""

import hashlib
import json
from typing import Any

from lamplighter.errors import RejectedError
from lamplighter.events import fields
from lamplighter.events.message import (
    CreatedObject,
    created_objects,
    open_eventbridge,
    open_sns,
)
from lamplighter.queues import Delivery
from lamplighter.triggers.queue import QueueMessage


def message_of(delivery: Delivery) -> QueueMessage:
    """Return what a delivery says; a queue may carry anything, so nothing is refused here."""
    try:
        data, message_id = open_sns(fields.json_object(delivery.body, "body"), delivery.first_id)
    except RejectedError:
        content = _json_or_none(delivery.body)
        return QueueMessage(
            delivery.first_id,
            delivery.body,
            content,
            attributes=delivery.texts,
            group=delivery.lane,
        )
    objects = _objects_in(data)
    if objects:
        # However often, and through whichever service, S3 tells of it.
        message_id = _joined(created.event_id for created in objects)
    else:
        message_id = _id_on_the_bus(data, message_id)
    return QueueMessage(
        message_id, delivery.body, data, objects, attributes=delivery.texts, group=delivery.lane
    )


def _objects_in(data: dict[str, Any]) -> tuple[CreatedObject, ...]:
    try:
        return tuple(created_objects(data) or ())
    except RejectedError:
        return ()  # S3 tells of something else, or it only looks like S3


def _id_on_the_bus(data: dict[str, Any], otherwise: str) -> str:
    try:
        return open_eventbridge(data, otherwise)[1]
    except RejectedError:
        return otherwise  # it only looks like EventBridge


def _joined(ids: Any) -> str:
    ids = list(ids)
    return ids[0] if len(ids) == 1 else hashlib.sha256("\n".join(ids).encode()).hexdigest()


def _json_or_none(body: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
