"""The order in which resolved events are advanced.

Owns: lanes, and the passes over them. A lane gives the resolved events at its head, never one from
behind an unresolved one. Lanes are served pass by pass, in the order in which they appeared; a lane
that resolves behind the one being served waits for the next pass. Only lanes that are ready are
looked at, so that ten thousand waiting ones cost nothing.
"""

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from lamplighter.triggers.shared_stream.producer import AdvanceItem, outcome_of


@dataclass(slots=True, eq=False)
class StreamEvent:
    """An event in flight: how many subscribers must still resolve it, and what the others did."""

    raw: Any
    payload: Any
    lane: "Lane"
    created_at: float
    pending: int
    acked: int = 0
    failed: int = 0
    rejected: int = 0

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


@dataclass(slots=True, eq=False)
class Lane:
    """The events of one lane that are not advanced yet, oldest first."""

    lanes: "Lanes"
    key: Hashable
    number: int
    events: deque[StreamEvent] = field(default_factory=deque)

    def append(self, event: StreamEvent) -> None:
        """Add the newest event, which may have nobody to wait for."""
        self.events.append(event)
        if not event.pending:
            self.resolved(event)

    def resolved(self, event: StreamEvent) -> None:
        """Note that an event of this lane is resolved."""
        if self.events[0] is event:
            self.lanes.mark_ready(self)

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
