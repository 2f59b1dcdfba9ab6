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


def new_items(
    items: Sequence[SourceItem], seen: bytes | None, *, since: DateTime
) -> list[SourceItem]:
    """Return the items that watchers have not been given.

    `seen` is what was stored after the last poll; None: there was none since the watchers exist.
    """
    if len(items) > MAX_ITEMS:
        raise DefinitionError(
            f"the source has {len(items):,} items, and at most {MAX_ITEMS:,} can be"
            " remembered: watch a narrower place, or let S3 send its events"
        )
    if seen is not None:
        hashes = {seen[at : at + _HASH_BYTES] for at in range(0, len(seen), _HASH_BYTES)}
        return [item for item in items if _hash(item) not in hashes]
    # Sources report whole seconds, which lie before the instants that they mean.
    first = since.start_of("second")
    return [item for item in items if item.modified_at is not None and item.modified_at >= first]


def to_bytes(items: Iterable[SourceItem]) -> bytes:
    """Return what to store of items that are there and must not fire again."""
    return b"".join(sorted({_hash(item) for item in items}))


def _hash(item: SourceItem) -> bytes:
    return hashlib.sha256(item.message_id.encode()).digest()[:_HASH_BYTES]
