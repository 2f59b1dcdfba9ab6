"""Rows of watchers and of polled sources.

Owns: the kinds of Catalog about watchers, which a push writes, and their keys. And WatcherStates,
which the function writes that runs watchers: how often each has fired, and the lease that keeps two
functions from polling a source at the same time.
"""

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pendulum import DateTime

from lamplighter import clock
from lamplighter.store.models import Catalog, Dags, WatcherStates
from lamplighter.store.transactions import update_if

_FIRED, _PARKED, _STREAM = "fired", "parked", "stream"


@dataclass(frozen=True)
class WatcherKey:
    """The key of a watcher's row; as text, it is listed on the row of its DAG."""

    queue: str | None  # None if its source is polled
    dag_id: str
    asset_id: str
    trigger_hash: str  # an asset may have two watchers with one name
    name: str

    @property
    def row(self) -> Catalog:
        """The row with only its key."""
        return Catalog(watcher_row_kind(self.queue), str(self).partition("/")[2])

    def __str__(self) -> str:
        return "/".join(
            (self.queue or "", self.dag_id, self.asset_id, self.trigger_hash, self.name)
        )

    @classmethod
    def parse(cls, text: str) -> "WatcherKey":
        """Return the key in a text; only the last part may contain slashes."""
        queue, *rest = text.split("/", 4)
        return cls(queue or None, *rest)


def trigger_hash(trigger: Mapping[str, Any]) -> str:
    """Return a short hash of a serialized trigger."""
    text = json.dumps([trigger["type"], trigger["data"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def watcher_row_kind(queue: str | None) -> str:
    """Return the kind of the rows of a queue's watchers, or of polled ones."""
    return f"watchers#{queue or ''}"


def read_watchers(queue: str | None) -> list[Catalog]:
    """Return the watchers of a queue, or those whose source is polled."""
    return list(Catalog.query(watcher_row_kind(queue), consistent_read=True))


def read_watchers_by_key(keys: Iterable[WatcherKey], *, consistent: bool) -> list[Catalog]:
    """Return the watchers that exist."""
    found = [(key.row.kind, key.row.id) for key in keys]
    return list(Catalog.batch_get(found, consistent_read=consistent)) if found else []


def read_registered_watchers() -> list[Catalog]:
    """Return all watchers that DAGs list."""
    dags = Dags.scan(Dags.watchers.exists(), attributes_to_get=["dag_id", "watchers"])
    keys = [WatcherKey.parse(text) for row in dags for text in row.watchers or ()]
    return read_watchers_by_key(keys, consistent=False)


# Watchers that fire too often.


def read_parked() -> dict[str, WatcherStates]:
    """Return the parked watchers by id."""
    return {row.id: row for row in WatcherStates.query(_PARKED, consistent_read=True)}


def count_fired(fired: Mapping[str, int], *, limit: int) -> list[str]:
    """Count events of this minute; park the watchers that exceed the limit and return them."""
    minute = clock.now().start_of("minute")
    return [
        watcher
        for watcher, times in fired.items()
        if _count(watcher, times, minute) > limit and _park(watcher, minute)
    ]


def _count(watcher: str, times: int, minute: DateTime) -> int:
    row = WatcherStates(_FIRED, watcher)
    add = [WatcherStates.fired.add(times)]
    if not update_if(row, add, WatcherStates.minute == minute):
        reset = [WatcherStates.minute.set(minute), WatcherStates.fired.set(times)]
        is_older = WatcherStates.minute.does_not_exist() | (WatcherStates.minute < minute)
        if not update_if(row, reset, is_older):
            update_if(row, add, WatcherStates.minute >= minute)  # another process began the minute
    return int(row.fired or 0)


def _park(watcher: str, now: DateTime) -> bool:
    is_new = WatcherStates.updated_at.does_not_exist()
    return update_if(WatcherStates(_PARKED, watcher), [WatcherStates.updated_at.set(now)], is_new)


def resume(watchers: Iterable[str]) -> None:
    """Release parked watchers."""
    for watcher in watchers:
        WatcherStates(_FIRED, watcher).delete()
        WatcherStates(_PARKED, watcher).delete()


# Polled sources. A session that lost its lease stores nothing of what it saw: items are read again
# and deduplicated by id.


@dataclass(frozen=True)
class StreamLease:
    """The right to poll a source for a limited time, and what earlier sessions stored.

    That is the items seen before, or by watcher how many of the newest sessions it has failed in.
    """

    stream: str
    owner: str
    polled_at: DateTime | None
    seen_items: bytes | None
    failed_sessions: Mapping[str, int]


def acquire_lease(stream: str, *, seconds: float) -> StreamLease | None:
    """Return the lease of a source, or None if another process holds it."""
    now, owner = clock.now(), uuid.uuid4().hex
    row = WatcherStates(_STREAM, stream)
    is_free = WatcherStates.lease_expires_at.does_not_exist() | (
        WatcherStates.lease_expires_at <= now
    )
    actions = [
        WatcherStates.lease_owner.set(owner),
        WatcherStates.lease_expires_at.set(now.add(seconds=seconds)),
    ]
    if not update_if(row, actions, is_free):
        return None
    failed = row.failed_sessions or {}
    return StreamLease(stream, owner, row.polled_at, row.seen_items, failed)


def release_lease(
    lease: StreamLease,
    *,
    seen_items: bytes | None = None,
    failed_sessions: Mapping[str, int] | None = None,
) -> bool:
    """End a lease and store what the session saw, if anything; return whether it was still held."""
    actions = [WatcherStates.lease_expires_at.set(clock.now())]
    if seen_items is not None:
        actions += [
            WatcherStates.seen_items.set(seen_items),
            WatcherStates.polled_at.set(clock.now()),
        ]
    if failed_sessions is not None:
        actions += [WatcherStates.failed_sessions.set(dict(failed_sessions))]
    row = WatcherStates(_STREAM, lease.stream)
    return update_if(row, actions, WatcherStates.lease_owner == lease.owner)
