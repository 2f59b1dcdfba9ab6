"""Numbers for what was derived from events, until it is persisted.

Owns: the one counter of a manager, and which number holds up which event of which reader.
"""

from collections.abc import Container, Iterable
from itertools import count
from typing import TYPE_CHECKING

from lamplighter.triggers.shared_stream.subscriber import AckSubscriber

if TYPE_CHECKING:
    from lamplighter.triggers.shared_stream.lanes import StreamEvent


class Bindings:
    """The numbers of all groups of a manager that await their confirmation."""

    def __init__(self) -> None:
        self._numbers = count()
        self._awaited: dict[int, tuple[AckSubscriber, StreamEvent]] = {}

    def bind(self, subscriber: AckSubscriber) -> int | None:
        """Return a new number for something made of the event that the reader has open, if any."""
        event = subscriber.bind()
        if event is None:
            return None
        number = next(self._numbers)
        self._awaited[number] = subscriber, event
        return number

    def confirm(self, numbers: Iterable[int]) -> None:
        """Note what is persisted; numbers that nobody awaits are ignored."""
        for number in numbers:
            awaited = self._awaited.pop(number, None)
            if awaited is not None:
                subscriber, event = awaited
                subscriber.confirm(event)

    def forget(self, subscribers: Container[AckSubscriber]) -> None:
        """Await nothing more of these readers, whose group is over."""
        self._awaited = {
            number: awaited
            for number, awaited in self._awaited.items()
            if awaited[0] not in subscribers
        }
