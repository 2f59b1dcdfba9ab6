"""One connection to a source and the subscribers that share it.

Owns: who is subscribed, the poll task, and how a group ends: once, for everyone, in one step. An
acknowledged group also owns the snapshot of subscribers at fan-out, and the timeout after which a
subscriber that holds an event up is failed.
"""

import asyncio
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.shared_stream.advance import AdvancePump, StreamEvent
from lamplighter.triggers.shared_stream.producer import (
    AckTimeout,
    PollTerminated,
    SharedStreamProducer,
    SubscriberOverflow,
)
from lamplighter.triggers.shared_stream.subscriber import AckSubscriber, Subscriber

_MIN_SCAN_INTERVAL = 0.01
_SCANS_PER_TIMEOUT = 10

S = TypeVar("S", bound=Subscriber)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much and how long a group waits for its subscribers; a queue of 0 is unbounded."""

    max_subscriber_queue: int
    ack_timeout: float
    cohort_grace_period: float
    now: Callable[[], float]


class SharedStreamGroup(ABC, Generic[S]):
    """All subscribers of one key, and the task that polls for them."""

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
        maximum = limits.max_subscriber_queue
        self._queue_limit = maximum if maximum > 0 else sys.maxsize
        self._on_end = on_end
        self._log = log
        self.subscribers: dict[int, S] = {}
        # Those of them who get new events: all but the failed.
        self._live: list[S] = []
        self._is_ended = False
        self.task: asyncio.Task[None]

    def start(self) -> None:
        """Start the poll; without a running event loop this is an error, and nothing has begun."""
        loop = asyncio.get_running_loop()
        self.task = loop.create_task(self._poll(), name=f"shared-stream-poll[{self.key!r}]")
        self._log.info("Shared stream group started key=%r", self.key)

    def subscribe(self, trigger_id: int) -> S:
        """Add a subscriber, who gets what comes from now on."""
        if trigger_id in self.subscribers:
            raise RuntimeError(
                f"shared stream {self.key!r}: trigger {trigger_id} is subscribed already"
            )
        subscriber = self._new_subscriber(trigger_id)
        self.subscribers[trigger_id] = subscriber
        self._live.append(subscriber)
        return subscriber

    def unsubscribe(self, trigger_id: int) -> None:
        """Remove a subscriber, if there is one with that id."""
        subscriber = self.subscribers.pop(trigger_id, None)
        if subscriber is not None:
            if subscriber in self._live:
                self._live.remove(subscriber)
            self._dismiss(subscriber)

    def end(self, exc: BaseException) -> bool:
        """End the group with an error for all subscribers; return False if it had ended before.

        There is no await in here: whoever subscribes afterwards gets a new group.
        """
        if self._is_ended:
            return False
        self._is_ended = True
        self._on_end(self)
        for subscriber in self.subscribers.values():
            subscriber.end_with(exc)
        return True

    def cancel(self) -> None:
        """Begin to stop, without telling subscribers; `task` ends when everything is released."""
        self._is_ended = True
        self.task.cancel()

    @abstractmethod
    def _new_subscriber(self, trigger_id: int) -> S:
        """Return a subscriber of this group's kind."""

    @abstractmethod
    async def _read(self) -> None:
        """Fan out the events of the source until it has no more."""

    async def _close(self) -> None:
        """Release what reading holds."""

    def _dismiss(self, subscriber: S) -> None:
        """Settle what a removed subscriber had pulled."""
        subscriber.leave()

    async def _poll(self) -> None:
        try:
            if self._limits.cohort_grace_period > 0:
                await asyncio.sleep(self._limits.cohort_grace_period)
            await self._read()
        except Exception as exc:  # noqa: BLE001 - whatever the author's source raises, all get
            self._log.exception("Shared stream poll failed key=%r", self.key)
            self.end(exc)
        finally:
            self.end(PollTerminated(f"shared stream {self.key!r}: the source has no more events"))
            await self._close()

    def _fan_out(self, item: Any) -> list[S] | None:
        """Queue an item for every live subscriber; return those whose queue is full, if any."""
        limit = self._queue_limit
        overflowed = None
        for subscriber in self._live:
            queue = subscriber.queue
            if len(queue) < limit:
                queue.append(item)
                if subscriber.waiter is not None:
                    subscriber.wake()
            else:
                overflowed = [*(overflowed or ()), subscriber]
        return overflowed

    def _fail_overflowed(self, subscribers: list[S]) -> None:
        limit = self._limits.max_subscriber_queue
        message = f"shared stream {self.key!r}: more than {limit} events wait to be read"
        for subscriber in subscribers:
            self._warn("Shared stream subscriber overflowed", subscriber)
            self._fail(subscriber, SubscriberOverflow(message))

    def _warn(self, what: str, subscriber: S) -> None:
        self._log.warning("%s key=%r trigger_id=%r", what, self.key, subscriber.trigger_id)

    def _fail(self, subscriber: S, exc: BaseException) -> None:
        """Give one subscriber an error, and no more events; the others go on."""
        if subscriber in self._live:
            self._live.remove(subscriber)
        subscriber.fail()
        subscriber.end_with(exc)


class FastGroup(SharedStreamGroup[Subscriber]):
    """Fans out the events of `open_shared_stream`, which need no acknowledgement."""

    def _new_subscriber(self, trigger_id: int) -> Subscriber:
        return Subscriber(trigger_id)

    async def _read(self) -> None:
        async for raw in self._trigger_class.open_shared_stream(self._kwargs):
            if overflowed := self._fan_out(raw):
                self._fail_overflowed(overflowed)


class AckGroup(SharedStreamGroup[AckSubscriber]):
    """Fans out the events of a producer, and advances each when its snapshot has resolved it."""

    def __init__(self, **group: Any) -> None:
        super().__init__(**group)
        self._producer: SharedStreamProducer | None = None
        self._stream: AsyncIterator[tuple[Any, Any]] | None = None
        self._pump: AdvancePump | None = None
        # Subscribers who left while something that they derived was unconfirmed.
        self._departed: list[AckSubscriber] = []

    @property
    def unresolved(self) -> list[AckSubscriber]:
        """Everyone who may still have to resolve an event."""
        return [*self.subscribers.values(), *self._departed]

    def _new_subscriber(self, trigger_id: int) -> AckSubscriber:
        return AckSubscriber(trigger_id)

    def _dismiss(self, subscriber: AckSubscriber) -> None:
        super()._dismiss(subscriber)
        if subscriber.bound:
            self._departed.append(subscriber)

    async def _read(self) -> None:
        """Fan out each event to everyone who is live at that moment; only they resolve it.

        This is done for every event of every source, so what does not change is looked up once.
        """
        self._producer = self._trigger_class.create_shared_stream_producer(self._kwargs)
        self._pump = AdvancePump(
            key=self.key, producer=self._producer, on_failure=self._advance_failed, log=self._log
        )
        self._schedule_scan()
        self._stream = self._producer.open_stream()
        lane_of, get_advance_lane = self._pump.lanes.lane, self._producer.get_advance_lane
        now, live = self._limits.now, self._live
        async for raw, payload in self._stream:
            lane = lane_of(get_advance_lane(payload))
            event = StreamEvent(raw, payload, lane, now(), len(live))
            lane.append(event)
            if overflowed := self._fan_out(event):
                for _ in overflowed:
                    event.fail()
                self._fail_overflowed(overflowed)

    def _fail(self, subscriber: AckSubscriber, exc: BaseException) -> None:
        """Fail a trigger in all that it has not resolved, also from an earlier subscription."""
        for each in self.unresolved:
            if each.trigger_id == subscriber.trigger_id:
                super()._fail(each, exc)

    def _advance_failed(self, exc: BaseException) -> None:
        # A group that had ended before is releasing things already, and must not be cancelled.
        if self.end(exc):
            self.task.cancel()

    def _schedule_scan(self) -> None:
        interval = max(_MIN_SCAN_INTERVAL, self._limits.ack_timeout / _SCANS_PER_TIMEOUT)
        asyncio.get_running_loop().call_later(interval, self._scan)

    def _scan(self) -> None:
        """Fail subscribers who hold up an event for too long, those who left included."""
        if self._is_ended:
            return
        timeout = self._limits.ack_timeout
        latest = self._limits.now() - timeout
        for subscriber in self.unresolved:
            oldest = subscriber.oldest()
            if oldest is not None and oldest.created_at <= latest:
                self._warn("Shared stream ack timed out", subscriber)
                message = f"shared stream {self.key!r}: an event is unresolved after {timeout} s"
                self._fail(subscriber, AckTimeout(message))
        self._departed = [subscriber for subscriber in self._departed if subscriber.bound]
        self._schedule_scan()

    async def _close(self) -> None:
        """Close the stream, advance what is resolved, close the producer: each whatever happens."""
        try:
            # It is still open if an event could not be fanned out.
            await self._release("stream", self._stream)
        finally:
            try:
                if self._pump is not None:
                    await self._pump.finish()
            finally:
                await self._release("producer", self._producer)

    async def _release(self, what: str, resource: Any) -> None:
        aclose = getattr(resource, "aclose", None)
        if aclose is None:
            return
        try:
            await aclose()
        except Exception:  # noqa: BLE001 - nobody is left to tell: every subscriber has ended
            self._log.exception("Shared stream %s did not close key=%r", what, self.key)
