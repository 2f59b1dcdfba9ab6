"""One connection to a source and the subscribers that share it.

Owns: who is subscribed, the poll task, and how a group ends: once, for everyone, in one step. An
acknowledged group also owns the snapshot of subscribers at fan-out, and the timeout after which a
subscriber that holds an event up is failed.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.shared_stream.lanes import Lanes, StreamEvent
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
Log: TypeAlias = logging.Logger | logging.LoggerAdapter[logging.Logger]
# Given the key of a group and its producer, returns the producer to use.
WrapProducer: TypeAlias = Callable[[Hashable, SharedStreamProducer], SharedStreamProducer]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much and how long a group waits for its subscribers."""

    max_subscriber_queue: float
    ack_timeout: float
    cohort_grace_period: float
    now: Callable[[], float]


@dataclass(kw_only=True, eq=False)
class SharedStreamGroup(ABC, Generic[S]):
    """All subscribers of one key, and the task that polls for them."""

    key: Hashable
    trigger_class: type[BaseEventTrigger]
    kwargs: dict[str, Any]
    limits: Limits
    on_end: "Callable[[SharedStreamGroup[Any]], None]"
    wrap_producer: WrapProducer
    log: Log
    task: asyncio.Task[None] = field(init=False)
    subscribers: dict[int, S] = field(init=False, default_factory=dict)
    # Those of them who get new events: all but the failed.
    _live: list[S] = field(init=False, default_factory=list)
    _is_ended: bool = field(init=False, default=False)
    # What to do when the group has ended, last thing first, each whatever happens.
    _closing: AsyncExitStack = field(init=False, default_factory=AsyncExitStack)

    def start(self) -> None:
        """Start the poll; without a running event loop this is an error, and nothing has begun."""
        loop = asyncio.get_running_loop()
        self.task = loop.create_task(self._poll(), name=f"shared-stream-poll[{self.key!r}]")
        self.log.info("Shared stream group started key=%r", self.key)

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
        self.on_end(self)
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

    def _dismiss(self, subscriber: S) -> None:
        """Settle what a removed subscriber had pulled."""
        subscriber.leave()

    async def _poll(self) -> None:
        try:
            if self.limits.cohort_grace_period > 0:
                await asyncio.sleep(self.limits.cohort_grace_period)
            await self._read()
        except Exception as exc:  # whatever the author's source raises, all subscribers get
            self.log.exception("Shared stream poll failed key=%r", self.key)
            self.end(exc)
        finally:
            self.end(PollTerminated(f"shared stream {self.key!r}: the source has no more events"))
            await self._closing.aclose()

    def _fan_out(self, item: Any) -> list[S] | None:
        """Queue an item for every live subscriber; return those whose queue is full, if any."""
        limit = self.limits.max_subscriber_queue
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
        limit = self.limits.max_subscriber_queue
        message = f"shared stream {self.key!r}: more than {limit} events wait to be read"
        for subscriber in subscribers:
            self._warn("Shared stream subscriber overflowed", subscriber)
            self._fail(subscriber, SubscriberOverflow(message))

    def _warn(self, what: str, subscriber: S) -> None:
        self.log.warning("%s key=%r trigger_id=%r", what, self.key, subscriber.trigger_id)

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
        async for raw in self.trigger_class.open_shared_stream(self.kwargs):
            if overflowed := self._fan_out(raw):
                self._fail_overflowed(overflowed)


@dataclass(kw_only=True, eq=False)
class AckGroup(SharedStreamGroup[AckSubscriber]):
    """Fans out the events of a producer, and advances each when its snapshot has resolved it."""

    # Subscribers who left while something that they derived was unconfirmed.
    _departed: list[AckSubscriber] = field(init=False, default_factory=list)
    _has_resolved: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _is_closing: bool = field(init=False, default=False)

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
        created = self.trigger_class.create_shared_stream_producer(self.kwargs)
        producer = self.wrap_producer(self.key, created)
        self._closing.push_async_callback(self._release, "producer", producer)
        lanes = Lanes(self._has_resolved.set)
        name = f"shared-stream-advance[{self.key!r}]"
        advancing = asyncio.create_task(self._advance(producer, lanes), name=name)
        self._closing.push_async_callback(self._stop_advancing, advancing)
        self._schedule_scan()
        stream = producer.open_stream()
        # It is still open if an event could not be fanned out.
        self._closing.push_async_callback(self._release, "stream", stream)
        lane_of, get_advance_lane = lanes.lane, producer.get_advance_lane
        now, live = self.limits.now, self._live
        async for raw, payload in stream:
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

    async def _advance(self, producer: SharedStreamProducer, lanes: Lanes) -> None:
        """Advance what is resolved, one batch at a time, until the group closes."""
        try:
            while True:
                while batch := lanes.next_batch():
                    await producer.advance(batch)
                if self._is_closing:
                    return
                self._has_resolved.clear()
                await self._has_resolved.wait()
        except asyncio.CancelledError:
            # Not passed on as it is: a subscriber would take it for its own cancellation.
            message = f"shared stream {self.key!r}: advance was cancelled"
            self._advance_failed(PollTerminated(message))
            raise
        except Exception as exc:  # whatever the author's code raises, all subscribers get
            self.log.exception("Shared stream advance failed key=%r", self.key)
            self._advance_failed(exc)

    async def _stop_advancing(self, advancing: "asyncio.Task[None]") -> None:
        """Return when everything that is resolved is advanced, and nothing else will be.

        Being cancelled here cancels an `advance` that is under way.
        """
        self._is_closing = True
        self._has_resolved.set()
        try:
            await asyncio.wait([advancing])
        except asyncio.CancelledError:
            advancing.cancel()
            await asyncio.wait([advancing])
            raise

    def _advance_failed(self, exc: BaseException) -> None:
        # A group that had ended before is releasing things already, and must not be cancelled.
        if self.end(exc):
            self.task.cancel()

    def _schedule_scan(self) -> None:
        interval = max(_MIN_SCAN_INTERVAL, self.limits.ack_timeout / _SCANS_PER_TIMEOUT)
        asyncio.get_running_loop().call_later(interval, self._scan)

    def _scan(self) -> None:
        """Fail subscribers who hold up an event for too long, those who left included."""
        if self._is_ended:
            return
        timeout = self.limits.ack_timeout
        latest = self.limits.now() - timeout
        for subscriber in self.unresolved:
            oldest = subscriber.oldest()
            if oldest is not None and oldest.created_at <= latest:
                self._warn("Shared stream ack timed out", subscriber)
                message = f"shared stream {self.key!r}: an event is unresolved after {timeout} s"
                self._fail(subscriber, AckTimeout(message))
        self._departed = [subscriber for subscriber in self._departed if subscriber.bound]
        self._schedule_scan()

    async def _release(self, what: str, resource: Any) -> None:
        aclose = getattr(resource, "aclose", None)
        if aclose is None:
            return
        try:
            await aclose()
        except Exception:  # nobody is left to tell: every subscriber has ended
            self.log.exception("Shared stream %s did not close key=%r", what, self.key)
