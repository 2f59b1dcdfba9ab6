"""Sends the events of watchers to the queue `events`.

Owns: when an event counts as persisted: when SQS has accepted it. Duplicates have the same id and
are recorded once.
"""

import asyncio
import logging
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from lamplighter import queues
from lamplighter.events.dead_letters import SOURCES_DLQ, dead_letter
from lamplighter.streams.watchers import Watcher

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WatcherEvent:
    """An asset event that a watcher made from a message."""

    watcher: Watcher
    event_id: str
    body: str
    raw: Any  # the message, as the trigger saw it
    seq: int | None  # for confirming to the stream that it is persisted
    # If set, it goes to the dead-letter queue instead of `events`, and can be replayed.
    parked_reason: str | None = None
    # Lets its message be delivered again, if its source can do that.
    redeliver: Callable[[], None] = lambda: None

    @property
    def lane(self) -> str | None:
        """The FIFO group of its message, if any."""
        lane: str | None = getattr(self.raw, "group", None)
        return lane

    @property
    def queue(self) -> str:
        """The queue to send it to; FIFO events stay in order."""
        if self.parked_reason is not None:
            return SOURCES_DLQ
        return "events" if self.lane is None else "events.fifo"

    @property
    def message(self) -> dict[str, Any]:
        """The SQS message."""
        if self.parked_reason is not None:
            return dead_letter(
                self.body, reason=self.parked_reason, first_id=self.event_id, lane=self.lane
            )
        if self.lane is None:
            return {"MessageBody": self.body}
        # A group without a name is still a group.
        group = self.lane or "none"
        fifo = {"MessageGroupId": group, "MessageDeduplicationId": self.event_id}
        return {"MessageBody": self.body, **fifo}


# Persists events on one queue, or raises.
Send = Callable[[str, Sequence[WatcherEvent]], None]


def send_to_sqs(queue: str, events: Sequence[WatcherEvent]) -> None:
    """Send events to a queue."""
    queues.send(queue, [event.message for event in events])


@dataclass(kw_only=True, eq=False)
class Outbox:
    """Sends events in the order in which they were added, in as few calls as possible."""

    send: Send
    confirm: Callable[[Iterable[int]], None]
    on_lost: Callable[[WatcherEvent], None]
    sent: int = 0
    parked: int = 0
    # Lanes in which an event was lost: nothing is sent after it.
    _lost_lanes: set[str] = field(default_factory=set)
    _waiting: dict[str, deque[WatcherEvent]] = field(default_factory=lambda: defaultdict(deque))
    _has_some: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, event: WatcherEvent) -> None:
        """Queue an event for sending."""
        self._waiting[event.queue].append(event)
        self._has_some.set()

    async def run(self) -> None:
        """Send queued events until cancelled."""
        while True:
            await self._has_some.wait()
            self._has_some.clear()
            # Other watchers may fill the call.
            await asyncio.sleep(0)
            while self._send_some():  # noqa: ASYNC110 - not a wait: other tasks get their turn
                await asyncio.sleep(0)

    def flush(self, *, seconds: float = math.inf) -> None:
        """Send queued events now; those that cannot be sent in time are lost."""
        deadline = monotonic() + seconds
        while monotonic() < deadline and self._send_some():
            pass
        for waiting in self._waiting.values():
            while waiting:
                self._lose(waiting.popleft())

    def _send_some(self) -> bool:
        """Send what fits into a call; return False if nothing is queued."""
        queue = next((name for name, waiting in self._waiting.items() if waiting), None)
        if queue is None:
            return False
        events = self._take(self._waiting[queue])
        try:
            self.send(queue, events)
        except Exception:  # only the messages of these events are delivered again
            about = {"queue": queue, "events": len(events)}
            log.exception("cannot send events of watchers", extra=about)
            for event in events:
                self._lose(event)
            return True
        if queue == SOURCES_DLQ:
            self.parked += len(events)
        else:
            self.sent += len(events)
        self.confirm([event.seq for event in events if event.seq is not None])
        return True

    def _take(self, waiting: deque[WatcherEvent]) -> list[WatcherEvent]:
        events: list[WatcherEvent] = []
        while waiting and len(events) < queues.PER_CALL:
            event = waiting.popleft()
            if event.lane in self._lost_lanes:
                self._lose(event)
            else:
                events.append(event)
        return events

    def _lose(self, event: WatcherEvent) -> None:
        if event.lane is not None:
            self._lost_lanes.add(event.lane)
        self.on_lost(event)
