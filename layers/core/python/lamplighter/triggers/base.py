"""Triggers: what an `AssetWatcher` watches an outside source with.

Owns: the contract only. A trigger written for Airflow moves here by changing the import root; the
engine that runs several triggers on one shared stream is separate.
"""

from collections.abc import AsyncIterator, Hashable
from typing import Any


class TriggerEvent:
    """Something that happened at a source; `payload` becomes part of the asset event."""

    def __init__(self, payload: Any = None) -> None:
        self.payload = payload

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TriggerEvent) and self.payload == other.payload

    def __hash__(self) -> int:
        return hash(repr(self.payload))

    def __repr__(self) -> str:
        return f"TriggerEvent<{self.payload!r}>"


class BaseTrigger:
    """A source of events, described by its class and its keyword arguments."""

    def __init__(self, **kwargs: Any) -> None:
        """Accept and ignore keyword arguments, so that subclasses may pass theirs on."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BaseTrigger):
            return NotImplemented
        return self.serialize() == other.serialize()

    def __hash__(self) -> int:
        return hash(repr(self.serialize()))

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the import path of the class and the keyword arguments that rebuild it."""
        raise NotImplementedError(f"{type(self).__name__} must define serialize")

    def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield events from a source of one's own, for as long as the trigger lives."""
        raise NotImplementedError(f"{type(self).__name__} must define run")

    async def cleanup(self) -> None:
        """Release what `run` holds."""


class BaseEventTrigger(BaseTrigger):
    """A trigger fit for scheduling: it reports events, not a state that stays true.

    Triggers whose `shared_stream_key` is equal share one reading of their source.
    """

    def shared_stream_key(self) -> Hashable | None:
        """Return what tells this trigger's source from others; None means a source of its own."""
        return None

    @classmethod
    def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Any]:
        """Yield the raw events of the shared source, built from one member's arguments."""
        raise NotImplementedError(f"{cls.__name__} must define open_shared_stream to share one")

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> Any:
        """Return the producer of a source whose messages are acknowledged after all members."""
        raise NotImplementedError(f"{cls.__name__} does not acknowledge its source")

    def filter_shared_stream(
        self, shared_stream: AsyncIterator[Any]
    ) -> AsyncIterator[TriggerEvent]:
        """Yield the events that this trigger makes of the raw ones."""
        raise NotImplementedError(f"{type(self).__name__} must define filter_shared_stream")
