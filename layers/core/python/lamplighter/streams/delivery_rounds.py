"""Delivers a list of messages to watchers, as the producer of a shared stream.

Owns: which messages all watchers have finished, and what happens to rejected ones. A message
without a lane is a lane of its own; within a lane, messages are finished in order. A watcher that
fails is restarted in another round after the message at which it failed, so that later messages
are not affected.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from lamplighter import queues, settings
from lamplighter.events.dead_letters import FailedMessage
from lamplighter.queues import Delivery
from lamplighter.store.watchers import count_fired
from lamplighter.streams.outside import Outside
from lamplighter.streams.session import Session, Subscription
from lamplighter.triggers.shared_stream import AdvanceItem, SharedStreamProducer
from lamplighter.triggers.sources import SourceContext, source_context

log = logging.getLogger(__name__)

# With less time than this, no round is started.
_MIN_SECONDS = 0.5
# SQS limits a call to 1 MiB, attributes included, and a dead letter has at most 200 KB.
_DEAD_LETTERS_PER_CALL = 4


@dataclass
class WatchReport:
    """Counts of messages and items; `failed` are messages to deliver again."""

    received: int = 0  # Messages, and new items of polled sources.
    sent_events: int = 0  # Asset events that watchers sent.
    parked_events: int = 0  # Events of parked watchers; they are dead letters.
    rejected: int = 0  # Messages that a watcher rejected.
    dead_lettered: int = 0  # Messages that were given up because of their age.
    failed: set[str] = field(default_factory=set)  # Messages that are delivered again.
    failed_watchers: int = 0  # Watchers that raised, or took too long.
    parked_watchers: int = 0  # Watchers that were parked because they fire too often.

    def park_busy_watchers(self, fired: Mapping[str, int]) -> None:
        """Count what watchers have fired, and park those that do so too often."""
        limit = settings.current().watcher_events_per_minute
        parked = count_fired({name: times for name, times in fired.items() if times}, limit=limit)
        for watcher in parked:
            fields = {"watcher": watcher, "limit_per_minute": limit}
            log.error("watcher parked: it fires too often", extra=fields)
        self.parked_watchers = len(parked)


@dataclass(frozen=True, eq=False)
class StreamMessage:
    """A message as triggers see it, and its lane."""

    raw: Any
    lane: Hashable | None = None


class _BatchProducer(SharedStreamProducer):
    """Yields each message once, and records when all subscribers have finished it."""

    def __init__(self, messages: Sequence[StreamMessage], redelivered: set[StreamMessage]) -> None:
        self._messages = messages
        self._index = _index(messages)
        self._unresolved = set(messages)
        self._is_over = asyncio.Event()
        self.done: set[StreamMessage] = set()
        # Messages that are delivered again in any case.
        self._redelivered = redelivered

    async def open_stream(self) -> AsyncIterator[tuple[Any, StreamMessage]]:
        # Without a pause: every subscriber is then in every message's snapshot, and no message can
        # bypass one that failed at an earlier one.
        for message in self._messages:
            yield message.raw, message
        # If the stream ended, subscribers would lose what they have not read.
        await asyncio.Event().wait()

    def get_advance_lane(self, broker_payload: StreamMessage) -> Hashable:
        return broker_payload if broker_payload.lane is None else broker_payload.lane

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        for message, outcome in batch:
            is_read = outcome.acked + outcome.rejected > 0
            if is_read and not outcome.failed and message not in self._redelivered:
                self.done.add(message)
        self._unresolved.difference_update(message for message, _ in batch)
        if not self._unresolved:
            self._is_over.set()

    def redeliver(self, raw: Any) -> None:
        """Mark a message, and those behind it in its lane, for redelivery."""
        at = self._index[id(raw)]
        first = self._messages[at]
        if first in self._redelivered:
            return
        behind = self._messages[at + 1 :] if first.lane is not None else ()
        self._redelivered |= {first, *(one for one in behind if one.lane == first.lane)}

    async def wait(self) -> None:
        """Return when every subscriber has resolved every message."""
        await self._is_over.wait()


class DeliveryRounds:
    """Runs watchers on a list of messages within a time limit."""

    def __init__(
        self, messages: Sequence[StreamMessage], *, seconds: float, outside: Outside | None = None
    ) -> None:
        self._messages = messages
        self._deadline = monotonic() + seconds
        self._outside = outside or Outside()
        self.subscriptions: list[Subscription] = []  # of all rounds
        self.done: set[StreamMessage] = set()
        self.redelivered: set[StreamMessage] = set()
        self.reasons: dict[StreamMessage, list[str]] = defaultdict(list)
        self.fired: Counter[str] = Counter()
        self.sent = 0
        self.parked = 0

    async def run(self, subscriptions: Sequence[Subscription]) -> None:
        """Run all watchers on all messages; restart those that left early on the rest."""
        todo = self._messages
        while subscriptions and todo and self._seconds_left() > _MIN_SECONDS:
            producer = _BatchProducer(todo, self.redelivered)
            session = Session(
                subscriptions,
                seconds=self._seconds_left(),
                batch_size=len(todo),
                redeliver=producer.redeliver,
                send=self._outside.send,
            )
            with source_context(SourceContext(producer=producer)):
                await session.run(producer.wait())
            self._note(session, subscriptions)
            for one in subscriptions:
                if not one.can_resume and not one.is_waiting:
                    # It will not read the rest in this batch, so that may not be acknowledged.
                    at = 0 if one.raw is None else _index(todo)[id(one.raw)]
                    self.redelivered.update(todo[at:])
            self.done |= producer.done - self.redelivered
            subscriptions = self._resumed(subscriptions, todo)
            todo = [
                one
                for one in todo
                if any(id(one.raw) not in each.already_read for each in subscriptions)
            ]

    def _resumed(
        self, subscriptions: Sequence[Subscription], todo: Sequence[StreamMessage]
    ) -> list[Subscription]:
        """Return restarted subscriptions of those that left early; none if one cannot be built."""
        left = [(each, self._already_read(each, todo)) for each in subscriptions if each.can_resume]
        try:
            return [
                subscription.resumed(already_read)
                for subscription, already_read in left
                if any(id(one.raw) not in already_read for one in todo)
            ]
        except Exception:  # author code may raise anything; unread messages are delivered again
            log.exception("watcher cannot be restarted")
            return []

    def _already_read(
        self, subscription: Subscription, todo: Sequence[StreamMessage]
    ) -> AbstractSet[int]:
        """Return what a watcher has read, and what it must not read yet to keep the order."""
        at = _index(todo)[id(subscription.raw)]
        last = todo[at]
        is_blocked = last.lane is not None and last in self.redelivered
        blocked = [one for one in todo[at:] if is_blocked and one.lane == last.lane]
        return subscription.already_read | {id(one.raw) for one in (*todo[: at + 1], *blocked)}

    @property
    def rejected(self) -> dict[StreamMessage, str]:
        """Finished messages that were rejected, with the reasons."""
        return {
            message: "; ".join(self.reasons[message])
            for message in self._messages
            if message in self.done and message in self.reasons
        }

    def finish(
        self, report: WatchReport, delivery_of: Callable[[StreamMessage], Delivery]
    ) -> set[StreamMessage]:
        """Send rejected messages to the dead-letter queue; return the finished messages."""
        rejected = {one: FailedMessage(delivery_of(one), why) for one, why in self.rejected.items()}
        lost = {
            id(reject)
            for chunk in queues.chunks(rejected.values(), _DEAD_LETTERS_PER_CALL)
            for reject in self._outside.send_to_dlq(chunk)
        }
        report.rejected += len(rejected) - len(lost)
        report.sent_events += self.sent
        report.parked_events += self.parked
        return self.done - {one for one, reject in rejected.items() if id(reject) in lost}

    def _seconds_left(self) -> float:
        return self._deadline - monotonic()

    def _note(self, session: Session, subscriptions: Sequence[Subscription]) -> None:
        self.sent += session.outbox.sent
        self.parked += session.outbox.parked
        self.subscriptions += subscriptions
        index = _index(self._messages)
        for subscription in subscriptions:
            self.fired[subscription.watcher.id] += subscription.fired
            for raw, reason in subscription.rejected:
                reasons = self.reasons[self._messages[index[id(raw)]]]
                reasons += [reason] if reason not in reasons else []


def _index(messages: Sequence[StreamMessage]) -> dict[int, int]:
    return {id(message.raw): at for at, message in enumerate(messages)}
