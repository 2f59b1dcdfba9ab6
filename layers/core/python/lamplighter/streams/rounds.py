"""A known list of messages for some watchers, as the producer of a shared stream.

Owns: which messages everyone is done with. A message without a lane is a lane of its own; within a
lane nothing is done before what came before it. A watcher that fails begins anew after the message
that it failed at, so that this one does not take those behind it along.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from time import monotonic
from typing import Any

from lamplighter.streams.outbox import Send, send_to_sqs
from lamplighter.streams.session import Session, Work
from lamplighter.triggers.offered import Offer, offering
from lamplighter.triggers.shared_stream import AdvanceItem, SharedStreamProducer

log = logging.getLogger(__name__)

# Less than this is not enough to begin anything.
_LEAST_SECONDS = 0.5


@dataclass(frozen=True, eq=False)
class Arrival:
    """A message, as triggers see it, and its lane."""

    raw: Any
    lane: Hashable | None = None


class ListProducer(SharedStreamProducer):
    """Yields each message once, and notes when everyone is done with it."""

    def __init__(self, arrivals: Sequence[Arrival], given_up: set[Arrival]) -> None:
        self._arrivals = arrivals
        self._places = _places(arrivals)
        # Those that someone has not done with.
        self._open = set(arrivals)
        self._is_over = asyncio.Event()
        self.done: set[Arrival] = set()
        # Those that come again, whatever becomes of them now.
        self.given_up = given_up

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
            if someone and not outcome.failed and arrival not in self.given_up:
                self.done.add(arrival)
        self._open.difference_update(arrival for arrival, _ in batch)
        if not self._open:
            self._is_over.set()

    def give_up(self, raw: Any) -> None:
        """Let a message come again, and those that must come after it; all may still read them."""
        at = self._places[id(raw)]
        first = self._arrivals[at]
        if first in self.given_up:
            return
        behind = self._arrivals[at + 1 :] if first.lane is not None else ()
        self.given_up |= {first, *(one for one in behind if one.lane == first.lane)}

    async def wait(self) -> None:
        """Return when everyone is done with every message, for better or worse."""
        await self._is_over.wait()


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
        self.given_up: set[Arrival] = set()
        self.reasons: dict[Arrival, list[str]] = defaultdict(list)
        self.fired: Counter[str] = Counter()
        self.sent = 0
        self.kept = 0

    async def run(self, works: Sequence[Work]) -> None:
        """Let everyone read everything, and those who left early the rest, again and again."""
        todo = self._arrivals
        while works and todo and self._seconds_left() > _LEAST_SECONDS:
            producer = ListProducer(todo, self.given_up)
            session = Session(
                works,
                seconds=self._seconds_left(),
                at_once=len(todo),
                failures=producer,
                send=self._send,
            )
            with offering(Offer(producer=producer)):
                await session.run(producer.wait())
            self._note(session, works)
            for work in works:
                self.given_up.update(_never_read(work, todo))
            self.done |= producer.done - self.given_up
            works = self._again(works, todo)
            todo = [one for one in todo if any(id(one.raw) not in work.passed for work in works)]

    def _again(self, works: Sequence[Work], todo: Sequence[Arrival]) -> list[Work]:
        """Return those who left with something unread, ready for it; none, if one cannot be."""
        unread = [(work, self._passed(work, todo)) for work in works if work.may_go_on]
        try:
            return [
                work.again(passed)
                for work, passed in unread
                if any(id(one.raw) not in passed for one in todo)
            ]
        except Exception:  # an author's code may raise anything; what it has not read comes again
            log.exception("a watcher that left cannot be built again")
            return []

    def _passed(self, work: Work, todo: Sequence[Arrival]) -> AbstractSet[int]:
        """Return what a watcher has read, and what it may not read yet for the sake of order."""
        at = _places(todo)[id(work.raw)]
        left = todo[at]
        is_behind = left.lane is not None and left in self.given_up
        behind = [one for one in todo[at:] if is_behind and one.lane == left.lane]
        return work.passed | {id(one.raw) for one in (*todo[: at + 1], *behind)}

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


def _never_read(work: Work, todo: Sequence[Arrival]) -> Sequence[Arrival]:
    """Return what nobody may acknowledge, because a watcher will not read it in this batch."""
    if work.may_go_on or work.is_waiting:
        return ()
    return todo if work.raw is None else todo[_places(todo)[id(work.raw)] :]


def _places(arrivals: Sequence[Arrival]) -> dict[int, int]:
    return {id(arrival.raw): at for at, arrival in enumerate(arrivals)}
