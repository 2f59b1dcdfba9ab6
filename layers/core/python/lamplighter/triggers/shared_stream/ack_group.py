"""A group whose source is told when everyone is done with an event.

Owns: the snapshot of readers at fan-out, and the timeout after which a reader who holds an event up
is given up.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from lamplighter.triggers.shared_stream.failures import AckTimeout
from lamplighter.triggers.shared_stream.group import SharedStreamGroup
from lamplighter.triggers.shared_stream.lanes import StreamEvent
from lamplighter.triggers.shared_stream.pump import AdvancePump
from lamplighter.triggers.shared_stream.subscriber import AckSubscriber

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lamplighter.triggers.shared_stream.producer import SharedStreamProducer

_SHORTEST_SCAN = 0.01
_SCANS_PER_TIMEOUT = 10


class AckGroup(SharedStreamGroup[AckSubscriber]):
    """Hands out the events of a producer, and advances each when its snapshot has resolved it."""

    def __init__(self, **group: Any) -> None:
        super().__init__(**group)
        self._producer: SharedStreamProducer | None = None
        self._stream: AsyncIterator[tuple[Any, Any]] | None = None
        self._pump: AdvancePump | None = None
        # Readers who left while something that they derived was unconfirmed.
        self._departed: list[AckSubscriber] = []

    @property
    def readers(self) -> list[AckSubscriber]:
        """Everyone who may still have to resolve an event."""
        return [*self.subscribers.values(), *self._departed]

    def _new_subscriber(self, trigger_id: int) -> AckSubscriber:
        return AckSubscriber(trigger_id)

    def _let_go(self, subscriber: AckSubscriber) -> None:
        super()._let_go(subscriber)
        if subscriber.bound:
            self._departed.append(subscriber)

    async def _read(self) -> None:
        """Hand each event to everyone who is live at that moment; they and nobody else resolve it.

        This is done for every event of every source, so what does not change is looked up once.
        """
        self._producer = self._trigger_class.create_shared_stream_producer(self._kwargs)
        self._pump = AdvancePump(
            key=self.key, producer=self._producer, on_failure=self._advance_failed, log=self._log
        )
        self._scan_later()
        self._stream = self._producer.open_stream()
        lane_of, get_advance_lane = self._pump.lanes.lane, self._producer.get_advance_lane
        now, live = self._limits.now, self._live
        async for raw, payload in self._stream:
            lane = lane_of(get_advance_lane(payload))
            event = StreamEvent(raw, payload, lane, now(), len(live))
            lane.append(event)
            if without_room := self._hand_out(event):
                for _ in without_room:
                    event.fail()
                self._fail_overflowed(without_room)

    def _fail(self, subscriber: AckSubscriber, exc: BaseException) -> None:
        """Fail a trigger in all that it has not resolved, before it left and came again too."""
        for reader in self.readers:
            if reader.trigger_id == subscriber.trigger_id:
                super()._fail(reader, exc)

    def _advance_failed(self, exc: BaseException) -> None:
        # A group that had ended before is releasing things already, and must not be cancelled.
        if self.end(exc):
            self.task.cancel()

    def _scan_later(self) -> None:
        pause = max(_SHORTEST_SCAN, self._limits.ack_timeout / _SCANS_PER_TIMEOUT)
        asyncio.get_running_loop().call_later(pause, self._scan)

    def _scan(self) -> None:
        """Give up readers who hold up an event for too long, those who left included."""
        if self._is_ended:
            return
        timeout = self._limits.ack_timeout
        latest = self._limits.now() - timeout
        for subscriber in self.readers:
            oldest = subscriber.oldest()
            if oldest is not None and oldest.created_at <= latest:
                self._warn("Shared stream ack timed out", subscriber)
                message = f"shared stream {self.key!r}: an event is not done with after {timeout} s"
                self._fail(subscriber, AckTimeout(message))
        self._departed = [subscriber for subscriber in self._departed if subscriber.bound]
        self._scan_later()

    async def _close(self) -> None:
        """Close the stream, advance what is resolved, close the producer: each whatever happens."""
        try:
            # It is still open if an event could not be handed out.
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
        except Exception:  # noqa: BLE001 - nobody is left to tell: every reader has its ending
            self._log.exception("Shared stream %s did not close key=%r", what, self.key)
