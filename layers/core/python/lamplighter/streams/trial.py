"""Watchers tried on a message, without side effects: nothing is read, sent or remembered.

Owns: what a watcher would do. Its trigger is built from a folder, and is the real one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from lamplighter.assets.codec import decode_trigger
from lamplighter.loading import author_code_allowed
from lamplighter.queues import Delivery
from lamplighter.streams.author_bundles import importing_below
from lamplighter.streams.messages import message_of
from lamplighter.streams.outbox import Derived
from lamplighter.streams.rounds import Arrival, Rounds
from lamplighter.streams.session import Work, run_in_a_loop
from lamplighter.streams.watchers import Watcher
from lamplighter.triggers.base import BaseEventTrigger

_SECONDS = 30.0


@dataclass(frozen=True)
class _InFolder(Watcher):
    """A watcher whose bundle is a folder and has not been pushed."""

    root: Path = Path()

    def build(self) -> BaseEventTrigger:
        with importing_below(self.root), author_code_allowed():
            return decode_trigger(self.trigger)


@dataclass
class Tried:
    """What a watcher would do with some messages."""

    watcher: Watcher
    payloads: list[Any] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    error: BaseException | None = None


def try_watchers(
    watchers: Sequence[Watcher], records: Sequence[Mapping[str, Any]], *, root: Path
) -> list[Tried]:
    """Return what watchers of the bundle at `root` would make of messages of their queue."""
    tried = {watcher.id: Tried(watcher) for watcher in watchers}

    def note(_: str, events: Sequence[Derived]) -> None:
        for event in events:
            extra = json.loads(event.body)["extra"]
            tried[event.watcher.id].payloads.append(extra["payload"])

    here = [_InFolder(**_fields(watcher), root=root) for watcher in watchers]
    works = [Work(watcher, watcher.build(), "tried") for watcher in here]
    deliveries = map(Delivery.of, records)
    arrivals = [Arrival(message_of(delivery), delivery.lane) for delivery in deliveries]
    rounds = Rounds(arrivals, seconds=_SECONDS, send=note)
    run_in_a_loop(rounds.run(works))
    for work in rounds.works:
        found = tried[work.watcher.id]
        found.rejected += [reason for _, reason in work.rejected]
        found.error = found.error or work.error
    return list(tried.values())


def _fields(watcher: Watcher) -> dict[str, Any]:
    return {each.name: getattr(watcher, each.name) for each in fields(watcher)}
