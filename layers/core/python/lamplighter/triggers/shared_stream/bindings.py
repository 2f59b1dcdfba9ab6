"""What was derived from an event, and whether it is persisted.

Owns: sequence numbers. An event counts as taken only when its reader has moved on and everything
that the reader made of it is confirmed.
"""

from collections.abc import Container, Iterable
from itertools import count
from typing import TYPE_CHECKING

from lamplighter.triggers.shared_stream.lanes import StreamEvent

if TYPE_CHECKING:
    from lamplighter.triggers.shared_stream.subscriber import AckSubscriber, Subscriber


class Binding:
    """What one reader derived from one event."""

    __slots__ = ("event", "is_closed", "subscriber", "unconfirmed")

    def __init__(self, subscriber: "AckSubscriber", event: StreamEvent) -> None:
        self.subscriber = subscriber
        self.event = event
        self.unconfirmed = 0
        self.is_closed = False

    def settle(self) -> None:
        """Count the event as taken, if the reader has moved on and nothing is unconfirmed."""
        if self.unconfirmed or not self.is_closed:
            return
        # It is gone if the event was rejected, or the reader failed, in the meantime.
        if self.subscriber.bound.pop(self.event, None) is not None:
            self.event.ack()


class Bindings:
    """The sequence numbers of all groups of a manager that await their confirmation."""

    def __init__(self) -> None:
        self._numbers = count()
        self._awaited: dict[int, Binding] = {}

    def bind(self, subscriber: "Subscriber") -> int | None:
        """Return a new number for something made of the event that the reader has open, if any."""
        binding = subscriber.open_binding()
        if binding is None:
            return None
        number = next(self._numbers)
        self._awaited[number] = binding
        binding.unconfirmed += 1
        return number

    def confirm(self, numbers: Iterable[int]) -> None:
        """Note what is persisted; numbers that nobody awaits are ignored."""
        for number in numbers:
            binding = self._awaited.pop(number, None)
            if binding is not None:
                binding.unconfirmed -= 1
                binding.settle()

    def forget(self, subscribers: Container[object]) -> None:
        """Await nothing more of these readers, whose group is over."""
        self._awaited = {
            number: binding
            for number, binding in self._awaited.items()
            if binding.subscriber not in subscribers
        }
