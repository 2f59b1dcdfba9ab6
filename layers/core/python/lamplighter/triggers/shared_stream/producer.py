"""The author's side of an acknowledged stream.

Owns: what a producer has to do, what it is told about each event, and the errors that the engine
raises itself. What a source or an `advance` raises reaches the subscribers unchanged.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from lamplighter.errors import LamplighterError


class SharedStreamError(LamplighterError):
    """A stream has ended for a subscriber, by no fault of its own code."""


class AckTimeout(SharedStreamError):
    """A subscriber took longer over an event than the manager's `ack_timeout`."""


class SubscriberOverflow(SharedStreamError):
    """A subscriber is so far behind that its queue is full."""


class PollTerminated(SharedStreamError):
    """The source has no more events: its stream returned, or its task was cancelled."""


@dataclass(frozen=True, slots=True)
class AdvanceOutcome:
    """What the subscribers in an event's snapshot did with it; each is counted once."""

    acked: int  # How many have handled it.
    failed: int  # How many raised.
    rejected: int = 0  # How many called `reject_shared_stream_event`.

    @property
    def is_clean(self) -> bool:
        """Whether at least one subscriber acked the event, and none failed or rejected it."""
        return self.failed == 0 and self.rejected == 0 and self.acked > 0


class AdvanceItem(NamedTuple):
    """A resolved event: what the producer needs to acknowledge it, and the outcome."""

    broker_payload: Any  # What `open_stream` yielded with the event.
    outcome: AdvanceOutcome  # What became of it.


# Outcomes are immutable, and nearly all events of a stream have the same one.
outcome_of = lru_cache(maxsize=256)(AdvanceOutcome)


class SharedStreamProducer(ABC):
    """One connection to a source, shared by all subscribers of its key.

    The defaults suit a source without lanes, and a producer that holds no resources.
    """

    @abstractmethod
    def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        """Yield each raw event with the payload that `advance` gets back."""

    @abstractmethod
    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Acknowledge resolved events at the source, oldest first, all of one lane.

        Called for one batch at a time. Raising ends the stream for every subscriber, and leaves the
        batch to be delivered again.
        """

    def get_advance_lane(
        self,
        broker_payload: Any,  # noqa: ARG002 - overriders decide by it
    ) -> Hashable:
        """Return the lane of an event; events of one lane are advanced in order."""
        return None

    async def aclose(self) -> None:  # noqa: B027 - most producers hold nothing
        """Release what the producer holds; called once, after the last `advance`."""
