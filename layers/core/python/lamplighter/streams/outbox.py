"""What watchers have made of events, on its way to the queue `events`.

Owns: when it counts as persisted, which is when SQS has taken it. What is sent twice has the same
id, and is recorded once.
"""

import asyncio
import logging
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from lamplighter import queues
from lamplighter.events.dead_letters import dead_letter
from lamplighter.streams.watchers import Watcher

log = logging.getLogger(__name__)

# Where events go that are not sent.
KEPT = "sources-dlq"


@dataclass(frozen=True)
class Derived:
    """An asset event that a watcher has made of something that happened."""

    watcher: Watcher
    event_id: str
    body: str
    raw: Any  # what it was made of
    seq: int | None  # by which the stream is told that it is persisted
    # Why it is not sent but kept among the dead letters, from where it can be sent.
    kept_because: str | None = None

    @property
    def lane(self) -> str | None:
        """The group of the message that it was made of, on a FIFO queue."""
        lane: str | None = getattr(self.raw, "group", None)
        return lane

    @property
    def queue(self) -> str:
        """The queue to which it goes; what came in order goes on in order."""
        if self.kept_because is not None:
            return KEPT
        return "events" if self.lane is None else "events.fifo"

    @property
    def message(self) -> dict[str, Any]:
        """What is sent there."""
        if self.kept_because is not None:
            return dead_letter(
                self.body, reason=self.kept_because, first_id=self.event_id, lane=self.lane
            )
        if self.lane is None:
            return {"MessageBody": self.body}
        # A group without a name is one all the same.
        group = self.lane or "none"
        lane = {"MessageGroupId": group, "MessageDeduplicationId": self.event_id}
        return {"MessageBody": self.body, **lane}


# Persists some events that go to one queue, or raises.
Send = Callable[[str, Sequence[Derived]], None]


def send_to_sqs(queue: str, events: Sequence[Derived]) -> None:
    """Send events to the queue that a setting names."""
    queues.send(queue, [event.message for event in events])


class Outbox:
    """Sends in the order of coming, as few calls as possible."""

    def __init__(
        self,
        *,
        send: Send,
        confirm: Callable[[Iterable[int]], None],
        on_lost: Callable[[Derived], None],
    ) -> None:
        self._send = send
        self._confirm = confirm
        self._on_lost = on_lost
        # What comes after something that was lost in one of these is not sent before it.
        self._lost_lanes: set[str] = set()
        self._waiting: dict[str, deque[Derived]] = defaultdict(deque)
        self._has_some = asyncio.Event()
        self.sent = 0
        self.kept = 0

    def add(self, event: Derived) -> None:
        """Let an event be sent soon."""
        self._waiting[event.queue].append(event)
        self._has_some.set()

    async def run(self) -> None:
        """Send what comes, for ever."""
        while True:
            await self._has_some.wait()
            self._has_some.clear()
            # Those who are still at work may fill the call.
            await asyncio.sleep(0)
            while self._send_some():  # noqa: ASYNC110 - nothing is waited for, others have their turn
                await asyncio.sleep(0)

    def flush(self, *, seconds: float = math.inf) -> None:
        """Send what waits, now; what cannot be sent within some seconds is lost."""
        deadline = monotonic() + seconds
        while monotonic() < deadline and self._send_some():
            pass
        for waiting in self._waiting.values():
            while waiting:
                self._lose(waiting.popleft())

    def _send_some(self) -> bool:
        """Send what fits into a call; return False if nothing waits."""
        queue = next((name for name, waiting in self._waiting.items() if waiting), None)
        if queue is None:
            return False
        some = self._take(self._waiting[queue])
        try:
            self._send(queue, some)
        except Exception:  # whatever it is, what these were made of comes again, and nothing else
            log.exception("%d events of watchers could not be sent", len(some))
            for event in some:
                self._lose(event)
            return True
        if queue == KEPT:
            self.kept += len(some)
        else:
            self.sent += len(some)
        self._confirm([event.seq for event in some if event.seq is not None])
        return True

    def _take(self, waiting: deque[Derived]) -> list[Derived]:
        some: list[Derived] = []
        while waiting and len(some) < queues.PER_CALL:
            event = waiting.popleft()
            if event.lane in self._lost_lanes:
                self._lose(event)
            else:
                some.append(event)
        return some

    def _lose(self, event: Derived) -> None:
        if event.lane is not None:
            self._lost_lanes.add(event.lane)
        self._on_lost(event)
