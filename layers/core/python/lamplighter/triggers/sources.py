"""The two kinds of source that a deployment connects to triggers: a queue, and one that is polled.

Owns: what such triggers see, and how they get it. Triggers are pure and call no service: whoever
runs them provides a `SourceContext`. A deployment provides what its `watch` function was invoked
with; a test provides something made up. Acknowledging messages, and remembering which items were
seen, is the deployment's business.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Never, TypeVar

from pendulum import DateTime

from lamplighter.errors import DefinitionError
from lamplighter.triggers.base import BaseEventTrigger, TriggerEvent
from lamplighter.triggers.feeds import Feed

if TYPE_CHECKING:
    from lamplighter.events.message import CreatedObject
    from lamplighter.triggers.shared_stream import SharedStreamProducer


@dataclass(frozen=True)
class QueueMessage:
    """A message of a queue."""

    # Equal for every delivery of what was sent once, and for repeated S3 or EventBridge events.
    message_id: str
    body: str  # The text that was sent.
    # The body's JSON, without the envelope of SNS; None if it is not JSON.
    content: Any = None
    # The objects that S3 reports as created, if the message is from S3.
    objects: "tuple[CreatedObject, ...]" = ()
    attributes: Mapping[str, str] = field(default_factory=dict)  # Of the message, as texts.
    group: str | None = None  # The message group, on a FIFO queue.


@dataclass(frozen=True)
class SourceItem:
    """Something that a poll found at a source.

    `version` changes whenever triggers are to fire again for the same `name`.
    """

    name: str  # By which it is known, such as the key of an object.
    version: str  # What changes with its content, such as an ETag.
    payload: dict[str, Any] = field(default_factory=dict)  # Of the event, by default.
    modified_at: DateTime | None = None  # When it was changed, if the source says so.

    @property
    def message_id(self) -> str:
        """The id by which repetitions of the same item are known."""
        return f"{self.name}@{self.version}"


def _cannot_list(*_: object) -> Never:
    raise DefinitionError("a trigger may list objects only while it polls its source")


@dataclass(frozen=True)
class SourceContext:
    """The access to sources that a trigger is run with."""

    # The messages of a queue, or the new items of a source that was polled.
    producer: "SharedStreamProducer | None" = None
    # The objects of a bucket whose keys begin with a prefix.
    list_objects: Callable[[str, str], Sequence[SourceItem]] = _cannot_list


_context: ContextVar[SourceContext | None] = ContextVar("lamplighter_source_context", default=None)


@contextmanager
def source_context(context: SourceContext) -> Iterator[None]:
    """Let triggers that are opened in the block find this context."""
    token = _context.set(context)
    try:
        yield
    finally:
        _context.reset(token)


def current_source() -> SourceContext:
    """Return the context that the trigger is run with."""
    context = _context.get()
    if context is None:
        raise DefinitionError(
            "this trigger is fed by a deployment: try it with `lamplighter watchers test`"
        )
    return context


T = TypeVar("T")


class _FedTrigger(BaseEventTrigger, Generic[T]):
    """A trigger whose shared stream comes from the deployment."""

    @abstractmethod
    def payloads(self, item: T, /) -> Iterable[Any]:
        """Return the payload of each event that the trigger makes of an item; none skips it.

        Call `reject_shared_stream_event` for something that should never have been sent.
        """

    @classmethod
    def create_shared_stream_producer(
        cls,
        kwargs: dict[str, Any],  # noqa: ARG003 - the deployment has read the source already
    ) -> "SharedStreamProducer":
        producer = current_source().producer
        if producer is None:
            raise DefinitionError("nothing was delivered to this trigger; a deployment feeds it")
        return producer

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[T]
    ) -> AsyncIterator[TriggerEvent]:
        async for item in shared_stream:
            for payload in self.payloads(item):
                yield TriggerEvent(payload)

    def run(self) -> Never:
        raise DefinitionError(
            f"{type(self).__name__} reads what a deployment delivers to it: give it a"
            " shared_stream_key"
        )


class QueueTrigger(_FedTrigger[QueueMessage]):
    """A trigger on the messages of a queue; all that read one queue share its messages."""

    @property
    @abstractmethod
    def feed(self) -> Feed:
        """What must be wired to the deployment for the trigger to receive anything."""

    def shared_stream_key(self) -> Hashable | None:
        return ("queue", self.feed.queue)


class PollingTrigger(_FedTrigger[SourceItem]):
    """A trigger on a source that is polled once a minute; it fires for what was not there before.

    The deployment remembers which items were seen, so that a file that stays where it is starts one
    run and not one a minute.
    """

    feed = Feed()

    @classmethod
    @abstractmethod
    async def poll(cls, kwargs: dict[str, Any]) -> Sequence[SourceItem]:
        """Return every item that is there now, given the arguments of one of those who share it."""

    def payloads(self, item: SourceItem) -> Iterable[Any]:
        """Return the payload of each event that the trigger makes of a new item."""
        return [item.payload]

    @abstractmethod
    def shared_stream_key(self) -> Hashable | None:
        """Return what tells the source from others: all arguments that `poll` uses."""
