"""Sources that must be asked: who asks one at the moment, and what has been seen there.

Owns: that two never ask the same source at once. Whoever is late finds that the row is not theirs
any more, and what they saw is not remembered; then it is seen again, and known by its id.
"""

import uuid
from dataclasses import dataclass

from pendulum import DateTime

from lamplighter import clock
from lamplighter.store.models import Catalog
from lamplighter.store.transactions import update_if

_KIND = "stream"


@dataclass(frozen=True)
class Lease:
    """The right to ask a source for a while, with what was seen there before."""

    stream: str
    owner: str
    looked_at: DateTime | None
    seen: bytes | None


def take(stream: str, *, seconds: float) -> Lease | None:
    """Return the right to ask a source, or None while another has it."""
    now, owner = clock.now(), uuid.uuid4().hex
    row = Catalog(_KIND, stream)
    is_free = Catalog.until.does_not_exist() | (Catalog.until <= now)
    actions = [Catalog.owner.set(owner), Catalog.until.set(now.add(seconds=seconds))]
    if not update_if(row, actions, is_free):
        return None
    return Lease(stream, owner, row.looked_at, row.seen)


def give_back(lease: Lease, *, seen: bytes | None) -> bool:
    """End a lease and keep what was seen, if anything was; return whether it was still held."""
    actions = [Catalog.until.set(clock.now())]
    if seen is not None:
        actions += [Catalog.seen.set(seen), Catalog.looked_at.set(clock.now())]
    return update_if(Catalog(_KIND, lease.stream), actions, Catalog.owner == lease.owner)
