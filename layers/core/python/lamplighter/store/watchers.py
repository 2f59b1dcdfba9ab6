"""The rows of watchers: who reads what, and how often each has fired.

Owns: the kinds of Catalog that are about watchers, and how a row is named.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pendulum import DateTime

from lamplighter import clock
from lamplighter.store.models import Catalog, Dags
from lamplighter.store.transactions import update_if

_READERS = "watchers#"
_FIRED, _PARKED = "fired", "parked"


@dataclass(frozen=True)
class Place:
    """Where the row of a watcher is. As text it stands on the row of its DAG."""

    queue: str | None  # None: its source must be asked
    dag_id: str
    asset_id: str
    mark: str  # of its trigger: an asset may have two watchers of one name
    name: str

    @property
    def row(self) -> Catalog:
        """The row, with nothing but its key."""
        return Catalog(readers_of(self.queue), str(self).partition("/")[2])

    def __str__(self) -> str:
        return "/".join((self.queue or "", self.dag_id, self.asset_id, self.mark, self.name))

    @classmethod
    def of(cls, text: str) -> "Place":
        """Return the place that a text names; only the last part may hold slashes."""
        queue, *rest = text.split("/", 4)
        return cls(queue or None, *rest)


def mark_of(trigger: Mapping[str, Any]) -> str:
    """Return what tells a trigger, as it is written, from others."""
    written = json.dumps([trigger["type"], trigger["data"]], sort_keys=True)
    return hashlib.sha256(written.encode()).hexdigest()[:8]


def readers_of(queue: str | None) -> str:
    """Return the kind of the rows of all who read a queue, or of those whose source is asked."""
    return f"{_READERS}{queue or ''}"


def read_watchers(queue: str | None) -> list[Catalog]:
    """Return the rows of all who read a queue, or of those whose source must be asked."""
    return list(Catalog.query(readers_of(queue), consistent_read=True))


# Those who fire too often.


def read_parked() -> dict[str, Catalog]:
    """Return the watchers that are parked, by their ids."""
    return {row.id: row for row in Catalog.query(_PARKED, consistent_read=True)}


def count_fired(fired: Mapping[str, int], *, limit: int) -> list[str]:
    """Add to what watchers have fired this minute, and park those beyond the limit; return them."""
    minute = clock.now().start_of("minute")
    return [
        watcher
        for watcher, times in fired.items()
        if _count(watcher, times, minute) > limit and _park(watcher, minute)
    ]


def _count(watcher: str, times: int, minute: DateTime) -> int:
    row = Catalog(_FIRED, watcher)
    more = [Catalog.fired.add(times)]
    if not update_if(row, more, Catalog.minute == minute):
        anew = [Catalog.minute.set(minute), Catalog.fired.set(times)]
        is_older = Catalog.minute.does_not_exist() | (Catalog.minute < minute)
        if not update_if(row, anew, is_older):
            update_if(row, more, Catalog.minute >= minute)  # another began the minute meanwhile
    return int(row.fired or 0)


def _park(watcher: str, now: DateTime) -> bool:
    is_new = Catalog.updated_at.does_not_exist()
    return update_if(Catalog(_PARKED, watcher), [Catalog.updated_at.set(now)], is_new)


def resume(watchers: Iterable[str]) -> None:
    """Let watchers that are parked fire again."""
    for watcher in watchers:
        Catalog(_FIRED, watcher).delete()
        Catalog(_PARKED, watcher).delete()


def read_registered_watchers() -> list[Catalog]:
    """Return the rows of all watchers that DAGs list."""
    dags = Dags.scan(Dags.watchers.exists(), attributes_to_get=["dag_id", "watchers"])
    places = [Place.of(text) for row in dags for text in row.watchers or ()]
    keys = [(place.row.kind, place.row.id) for place in places]
    return list(Catalog.batch_get(keys)) if keys else []
