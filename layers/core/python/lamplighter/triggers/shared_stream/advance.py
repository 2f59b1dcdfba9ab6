"""Advancing: telling the producer which events are resolved.

Owns: the order. A lane gives the resolved events at its head, never one from behind an unresolved
one. Lanes are served pass by pass, in the order in which they appeared; a lane that resolves behind
the one being served waits for the next pass. Only lanes that are ready are looked at, so that ten
thousand waiting ones cost nothing. One `advance` is awaited at a time, and a stop comes only after
everything that was resolved by then is advanced.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Any

from lamplighter.triggers.shared_stream.producer import (
    AdvanceItem,
    PollTerminated,
    SharedStreamProducer,
    outcome_of,
)


class StreamEvent:
    """An event in flight: how many subscribers must still resolve it, and what the others did."""

    __slots__ = ("acked", "created_at", "failed", "lane", "payload", "pending", "raw", "rejected")

    def __init__(
        self, raw: Any, payload: Any, lane: "Lane", created_at: float, pending: int
    ) -> None:
        self.raw = raw
        self.payload = payload
        self.lane = lane
        self.created_at = created_at
        self.pending = pending
        self.acked = self.failed = self.rejected = 0

    def ack(self) -> None:
        """Count one subscriber who is done with the event."""
        self.acked += 1
        self.pending -= 1
        if not self.pending:
            self.lane.resolved(self)

    def fail(self) -> None:
        """Count one subscriber who will never be done with the event."""
        self.failed += 1
        self.pending -= 1
        if not self.pending:
            self.lane.resolved(self)

    def reject(self) -> None:
        """Count one subscriber who rejects the event."""
        self.rejected += 1
        self.pending -= 1
        if not self.pending:
            self.lane.resolved(self)


class Lane:
    """The events of one lane that are not advanced yet, oldest first."""

    __slots__ = ("_lanes", "events", "key", "number")

    def __init__(self, lanes: "Lanes", key: Hashable, number: int) -> None:
        self._lanes = lanes
        self.key = key
        self.number = number
        self.events: deque[StreamEvent] = deque()

    def append(self, event: StreamEvent) -> None:
        """Add the newest event, which may have nobody to wait for."""
        self.events.append(event)
        if not event.pending:
            self.resolved(event)

    def resolved(self, event: StreamEvent) -> None:
        """Note that an event of this lane is resolved."""
        if self.events[0] is event:
            self._lanes.mark_ready(self)

    def take_resolved(self) -> list[AdvanceItem]:
        """Remove and return the resolved events at the head."""
        events = self.events
        batch = []
        while events and not events[0].pending:
            event = events.popleft()
            outcome = outcome_of(event.acked, event.failed, event.rejected)
            batch.append(AdvanceItem(event.payload, outcome))
        return batch


class Lanes:
    """All lanes of a stream that hold events."""

    def __init__(self, on_ready: Callable[[], None]) -> None:
        self._on_ready = on_ready
        self._lanes: dict[Hashable, Lane] = {}
        self._next_number = 0
        # Lanes with a resolved head: the pass that will serve them, and their number.
        self._ready: list[tuple[int, int, Lane]] = []
        self._pass = 0
        self._served = -1
        self._end_of_pass = 0

    def lane(self, key: Hashable) -> Lane:
        """Return the lane of that key, which may be new."""
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(self, key, self._next_number)
            self._next_number += 1
        return lane

    def mark_ready(self, lane: Lane) -> None:
        """Queue a lane whose head is resolved for this pass or the next one."""
        is_ahead = self._served < lane.number < self._end_of_pass
        heappush(self._ready, (self._pass if is_ahead else self._pass + 1, lane.number, lane))
        self._on_ready()

    def next_batch(self) -> list[AdvanceItem]:
        """Remove and return what is to be advanced next; nothing, if no lane is ready."""
        if not self._ready:
            # Whatever resolves from now on belongs to a pass that has yet to begin.
            self._end_of_pass = 0
            return []
        turn, self._served, lane = heappop(self._ready)
        if turn != self._pass:
            self._pass = turn
            self._end_of_pass = self._next_number
        batch = lane.take_resolved()
        if not lane.events:
            del self._lanes[lane.key]
        return batch


class AdvancePump:
    """The task that advances a group's resolved events."""

    def __init__(
        self,
        *,
        key: Hashable,
        producer: SharedStreamProducer,
        on_failure: Callable[[BaseException], None],
        log: logging.Logger,
    ) -> None:
        self._key = key
        self._producer = producer
        self._on_failure = on_failure
        self._log = log
        self._has_work = asyncio.Event()
        self._is_stopping = False
        self.lanes = Lanes(self._has_work.set)
        self._task = asyncio.create_task(self._run(), name=f"shared-stream-advance[{key!r}]")

    async def finish(self) -> None:
        """Return when everything that is resolved is advanced, and nothing else will be.

        Whoever is cancelled here gives up an `advance` that is under way.
        """
        self._is_stopping = True
        self._has_work.set()
        try:
            await asyncio.wait([self._task])
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise

    async def _run(self) -> None:
        try:
            while True:
                while batch := self.lanes.next_batch():
                    await self._producer.advance(batch)
                if self._is_stopping:
                    return
                self._has_work.clear()
                await self._has_work.wait()
        except asyncio.CancelledError:
            # Not passed on as it is: a subscriber would take it for its own cancellation.
            self._on_failure(PollTerminated(f"shared stream {self._key!r}: advance was cancelled"))
            raise
        except Exception as exc:  # noqa: BLE001 - whatever the author's code raises, all get
            self._log.exception("Shared stream advance failed key=%r", self._key)
            self._on_failure(exc)
