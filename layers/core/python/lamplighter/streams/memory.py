"""What has been seen at a source that must be asked, so that only what is new fires.

Owns: what counts as new. A thing is known by its name and its identity. What was there before the
first of its watchers came is not new; what someone failed at is new again the next time.
"""

import hashlib
from collections.abc import Iterable, Sequence

from pendulum import DateTime

from lamplighter.errors import DefinitionError
from lamplighter.triggers.offered import Sighting

_BYTES = 8
# As many as fit into a row.
MAX_SIGHTINGS = 40_000


class Memory:
    """What is known of a source, as it was written after the last look."""

    def __init__(self, seen: bytes | None, *, since: DateTime) -> None:
        self._known = None if seen is None else _split(seen)
        # Sources tell whole seconds, which lie before the instants that they mean.
        self._since = since.start_of("second")

    def new(self, sightings: Sequence[Sighting]) -> list[Sighting]:
        """Return what a watcher has not been told of."""
        if len(sightings) > MAX_SIGHTINGS:
            raise DefinitionError(
                f"{len(sightings):,} things are there, and at most {MAX_SIGHTINGS:,} can be"
                " remembered: watch a narrower place, or let S3 send its events"
            )
        return [sighting for sighting in sightings if self._is_new(sighting)]

    def _is_new(self, sighting: Sighting) -> bool:
        if self._known is not None:
            return _mark(sighting) not in self._known
        return sighting.changed_at is not None and sighting.changed_at >= self._since


def written(sightings: Iterable[Sighting]) -> bytes:
    """Return what to remember of things that are there and need not be told again."""
    return b"".join(sorted({_mark(sighting) for sighting in sightings}))


def _mark(sighting: Sighting) -> bytes:
    return hashlib.sha256(sighting.message_id.encode()).digest()[:_BYTES]


def _split(seen: bytes) -> set[bytes]:
    return {seen[at : at + _BYTES] for at in range(0, len(seen), _BYTES)}
