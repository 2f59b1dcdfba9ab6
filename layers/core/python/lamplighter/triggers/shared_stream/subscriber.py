"""The reader's end of a shared stream: the iterator that a trigger's filter gets.

Owns: a reader's queue, and where each of its events stands: in the queue (never pulled), open
(pulled last), or bound (moved past, with something unconfirmed). An event is in one place at a
time, so it cannot be resolved twice.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Any, Self

from lamplighter.triggers.shared_stream.failures import PollFailure
from lamplighter.triggers.shared_stream.lanes import StreamEvent
from lamplighter.triggers.shared_stream.rejection import last_pulled


class Subscriber:
    """A reader of a stream that is not acknowledged: its queue holds raw events."""

    __slots__ = ("_failure", "_is_over", "queue", "trigger_id", "waiter")

    def __init__(self, trigger_id: int) -> None:
        self.trigger_id = trigger_id
        self.queue: deque[Any] = deque()
        # Present while a pull waits and has not been woken.
        self.waiter: asyncio.Future[None] | None = None
        self._failure: PollFailure | None = None
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if not self.queue:
            await self._something()
        return self.queue.popleft()

    async def aclose(self) -> None:
        """End the iteration; the reader stays subscribed."""
        self._is_over = True

    def wake(self) -> None:
        """Let a waiting pull look again."""
        waiter, self.waiter = self.waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def end_with(self, exc: BaseException) -> None:
        """Let the next pull raise the error, instead of whatever was to be pulled."""
        self.queue.clear()
        self._failure = PollFailure(exc)
        self.wake()

    def fail(self) -> None:
        """Give up on everything that the reader was to see."""
        self.queue.clear()

    def leave(self) -> None:
        """Take nothing more; a pull that waits is left to whoever runs it."""
        self._is_over = True
        self.queue.clear()

    async def _something(self) -> None:
        """Return when there is something to pull; raise if there never will be.

        Nothing is taken here: a pull that is cancelled while it waits loses no event.
        """
        while not self.queue:
            if self.waiter is not None:
                raise RuntimeError("a shared stream is pulled from by two tasks; one may read it")
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


class AckSubscriber(Subscriber):
    """A reader of a stream that is acknowledged: its queue holds events on their way."""

    __slots__ = ("_open", "bound")

    def __init__(self, trigger_id: int) -> None:
        super().__init__(trigger_id)
        self._open: StreamEvent | None = None
        # Events from which something was derived, oldest first: how much of it is unconfirmed.
        self.bound: dict[StreamEvent, int] = {}

    async def __anext__(self) -> Any:
        event = self._open
        if event is not None:
            self._move_on(event)
        if not self.queue:
            await self._something()
        self._open = event = self.queue.popleft()
        last_pulled.set((self, event))
        return event.raw

    def bind(self) -> StreamEvent | None:
        """Let the open event, if any, wait for one more confirmation, and return it."""
        event = self._open
        if event is not None:
            self.bound[event] = self.bound.get(event, 0) + 1
        return event

    def confirm(self, event: StreamEvent) -> None:
        """Count one thing derived from an event as persisted."""
        unconfirmed = self.bound.get(event)
        if unconfirmed is None:
            return  # it was rejected, or this reader has failed, in the meantime
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
        """Take nothing more: what was pulled may still be confirmed, the rest has failed."""
        if self._open is not None:
            self._move_on(self._open)
        never_pulled = list(self.queue)
        super().leave()
        for event in never_pulled:
            event.fail()

    def oldest(self) -> StreamEvent | None:
        """Return the oldest event that this reader has not resolved."""
        return next(self._outstanding(), None)

    def _move_on(self, event: StreamEvent) -> None:
        """Close the open event: it is taken when nothing made of it is unconfirmed."""
        self._open = None
        if not self.bound.get(event):
            self.bound.pop(event, None)
            event.ack()

    def _outstanding(self) -> Iterator[StreamEvent]:
        """Yield what this reader has not resolved, oldest first."""
        yield from self.bound
        if self._open is not None and self._open not in self.bound:
            yield self._open
        yield from self.queue
