"""Triggers on sources that must be asked: they fire for what was not there before.

Owns: that such a trigger reports changes and not a state. What has been seen is remembered by the
deployment, so that a file that stays where it is starts one run and not one a minute.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Hashable, Iterable, Sequence
from typing import Any, Never

from lamplighter.errors import DefinitionError
from lamplighter.triggers.base import BaseEventTrigger, TriggerEvent
from lamplighter.triggers.feeds import Feed
from lamplighter.triggers.offered import Sighting, offered_producer
from lamplighter.triggers.shared_stream.producer import SharedStreamProducer


class PolledTrigger(BaseEventTrigger):
    """A trigger on a source that is looked at once a minute; subclasses say how."""

    feed = Feed()

    @classmethod
    @abstractmethod
    async def look(cls, kwargs: dict[str, Any]) -> Sequence[Sighting]:
        """Return everything that is there now, given the arguments of one of those who share it."""

    def payloads(self, sighting: Sighting) -> Iterable[Any]:
        """Return the payload of each event that the trigger makes of something new."""
        return [sighting.payload]

    @abstractmethod
    def shared_stream_key(self) -> Hashable | None:
        """Return what tells the source from others: all arguments that `look` goes by."""

    @classmethod
    def create_shared_stream_producer(
        cls,
        kwargs: dict[str, Any],  # noqa: ARG003 - the deployment has looked already
    ) -> SharedStreamProducer:
        return offered_producer()

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[Sighting]
    ) -> AsyncIterator[TriggerEvent]:
        async for sighting in shared_stream:
            for payload in self.payloads(sighting):
                yield TriggerEvent(payload)

    def run(self) -> Never:
        raise DefinitionError(
            f"{type(self).__name__} must share its stream, so that what it has seen is remembered"
        )
