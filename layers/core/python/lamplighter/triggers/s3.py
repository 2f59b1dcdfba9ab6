"""Triggers on the objects of a bucket: one is told of them, the other one looks for them."""

import asyncio
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from lamplighter.errors import DefinitionError
from lamplighter.loading import class_path
from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.feeds import SOURCES, Feed
from lamplighter.triggers.offered import Sighting, offered
from lamplighter.triggers.polled import PolledTrigger
from lamplighter.triggers.queue import QueueMessage, QueueTrigger

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


class _Objects(BaseEventTrigger):
    """What both triggers are told: whose objects, and how their keys begin and end."""

    def __init__(self, bucket: str, prefix: str = "", suffix: str = "") -> None:
        super().__init__()
        name = type(self).__name__
        if not isinstance(bucket, str) or _BUCKET.fullmatch(bucket) is None:
            raise DefinitionError(
                f"{name}: bucket must be the name alone, as in 'landing', not {bucket!r}"
            )
        for what, value in (("prefix", prefix), ("suffix", suffix)):
            if not isinstance(value, str):
                raise DefinitionError(f"{name}: {what} must be a text, not {value!r}")
        self.bucket = bucket
        self.prefix = prefix
        self.suffix = suffix

    def serialize(self) -> tuple[str, dict[str, Any]]:
        given = {"bucket": self.bucket, "prefix": self.prefix, "suffix": self.suffix}
        return class_path(type(self)), given


class S3ObjectTrigger(_Objects, QueueTrigger):
    """Fires within seconds for each created object whose key begins and ends as given.

    The bucket tells the deployment through EventBridge. The payload has the `bucket`, the `key` and
    the `uri` of the object, and its `size`, `etag` and `version_id` where S3 says them.
    """

    @property
    def feed(self) -> Feed:
        return Feed(queue=SOURCES, bucket=self.bucket)

    def payloads(self, message: QueueMessage) -> Iterable[Any]:
        for item in message.objects:
            is_ours = item.bucket == self.bucket and item.key.startswith(self.prefix)
            if is_ours and item.key.endswith(self.suffix):
                yield {**item.facts, "uri": f"s3://{item.bucket}/{item.key}"}


class S3PrefixTrigger(_Objects, PolledTrigger):
    """Fires for each object below a prefix that is new or has changed, within a minute or two.

    For buckets that cannot tell. A look costs one request for each 1,000 objects; triggers that
    differ only in `suffix` share it.
    """

    def __init__(self, bucket: str, prefix: str = "", suffix: str = "") -> None:
        super().__init__(bucket, prefix, suffix)
        self.feed = Feed(bucket=bucket)

    @classmethod
    async def look(cls, kwargs: dict[str, Any]) -> Sequence[Sighting]:
        # In a thread, because a long listing must not hold up those who read other sources.
        return await asyncio.to_thread(offered().objects, kwargs["bucket"], kwargs["prefix"])

    def payloads(self, sighting: Sighting) -> Iterable[Any]:
        if sighting.name.endswith(self.suffix):
            yield sighting.payload

    def shared_stream_key(self) -> Hashable | None:
        return ("s3-prefix", self.bucket, self.prefix)
