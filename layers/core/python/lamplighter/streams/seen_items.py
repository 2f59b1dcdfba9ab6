"""Which items of a polled source were seen, so that only new ones fire.

Owns: what counts as new. An item is known by its name and version. What was there before the first
of its watchers was created is not new; what a watcher failed at is new again the next time.
"""

import hashlib
from collections.abc import Iterable, Sequence

from pendulum import DateTime

from lamplighter.errors import DefinitionError
from lamplighter.triggers.sources import SourceItem

_HASH_BYTES = 8
# As many as fit into a row.
MAX_ITEMS = 40_000


class SeenItems:
    """The items of a source that were seen, as stored after the last poll; None: never polled."""

    def __init__(self, stored: bytes | None, *, since: DateTime) -> None:
        self._hashes = None if stored is None else _split(stored)
        # Sources report whole seconds, which lie before the instants that they mean.
        self._since = since.start_of("second")

    def new_among(self, items: Sequence[SourceItem]) -> list[SourceItem]:
        """Return the items that watchers have not been given."""
        if len(items) > MAX_ITEMS:
            raise DefinitionError(
                f"the source has {len(items):,} items, and at most {MAX_ITEMS:,} can be"
                " remembered: watch a narrower place, or let S3 send its events"
            )
        return [item for item in items if self._is_new(item)]

    def _is_new(self, item: SourceItem) -> bool:
        if self._hashes is not None:
            return _hash(item) not in self._hashes
        return item.modified_at is not None and item.modified_at >= self._since


def to_bytes(items: Iterable[SourceItem]) -> bytes:
    """Return what to store of items that are there and must not fire again."""
    return b"".join(sorted({_hash(item) for item in items}))


def _hash(item: SourceItem) -> bytes:
    return hashlib.sha256(item.message_id.encode()).digest()[:_HASH_BYTES]


def _split(stored: bytes) -> set[bytes]:
    return {stored[at : at + _HASH_BYTES] for at in range(0, len(stored), _HASH_BYTES)}
