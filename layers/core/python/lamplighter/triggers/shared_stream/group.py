"""One reading of a source and those who share it.

Owns: who is subscribed, the poll task, and how a group ends: once, for everyone, in one step. How
events are handed out is in `fast_group` and `ack_group`.
"""

import asyncio
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Generic, TypeVar

from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.shared_stream.failures import PollTerminated, SubscriberOverflow
from lamplighter.triggers.shared_stream.subscriber import Subscriber

DEFAULT_SUBSCRIBER_QUEUE_MAX = 1024
DEFAULT_ACK_TIMEOUT = 300.0

Reader = TypeVar("Reader", bound=Subscriber)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much and how long a group waits for its readers; a queue of 0 has no end."""

    max_subscriber_queue: int = DEFAULT_SUBSCRIBER_QUEUE_MAX
    ack_timeout: float = DEFAULT_ACK_TIMEOUT
    cohort_grace_period: float = 0.0
    now: Callable[[], float] = monotonic


class SharedStreamGroup(ABC, Generic[Reader]):
    """Everyone who reads one key, and the task that polls for them."""

    def __init__(
        self,
        *,
        key: Hashable,
        trigger_class: type[BaseEventTrigger],
        kwargs: dict[str, Any],
        limits: Limits,
        on_end: "Callable[[SharedStreamGroup[Any]], None]",
        log: logging.Logger,
    ) -> None:
        self.key = key
        self._trigger_class = trigger_class
        self._kwargs = kwargs
        self._limits = limits
        self._room = limits.max_subscriber_queue if limits.max_subscriber_queue > 0 else sys.maxsize
        self._on_end = on_end
        self._log = log
        self.subscribers: dict[int, Reader] = {}
        # Those of them who get new events: all but the failed.
        self._live: list[Reader] = []
        self._is_ended = False
        self.task: asyncio.Task[None]

    def start(self) -> None:
        """Start the poll; without a running event loop this is an error, and nothing has begun."""
        loop = asyncio.get_running_loop()
        self.task = loop.create_task(self._poll(), name=f"shared-stream-poll[{self.key!r}]")
        self._log.info("Shared stream group started key=%r", self.key)

    @property
    def is_empty(self) -> bool:
        """Whether nobody is subscribed."""
        return not self.subscribers

    def subscribe(self, trigger_id: int) -> Reader:
        """Add a reader, who gets what comes from now on."""
        if trigger_id in self.subscribers:
            raise RuntimeError(f"shared stream {self.key!r}: trigger {trigger_id} reads it already")
        subscriber = self._new_subscriber(trigger_id)
        self.subscribers[trigger_id] = subscriber
        self._live.append(subscriber)
        return subscriber

    def unsubscribe(self, trigger_id: int) -> None:
        """Remove a reader, if there is one of that number."""
        subscriber = self.subscribers.pop(trigger_id, None)
        if subscriber is not None:
            if subscriber in self._live:
                self._live.remove(subscriber)
            self._let_go(subscriber)

    def end(self, exc: BaseException) -> bool:
        """End the group with an error for all its readers; return False if it had ended before.

        There is no await in here: whoever subscribes afterwards gets a group of their own.
        """
        if self._is_ended:
            return False
        self._is_ended = True
        self._on_end(self)
        for subscriber in self.subscribers.values():
            subscriber.end_with(exc)
        return True

    def cancel(self) -> None:
        """Begin to stop, without a word to readers; `task` ends when everything is released."""
        self._is_ended = True
        self.task.cancel()

    @abstractmethod
    def _new_subscriber(self, trigger_id: int) -> Reader:
        """Return a reader of this group's kind."""

    @abstractmethod
    async def _read(self) -> None:
        """Hand out the events of the source until it has no more."""

    async def _close(self) -> None:
        """Release what reading holds."""

    def _let_go(self, subscriber: Reader) -> None:
        """Settle the affairs of a reader who has been removed."""
        subscriber.leave()

    async def _poll(self) -> None:
        try:
            if self._limits.cohort_grace_period > 0:
                await asyncio.sleep(self._limits.cohort_grace_period)
            await self._read()
        except Exception as exc:  # noqa: BLE001 - whatever the author's source raises, readers get
            self._log.exception("Shared stream poll failed key=%r", self.key)
            self.end(exc)
        finally:
            self.end(PollTerminated(f"shared stream {self.key!r}: the source has no more events"))
            await self._close()

    def _hand_out(self, item: Any) -> list[Reader] | None:
        """Put an item on the queue of everyone who has room; return those who have none, if any."""
        room = self._room
        without_room = None
        for subscriber in self._live:
            queue = subscriber.queue
            if len(queue) < room:
                queue.append(item)
                if subscriber.waiter is not None:
                    subscriber.wake()
            else:
                without_room = [*(without_room or ()), subscriber]
        return without_room

    def _fail_overflowed(self, subscribers: list[Reader]) -> None:
        limit = self._limits.max_subscriber_queue
        message = f"shared stream {self.key!r}: {limit} events wait to be read, and there are more"
        for subscriber in subscribers:
            self._warn("Shared stream subscriber overflowed", subscriber)
            self._fail(subscriber, SubscriberOverflow(message))

    def _warn(self, what: str, subscriber: Reader) -> None:
        self._log.warning("%s key=%r trigger_id=%r", what, self.key, subscriber.trigger_id)

    def _fail(self, subscriber: Reader, exc: BaseException) -> None:
        """Give one reader an error, and no more events; the others go on."""
        if subscriber in self._live:
            self._live.remove(subscriber)
        subscriber.fail()
        subscriber.end_with(exc)
