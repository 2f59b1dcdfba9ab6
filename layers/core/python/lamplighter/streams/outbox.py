"""What watchers have made of events, on its way to the queue `events`.

Owns: when it counts as persisted, which is when SQS has taken it. What is sent twice has the same
id, and is recorded once.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lamplighter import queues
from lamplighter.events.dead_letters import letter
from lamplighter.streams.watchers import Watcher

log = logging.getLogger(__name__)


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
    def queue(self) -> str:
        """The setting that names where it goes."""
        return "events_queue_url" if self.kept_because is None else "watch_dead_queue_url"

    @property
    def message(self) -> dict[str, Any]:
        """What is sent there."""
        if self.kept_because is None:
            return {"MessageBody": self.body}
        return letter(self.body, reason=self.kept_because, first_id=self.event_id)


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
        on_lost: Callable[[Any], None],
    ) -> None:
        self._send = send
        self._confirm = confirm
        self._on_lost = on_lost
        self._waiting: list[Derived] = []
        self._has_some = asyncio.Event()
        self.sent = 0
        self.kept = 0

    def add(self, event: Derived) -> None:
        """Let an event be sent soon."""
        self._waiting.append(event)
        self._has_some.set()

    async def run(self) -> None:
        """Send what comes, for ever."""
        while True:
            await self._has_some.wait()
            self._has_some.clear()
            # Those who are still at work may fill the call.
            await asyncio.sleep(0)
            while self._waiting:
                self._send_some()
                await asyncio.sleep(0)

    def flush(self) -> None:
        """Send what waits, now."""
        while self._waiting:
            self._send_some()

    def _send_some(self) -> None:
        queue = self._waiting[0].queue
        some = [event for event in self._waiting if event.queue == queue][: queues.PER_CALL]
        self._waiting = [event for event in self._waiting if event not in some]
        try:
            self._send(queue, some)
        except Exception:  # whatever it is, what these were made of comes again, and nothing else
            log.exception("%d events of watchers could not be sent", len(some))
            for event in some:
                self._on_lost(event.raw)
            return
        if queue == "events_queue_url":
            self.sent += len(some)
        else:
            self.kept += len(some)
        self._confirm([event.seq for event in some if event.seq is not None])
