"""The subscriber's end of a shared stream: the iterator that a trigger's filter gets.

Owns: a subscriber's queue, and the state of each of its events: queued (never pulled), open (pulled
last), or bound (moved past, with something unconfirmed). An event is in one state at a time, so it
cannot be resolved twice. Which event a filter has open is known by a context variable, so that
`reject_shared_stream_event` needs no argument and cannot reach the event of another filter.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Self

from lamplighter.triggers.shared_stream.lanes import StreamEvent

log = logging.getLogger(__name__)

# Who pulled last in this context, and what; it stays when the event is no longer open.
last_pulled: ContextVar[tuple["AckSubscriber", StreamEvent] | None] = ContextVar(
    "shared_stream_last_pulled", default=None
)
# Called with the reason of each rejection; set by whoever runs the filter.
on_rejection: ContextVar[Callable[[str | None], None] | None] = ContextVar(
    "shared_stream_on_rejection", default=None
)


def reject_shared_stream_event(reason: str | None = None) -> None:
    """Count the event that the calling filter has open as rejected, whatever is derived from it.

    The reason, which Airflow's function does not have, goes to the dead-letter queue with the
    message. Without such an event nothing happens but a warning: outside a filter, between events,
    on a stream that is not acknowledged, or in a task that the filter did not start for the event.
    """
    pulled = last_pulled.get()
    if pulled is None or not pulled[0].reject(pulled[1]):
        log.warning("reject_shared_stream_event: no event is open; nothing is rejected")
    elif (callback := on_rejection.get()) is not None:
        callback(reason)


@dataclass(frozen=True, slots=True)
class PollFailure:
    """What a subscriber raises at its next pull, once."""

    exc: BaseException


@dataclass(slots=True, eq=False)
class Subscriber:
    """Reads a stream that is not acknowledged: its queue holds raw events."""

    trigger_id: int
    queue: deque[Any] = field(default_factory=deque)
    # Present while a pull waits and has not been woken.
    waiter: asyncio.Future[None] | None = None
    _failure: PollFailure | None = None
    _is_over: bool = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if not self.queue:
            await self._wait_for_item()
        return self.queue.popleft()

    async def aclose(self) -> None:
        """End the iteration; the subscription stays."""
        self._is_over = True

    def wake(self) -> None:
        """Let a waiting pull look again."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def end_with(self, exc: BaseException) -> None:
        """Make the next pull raise the error, instead of whatever was queued."""
        self.queue.clear()
        self._failure = PollFailure(exc)
        self.wake()

    def fail(self) -> None:
        """Drop everything that was not pulled."""
        self.queue.clear()

    def leave(self) -> None:
        """Take no more events; a waiting pull is left to whoever runs it."""
        self._is_over = True
        self.queue.clear()

    async def _wait_for_item(self) -> None:
        """Return when there is something to pull; raise if there never will be.

        Nothing is taken here: a pull that is cancelled while it waits loses no event.
        """
        while not self.queue:
            if self.waiter is not None:
                raise RuntimeError("two tasks read from one shared stream iterator; only one may")
            if self._is_over:
                raise StopAsyncIteration
            if self._failure is not None:
                self._is_over = True
                raise self._failure.exc
            self.waiter = waiter = asyncio.get_running_loop().create_future()
            try:
                await waiter
            finally:
                if self.waiter is waiter:
                    self.waiter = None


@dataclass(slots=True, eq=False)
class AckSubscriber(Subscriber):
    """Reads an acknowledged stream: its queue holds events in flight."""

    _open: StreamEvent | None = None
    # Events from which something was derived, oldest first: how much of it is unconfirmed.
    bound: dict[StreamEvent, int] = field(default_factory=dict)

    async def __anext__(self) -> Any:
        event = self._open
        if event is not None:
            self._move_on(event)
        if not self.queue:
            await self._wait_for_item()
        self._open = event = self.queue.popleft()
        last_pulled.set((self, event))
        return event.raw

    def bind(self) -> StreamEvent | None:
        """Hold the open event, if any, for one more confirmation, and return it."""
        event = self._open
        if event is not None:
            self.bound[event] = self.bound.get(event, 0) + 1
        return event

    def confirm(self, event: StreamEvent) -> None:
        """Count one thing derived from an event as persisted."""
        unconfirmed = self.bound.get(event)
        if unconfirmed is None:
            return  # it was rejected, or this subscriber has failed, in the meantime
        if unconfirmed > 1 or self._open is event:
            self.bound[event] = unconfirmed - 1
        else:
            del self.bound[event]
            event.ack()

    def reject(self, event: StreamEvent) -> bool:
        """Count that event as rejected and return True, if it is the open one."""
        if self._open is not event:
            return False
        self._open = None
        self.bound.pop(event, None)
        event.reject()
        return True

    def fail(self) -> None:
        events = list(self._outstanding())
        self._open = None
        self.bound.clear()
        self.queue.clear()
        for event in events:
            event.fail()

    def leave(self) -> None:
        """Take no more events: what was pulled may still be confirmed, the rest has failed."""
        if self._open is not None:
            self._move_on(self._open)
        never_pulled = list(self.queue)
        Subscriber.leave(self)  # `super` does not find it in a dataclass with slots
        for event in never_pulled:
            event.fail()

    def oldest(self) -> StreamEvent | None:
        """Return the oldest event that this subscriber has not resolved."""
        return next(self._outstanding(), None)

    def _move_on(self, event: StreamEvent) -> None:
        """Close the open event: it is acked when nothing derived from it is unconfirmed."""
        self._open = None
        if not self.bound.get(event):
            self.bound.pop(event, None)
            event.ack()

    def _outstanding(self) -> Iterator[StreamEvent]:
        """Yield what this subscriber has not resolved, oldest first."""
        yield from self.bound
        if self._open is not None and self._open not in self.bound:
            yield self._open
        yield from self.queue
