"""Runs watchers on given messages without side effects, with real triggers from a folder."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lamplighter.queues import Delivery
from lamplighter.streams.delivery_rounds import DeliveryRounds
from lamplighter.streams.outbox import WatcherEvent
from lamplighter.streams.outside import Outside
from lamplighter.streams.session import Subscription, run_in_new_loop
from lamplighter.streams.watch import stream_message
from lamplighter.streams.watchers import Watcher

_SECONDS = 30.0


@dataclass
class DryRun:
    """What a watcher would do with messages."""

    watcher: Watcher
    payloads: list[Any] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    error: BaseException | None = None


def dry_run(
    watchers: Sequence[Watcher], records: Sequence[Mapping[str, Any]], *, root: Path
) -> list[DryRun]:
    """Return what the watchers of the bundle at `root` would do with messages of a queue."""
    found = {watcher.id: DryRun(watcher) for watcher in watchers}

    def note(_: str, events: Sequence[WatcherEvent]) -> None:
        for event in events:
            extra = json.loads(event.body)["extra"]
            found[event.watcher.id].payloads.append(extra["payload"])

    unpushed = [replace(watcher, root=root) for watcher in watchers]
    subscriptions = [Subscription(watcher, watcher.build(), "dry run") for watcher in unpushed]
    messages = [stream_message(Delivery.of(record)) for record in records]
    rounds = DeliveryRounds(messages, seconds=_SECONDS, outside=Outside(send=note))
    run_in_new_loop(rounds.run(subscriptions))
    for subscription in rounds.subscriptions:
        result = found[subscription.watcher.id]
        result.rejected += [reason for _, reason in subscription.rejected]
        result.error = result.error or subscription.error
    return list(found.values())
