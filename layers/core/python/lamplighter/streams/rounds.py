"""A known list of messages for some watchers, as the producer of a shared stream.

Owns: which messages everyone is done with. A message without a lane is a lane of its own; within a
lane nothing is done before what came before it. A watcher that fails begins anew after the message
that it failed at, so that this one does not take those behind it along.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Hashable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

from lamplighter.streams.outbox import Send, send_to_sqs
from lamplighter.streams.session import Session, Work
from lamplighter.triggers.offered import Offer, offering
from lamplighter.triggers.shared_stream import AdvanceItem, SharedStreamProducer

# Less than this is not enough to begin anything.
_LEAST_SECONDS = 0.5


@dataclass(frozen=True, eq=False)
class Arrival:
    """A message, as triggers see it, and its lane."""

    raw: Any
    lane: Hashable | None = None


class ListProducer(SharedStreamProducer):
    """Yields each message once, and notes when everyone is done with it."""

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        self._arrivals = arrivals
        # Those of which something can still become.
        self._open = set(arrivals)
        self._is_over = asyncio.Event()
        self.done: set[Arrival] = set()
        self.given_up: set[Arrival] = set()

    async def open_stream(self) -> AsyncIterator[tuple[Any, Arrival]]:
        # Without a pause in between: everyone who reads is then in every message's snapshot, and
        # no message can pass by someone who failed at an earlier one.
        for arrival in self._arrivals:
            yield arrival.raw, arrival
        # A stream that ends would take from its readers what they have not read.
        await asyncio.Event().wait()

    def get_advance_lane(self, broker_payload: Arrival) -> Hashable:
        return broker_payload if broker_payload.lane is None else broker_payload.lane

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        for arrival, outcome in batch:
            someone = outcome.acked + outcome.rejected
            if arrival in self._open and someone and not outcome.failed:
                self.done.add(arrival)
        self._close(arrival for arrival, _ in batch)

    def give_up(self, raw: Any) -> None:
        """Wait no longer for a message, nor for those that must come after it."""
        first = next(at for at, one in enumerate(self._arrivals) if one.raw is raw)
        lane = self._arrivals[first].lane
        behind = self._arrivals[first + 1 :] if lane is not None else ()
        lost = {self._arrivals[first], *(one for one in behind if one.lane == lane)}
        self.given_up |= lost
        self._close(lost)

    async def wait(self) -> None:
        """Return when nothing can become of any message any more."""
        await self._is_over.wait()

    def _close(self, arrivals: Iterable[Arrival]) -> None:
        self._open.difference_update(arrivals)
        if not self._open:
            self._is_over.set()


class Rounds:
    """Some watchers at work on a list of messages, for some seconds."""

    def __init__(
        self, arrivals: Sequence[Arrival], *, seconds: float, send: Send = send_to_sqs
    ) -> None:
        self._arrivals = arrivals
        self._deadline = monotonic() + seconds
        self._send = send
        self.works: list[Work] = []
        self.done: set[Arrival] = set()
        self.reasons: dict[Arrival, list[str]] = defaultdict(list)
        self.fired: Counter[str] = Counter()
        self.sent = 0
        self.kept = 0

    async def run(self, works: Sequence[Work]) -> None:
        """Let everyone read everything, and those who left early the rest, again and again."""
        todo = self._arrivals
        while works and todo and self._seconds_left() > _LEAST_SECONDS:
            producer = ListProducer(todo)
            session = Session(
                works,
                seconds=self._seconds_left(),
                at_once=len(todo),
                on_failure=producer.give_up,
                send=self._send,
            )
            with offering(Offer(producer=producer)):
                await session.run(producer.wait())
            self._note(session, works)
            self.done |= producer.done
            if any(work.was_given_up or (work.has_left and not work.pulled) for work in works):
                return  # what someone has not read, nobody may acknowledge
            works = [work.again() for work in works if work.has_left]
            todo = [one for one in todo if one not in self.done and one not in producer.given_up]

    @property
    def rejected(self) -> dict[Arrival, str]:
        """What was refused and everyone is done with, each with the reasons."""
        return {
            arrival: "; ".join(self.reasons[arrival])
            for arrival in self._arrivals
            if arrival in self.done and arrival in self.reasons
        }

    def _seconds_left(self) -> float:
        return self._deadline - monotonic()

    def _note(self, session: Session, works: Sequence[Work]) -> None:
        self.sent += session.outbox.sent
        self.kept += session.outbox.kept
        self.works += works
        by_raw = {id(arrival.raw): arrival for arrival in self._arrivals}
        for work in works:
            self.fired[work.watcher.id] += work.fired
            for raw, reason in work.rejected:
                reasons = self.reasons[by_raw[id(raw)]]
                reasons += [reason] if reason not in reasons else []
