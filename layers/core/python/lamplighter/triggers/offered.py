"""What a trigger is offered by whoever runs it: triggers are pure, and reach no service themselves.

Owns: the names of what can be offered. A deployment offers what its `watch` function was woken
with; whoever tests a trigger offers something made up.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Never

from pendulum import DateTime

from lamplighter.errors import DefinitionError
from lamplighter.triggers.shared_stream.producer import SharedStreamProducer


@dataclass(frozen=True)
class Sighting:
    """Something that was there when a source was looked at.

    `identity` changes whenever a trigger is to fire again for the same `name`.
    """

    name: str
    identity: str
    payload: dict[str, Any] = field(default_factory=dict)
    # When it became what it is, if the source says so.
    changed_at: DateTime | None = None

    @property
    def message_id(self) -> str:
        """By which repetitions of the same sighting are known."""
        return f"{self.name}@{self.identity}"


def _nothing(*_: object) -> Never:
    raise DefinitionError("a trigger may ask for this only while it looks at its source")


@dataclass(frozen=True)
class Offer:
    """The ways to a source."""

    # What has come: messages of a queue, or what is new at a source that was looked at.
    producer: SharedStreamProducer | None = None
    # The objects of a bucket whose keys begin with a prefix.
    objects: Callable[[str, str], Sequence[Sighting]] = _nothing


_offer: ContextVar[Offer | None] = ContextVar("lamplighter_offer", default=None)


@contextmanager
def offering(offer: Offer) -> Iterator[None]:
    """Let triggers that are opened in the block find these ways to their sources."""
    token = _offer.set(offer)
    try:
        yield
    finally:
        _offer.reset(token)


def offered_producer() -> SharedStreamProducer:
    """Return what has come for the trigger that is being opened."""
    producer = offered().producer
    if producer is None:
        raise DefinitionError("nothing has come for this trigger; it is fed by a deployment")
    return producer


def offered() -> Offer:
    """Return what whoever runs this trigger offers."""
    offer = _offer.get()
    if offer is None:
        raise DefinitionError(
            "this trigger is fed by a deployment: try it with `lamplighter watchers test`"
        )
    return offer
