"""Triggers on sources in AWS: the messages of SQS, the events of EventBridge, the objects of S3."""

import asyncio
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from lamplighter.errors import DefinitionError
from lamplighter.loading import class_path
from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.feeds import SOURCES, Feed
from lamplighter.triggers.patterns import EventPattern
from lamplighter.triggers.sources import (
    PollingTrigger,
    QueueMessage,
    QueueTrigger,
    SourceItem,
    current_source,
)

_QUEUE = re.compile(r"(?=.{1,80}$)[A-Za-z0-9_-]+(\.fifo)?")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# The fields of an event that are worth keeping; the rest is about its delivery.
_EVENT_FIELDS = ("id", "source", "detail-type", "time", "account", "region", "resources", "detail")


class SqsTrigger(QueueTrigger):
    """Fires for each message of a queue, or for those whose JSON body matches the pattern `match`.

    `queue` is a name, a URL or an ARN; a deployment knows its queues by name. The payload is the
    body's JSON, or its text if it is not JSON.
    """

    def __init__(
        self,
        queue: str,  # Its name, URL or ARN.
        match: dict[str, Any] | None = None,  # A pattern as EventBridge has them; all by default.
    ) -> None:
        super().__init__()
        self.queue = queue
        # The last part of a URL and of an ARN.
        name = re.split("[/:]", queue)[-1] if isinstance(queue, str) else ""
        if _QUEUE.fullmatch(name) is None:
            raise DefinitionError(
                f"SqsTrigger: queue must be a name, a URL or an ARN, not {queue!r}"
            )
        self._name = name
        self._pattern = None if match is None else EventPattern(match, "match")

    def serialize(self) -> tuple[str, dict[str, Any]]:
        match = None if self._pattern is None else self._pattern.content
        return class_path(type(self)), {"queue": self.queue, "match": match}

    @property
    def feed(self) -> Feed:
        return Feed(queue=self._name)

    def payloads(self, message: QueueMessage) -> Iterable[Any]:
        if self._pattern is None or self._pattern.matches(message.content):
            yield message.body if message.content is None else message.content


class EventBridgeTrigger(QueueTrigger):
    """Fires for each event on the deployment's bus that matches the pattern.

    The pattern must list each `source` in full: that is what is wired to the deployment. The
    payload is the event.
    """

    def __init__(self, pattern: dict[str, Any]) -> None:  # As EventBridge has them.
        super().__init__()
        self._pattern = EventPattern(pattern)
        sources = self._pattern.content.get("source")
        if not isinstance(sources, list) or not all(isinstance(one, str) for one in sources):
            raise DefinitionError(
                "pattern: source: must list who sends the events, in full, as in ['shop.orders']"
            )
        self._sources = tuple(dict.fromkeys(sources))

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return class_path(type(self)), {"pattern": self._pattern.content}

    @property
    def feed(self) -> Feed:
        return Feed(queue=SOURCES, event_sources=self._sources)

    def payloads(self, message: QueueMessage) -> Iterable[Any]:
        event = message.content
        if self._pattern.matches(event):
            yield {name: event[name] for name in _EVENT_FIELDS if name in event}


class _ObjectTrigger(BaseEventTrigger):
    """The arguments of both triggers on objects: their bucket, and how their keys begin and end."""

    def __init__(
        self,
        bucket: str,  # The name alone.
        prefix: str = "",  # How keys begin.
        suffix: str = "",  # How keys end.
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if not isinstance(bucket, str) or _BUCKET.fullmatch(bucket) is None:
            raise DefinitionError(
                f"{name}: bucket must be the name alone, as in 'landing', not {bucket!r}"
            )
        for what, value in (("prefix", prefix), ("suffix", suffix)):
            if not isinstance(value, str):
                raise DefinitionError(f"{name}: {what} must be a string, not {value!r}")
        self.bucket = bucket
        self.prefix = prefix
        self.suffix = suffix

    def serialize(self) -> tuple[str, dict[str, Any]]:
        given = {"bucket": self.bucket, "prefix": self.prefix, "suffix": self.suffix}
        return class_path(type(self)), given


class S3ObjectTrigger(_ObjectTrigger, QueueTrigger):
    """Fires within seconds for each created object whose key begins and ends as given.

    The bucket notifies the deployment through EventBridge. The payload has the `bucket`, the `key`
    and the `uri` of the object, and its `size`, `etag` and `version_id` where S3 reports them.
    """

    @property
    def feed(self) -> Feed:
        return Feed(queue=SOURCES, bucket=self.bucket)

    def payloads(self, message: QueueMessage) -> Iterable[Any]:
        for item in message.objects:
            is_ours = item.bucket == self.bucket and item.key.startswith(self.prefix)
            if is_ours and item.key.endswith(self.suffix):
                yield {**item.facts, "uri": f"s3://{item.bucket}/{item.key}"}


class S3PrefixTrigger(_ObjectTrigger, PollingTrigger):
    """Fires for each object below a prefix that is new or has changed, within a minute or two.

    For buckets that cannot send notifications. A poll costs one request for each 1,000 objects;
    triggers that differ only in `suffix` share it.
    """

    def __init__(self, bucket: str, prefix: str = "", suffix: str = "") -> None:
        super().__init__(bucket, prefix, suffix)
        self.feed = Feed(bucket=bucket)

    @classmethod
    async def poll(cls, kwargs: dict[str, Any]) -> Sequence[SourceItem]:
        # In a thread, because a long listing must not hold up those who read other sources.
        list_objects = current_source().list_objects
        return await asyncio.to_thread(list_objects, kwargs["bucket"], kwargs["prefix"])

    def payloads(self, item: SourceItem) -> Iterable[Any]:
        if item.name.endswith(self.suffix):
            yield item.payload

    def shared_stream_key(self) -> Hashable | None:
        return ("s3-prefix", self.bucket, self.prefix)
