"""Triggers: what an `AssetWatcher` watches an outside source with.

Owns: the contract only. A trigger written for Airflow moves here by changing the import root; the
engine that runs several triggers on one shared stream is separate.
"""

import logging
from collections.abc import AsyncIterator, Hashable
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from lamplighter.triggers.shared_stream.producer import SharedStreamProducer


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


class BaseTaskEndEvent(TriggerEvent):
    """An event that says how a task ended; its payload is that state."""

    task_instance_state: ClassVar[str]

    def __init__(self, *, xcoms: dict[str, Any] | None = None) -> None:
        super().__init__(self.task_instance_state)
        self.xcoms = xcoms


class TaskSuccessEvent(BaseTaskEndEvent):
    """The task has succeeded."""

    task_instance_state = "success"


class TaskFailedEvent(BaseTaskEndEvent):
    """The task has failed."""

    task_instance_state = "failed"


class TaskSkippedEvent(BaseTaskEndEvent):
    """The task is not needed."""

    task_instance_state = "skipped"


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

    @property
    def log(self) -> logging.Logger:
        """The logger of the trigger's class."""
        return logging.getLogger(f"{type(self).__module__}.{type(self).__qualname__}")

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
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> "SharedStreamProducer":
        """Return the producer of a source whose messages are acknowledged after all members.

        A class that defines this is acknowledged, and its `open_shared_stream` is not used.
        """
        raise NotImplementedError(f"{cls.__name__} does not acknowledge its source")

    def filter_shared_stream(
        self, shared_stream: AsyncIterator[Any]
    ) -> AsyncIterator[TriggerEvent]:
        """Yield the events that this trigger makes of the raw ones."""
        raise NotImplementedError(f"{type(self).__name__} must define filter_shared_stream")
