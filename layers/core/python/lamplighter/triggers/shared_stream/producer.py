"""The author's side of a stream that is acknowledged.

Owns: the contract only. What is not overridden suits a source without lanes that holds nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Hashable, Sequence
from typing import Any

from lamplighter.triggers.shared_stream.outcome import AdvanceItem


class SharedStreamProducer(ABC):
    """One reading of a source, shared by all who subscribed to its key."""

    @abstractmethod
    def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        """Yield each raw event with the payload that `advance` is to get back."""

    @abstractmethod
    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Tell the source that these events are done with, oldest first, all of one lane.

        Called for one batch at a time. Raising ends the stream for everyone, and leaves the batch
        to be delivered again.
        """

    def get_advance_lane(
        self,
        broker_payload: Any,  # noqa: ARG002 - overriders decide by it
    ) -> Hashable:
        """Return the lane of an event; events of one lane are advanced in their order."""
        return None

    async def aclose(self) -> None:  # noqa: B027 - most producers hold nothing
        """Release what the producer holds; called once, after the last `advance`."""
