"""An author's own producer, which is not told of events that one of the watchers did not finish.

Owns: what is withheld from `advance`, so that the source delivers it again in the next session, and
what is given up. A producer may commit whatever it is told of, and in a log with partitions a
commit in one does not wait for the others. So an event that a watcher did not finish holds back all
later ones, whatever their lane. A watcher that failed in too many sessions holds nothing back: a
copy of each event that it does not finish becomes a dead letter, and the producer is told that one
watcher failed. Ack timeouts and full queues are passed on at once, as the engine reports them.
"""

import json
import math
import uuid
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lamplighter.events.dead_letters import NOWHERE, FailedMessage
from lamplighter.queues import Delivery
from lamplighter.streams.outside import send_to_dlq
from lamplighter.triggers.shared_stream import AdvanceItem, AdvanceOutcome, SharedStreamProducer


@dataclass
class Progress:
    """How far one watcher got in a session; the events of a stream are numbered from 1."""

    read: int = 0
    finished: int = 0  # moved past, or rejected
    # What its code raised, by event; the watcher may have gone on behind it.
    errors: dict[int, str] = field(default_factory=dict)
    has_raised: bool = False  # at an event or between two
    # Whether it ended before the stream, other than by an ack timeout or a full queue.
    has_ended: bool = False
    gives_up: bool = False  # because it failed in too many sessions

    def note_error(self, error: str) -> None:
        """Note that the watcher's code raised, at the event that it was at, if any."""
        self.has_raised = True
        if self.read > self.finished:
            self.errors[self.read] = error

    def has_finished(self, number: int) -> bool:
        """Return whether the watcher has taken, skipped or rejected an event."""
        return number <= self.finished and number not in self.errors


class GivenUp(NamedTuple):
    """An event that a watcher will not get again."""

    number: int
    raw: Any
    reason: str


# Stores copies of events; returns those that could not be stored.
Keep = Callable[[Sequence[GivenUp]], Sequence[GivenUp]]


def keep_as_dead_letters(
    events: Sequence[GivenUp],
    *,
    send: Callable[[Sequence[FailedMessage]], list[FailedMessage]] = send_to_dlq,
) -> list[GivenUp]:
    """Send copies of events to the dead-letter queue; return those that could not be sent."""
    letters = {id(event): FailedMessage(_as_delivery(event.raw), event.reason) for event in events}
    lost = {id(letter) for letter in send(list(letters.values()))}
    return [event for event in events if id(letters[id(event)]) in lost]


def _as_delivery(raw: Any) -> Delivery:
    name = str(getattr(raw, "message_id", None) or uuid.uuid4().hex)
    return Delivery(name, _text(raw), name, receipt="", receives=1, lane=None, queue_arn=NOWHERE)


def _text(raw: Any) -> str:
    if isinstance(raw, str):
        return raw
    try:
        return json.dumps(raw, default=lambda one: getattr(one, "__dict__", None) or repr(one))
    except (TypeError, ValueError, RecursionError):
        return repr(raw)


class _Event(NamedTuple):
    """What the engine gives back for an event."""

    number: int
    raw: Any
    payload: Any


@dataclass
class GuardedProducer(SharedStreamProducer):
    """Tells a producer only of events that all watchers of its stream have finished or given up."""

    producer: SharedStreamProducer
    watchers: Sequence[tuple[str, Progress]]  # with their titles
    keep: Keep
    delivered: int = 0
    given_up: int = 0
    _withheld_from: float = math.inf

    def withhold_from(self, number: int) -> None:
        """Let an event and all later ones be delivered again in the next session."""
        self._withheld_from = min(self._withheld_from, number)

    async def open_stream(self) -> AsyncIterator[tuple[Any, _Event]]:
        stream = self.producer.open_stream()
        try:
            async for raw, payload in stream:
                self.delivered += 1
                yield raw, _Event(self.delivered, raw, payload)
        finally:
            aclose = getattr(stream, "aclose", None)
            if aclose is not None:
                await aclose()

    def get_advance_lane(self, broker_payload: _Event) -> Hashable:
        return self.producer.get_advance_lane(broker_payload.payload)

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        for event, outcome in batch:
            if self._is_blocked(event.number, outcome):
                self.withhold_from(event.number)
        # Before the producer hears of it: whoever dies in between leaves one copy too many.
        letters = [letter for event, _ in self._released(batch) for letter in self._letters(event)]
        lost = self.keep(letters) if letters else ()
        self.given_up += len(letters) - len(lost)
        for letter in lost:
            self.withhold_from(letter.number)
        released = [
            AdvanceItem(event.payload, self._outcome(event.number, outcome))
            for event, outcome in self._released(batch)
        ]
        if released:
            await self.producer.advance(released)

    async def aclose(self) -> None:
        await self.producer.aclose()

    def _released(self, batch: Sequence[AdvanceItem]) -> Iterator[AdvanceItem]:
        return (item for item in batch if item.broker_payload.number < self._withheld_from)

    def _is_blocked(self, number: int, outcome: AdvanceOutcome) -> bool:
        """Return whether a watcher that does not give up must get an event again."""
        # Whoever was there when the event came, and has not left, was failed by the engine.
        is_incomplete = self._missing(outcome) > 0
        return any(
            not one.gives_up and not one.has_finished(number) and (is_incomplete or one.has_ended)
            for _, one in self.watchers
        )

    def _letters(self, event: _Event) -> Iterator[GivenUp]:
        for title, watcher in self.watchers:
            if watcher.gives_up and not watcher.has_finished(event.number):
                error = watcher.errors.get(event.number)
                what = "did not finish it" if error is None else f"failed at it: {error}"
                yield GivenUp(event.number, event.raw, f"{title} {what}")

    def _outcome(self, number: int, outcome: AdvanceOutcome) -> AdvanceOutcome:
        """Count those as failed who moved on behind an error, and those who were not there."""
        moved_on = sum(number in one.errors for _, one in self.watchers)
        acked = max(0, outcome.acked - moved_on)
        failed = outcome.failed + outcome.acked - acked + self._missing(outcome)
        return AdvanceOutcome(acked, failed, outcome.rejected)

    def _missing(self, outcome: AdvanceOutcome) -> int:
        """Return how many watchers were not there when an event came."""
        return len(self.watchers) - outcome.acked - outcome.failed - outcome.rejected
