"""Triggers that SQS feeds: all that read one queue share its messages.

Owns: what such a trigger sees of a message. How messages come from the queue, and how they are
acknowledged when every trigger is done, is the deployment's business.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Never

from lamplighter.errors import DefinitionError
from lamplighter.triggers.base import BaseEventTrigger, TriggerEvent
from lamplighter.triggers.feeds import Feed
from lamplighter.triggers.offered import offered_producer
from lamplighter.triggers.shared_stream.producer import SharedStreamProducer

if TYPE_CHECKING:
    from lamplighter.events.message import CreatedObject


@dataclass(frozen=True)
class QueueMessage:
    """A message of a queue."""

    # Equal for every delivery of what was sent once, and for what S3 or EventBridge tell twice.
    message_id: str
    body: str
    # What the body says as JSON, without the envelope of SNS round it; None if it is no JSON.
    content: Any = None
    # Objects that S3 says were created, if it is S3 who speaks.
    objects: "tuple[CreatedObject, ...]" = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None  # on a FIFO queue


class QueueTrigger(BaseEventTrigger):
    """A trigger on the messages of a queue; subclasses say what they make of a message."""

    @property
    @abstractmethod
    def feed(self) -> Feed:
        """What must be wired to the deployment for the trigger to see anything."""

    @abstractmethod
    def payloads(self, message: QueueMessage) -> Iterable[Any]:
        """Return the payload of each event that the trigger makes of a message, which may be none.

        Call `reject_shared_stream_event` for a message that nobody should have sent.
        """

    def shared_stream_key(self) -> Hashable | None:
        return ("queue", self.feed.queue)

    @classmethod
    def create_shared_stream_producer(
        cls,
        kwargs: dict[str, Any],  # noqa: ARG003 - the deployment knows the queue
    ) -> SharedStreamProducer:
        return offered_producer()

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[QueueMessage]
    ) -> AsyncIterator[TriggerEvent]:
        async for message in shared_stream:
            for payload in self.payloads(message):
                yield TriggerEvent(payload)

    def run(self) -> Never:
        raise DefinitionError(
            f"{type(self).__name__} reads a queue that a deployment brings to it: give it a"
            " shared_stream_key"
        )
