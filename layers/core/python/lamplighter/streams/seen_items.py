"""The items of a polled source that were seen, so that only new ones fire.

Owns: what counts as new. An item is identified by name and version. Items older than the first
watcher are not new; items at which a watcher failed are new again.
"""

import hashlib
from collections.abc import Iterable, Sequence

from pendulum import DateTime

from lamplighter.errors import DefinitionError
from lamplighter.triggers.sources import SourceItem

_HASH_BYTES = 8
# The maximum that fits into a row.
MAX_ITEMS = 40_000


class SeenItems:
    """The seen items of a source as stored by the last poll; None if it was never polled."""

    def __init__(self, stored: bytes | None, *, since: DateTime) -> None:
        self._hashes = None if stored is None else _split(stored)
        # Sources round timestamps down to whole seconds.
        self._since = since.start_of("second")

    def new_among(self, items: Sequence[SourceItem]) -> list[SourceItem]:
        """Return the items that have not been delivered."""
        if len(items) > MAX_ITEMS:
            raise DefinitionError(
                f"the source has {len(items):,} items, at most {MAX_ITEMS:,} can be tracked:"
                " watch a narrower prefix, or use S3 event notifications"
            )
        return [item for item in items if self._is_new(item)]

    def _is_new(self, item: SourceItem) -> bool:
        if self._hashes is not None:
            return _hash(item) not in self._hashes
        return item.modified_at is not None and item.modified_at >= self._since


def to_bytes(items: Iterable[SourceItem]) -> bytes:
    """Return the stored form of items that must not fire again."""
    return b"".join(sorted({_hash(item) for item in items}))


def _hash(item: SourceItem) -> bytes:
    return hashlib.sha256(item.message_id.encode()).digest()[:_HASH_BYTES]


def _split(stored: bytes) -> set[bytes]:
    return {stored[at : at + _HASH_BYTES] for at in range(0, len(stored), _HASH_BYTES)}
