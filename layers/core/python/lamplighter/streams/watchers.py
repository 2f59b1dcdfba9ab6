"""Watchers as they are at work: read from their rows, their triggers built.

Owns: running an author's code outside the sandbox, which only `watch` does: it may send events and
read bundles, and nothing else.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pendulum import DateTime

from lamplighter.assets.codec import decode_trigger
from lamplighter.loading import author_code_allowed
from lamplighter.store.models import Catalog
from lamplighter.store.watchers import mark_of
from lamplighter.streams.author_bundles import importing_from
from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.feeds import Watched

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Watcher:
    """A watcher of an asset, as its DAG declares it."""

    asset: str  # by name
    name: str
    trigger: dict[str, Any]  # as it is written
    bundle: str
    bundle_version: str
    dag_ids: tuple[str, ...]
    since: DateTime

    @cached_property
    def id(self) -> str:
        """What tells it from all others: a watcher that watches something else is another one."""
        return f"{self.path}/{mark_of(self.trigger)}"

    @property
    def path(self) -> str:
        """How people call it."""
        return f"{self.asset}/{self.name}"

    @property
    def title(self) -> str:
        """How it is called in messages to people."""
        return f"watcher {self.name!r} of asset {self.asset!r}"

    @property
    def watched(self) -> Watched:
        """What it reads."""
        return Watched.from_json(self.trigger)

    def build(self) -> BaseEventTrigger:
        """Return the trigger itself, which may be an author's."""
        path = self.trigger["type"]
        with importing_from(self.bundle, self.bundle_version, path), author_code_allowed():
            return decode_trigger(self.trigger)


def watchers_in(rows: Iterable[Catalog]) -> list[Watcher]:
    """Return the watchers of rows; one that several DAGs declare alike is one."""
    found: dict[str, Watcher] = {}
    for row in sorted(rows, key=lambda row: row.id):
        dag_id = row.id.partition("/")[0]
        watcher = Watcher(
            row.watcher["asset"],
            row.watcher["name"],
            row.watcher["trigger"],
            row.bundle or "",
            row.bundle_version or "",
            (dag_id,),
            row.since,
        )
        known = found.get(watcher.id)
        found[watcher.id] = watcher if known is None else _together(known, watcher)
    return list(found.values())


def _together(one: Watcher, other: Watcher) -> Watcher:
    return Watcher(
        one.asset,
        one.name,
        one.trigger,
        one.bundle,
        one.bundle_version,
        (*one.dag_ids, *other.dag_ids),
        min(one.since, other.since),
    )


def by_stream(watchers: Sequence[Watcher]) -> dict[str, list[Watcher]]:
    """Return the watchers by the source that they share; one without a key has its own."""
    found: dict[str, list[Watcher]] = {}
    for watcher in watchers:
        found.setdefault(watcher.watched.stream or f"(own) {watcher.id}", []).append(watcher)
    return found
