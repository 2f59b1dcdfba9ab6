"""Polls sources without notifications: each once a minute, in one short session.

Owns: that only one process polls a source at a time, and that an item counts as seen only after its
events have been sent.
"""

import asyncio
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import pendulum

from lamplighter import aws, settings
from lamplighter.errors import TransientError
from lamplighter.events.dead_letters import NOWHERE
from lamplighter.queues import Delivery
from lamplighter.store import watchers as store
from lamplighter.store.watchers import StreamLease
from lamplighter.streams import seen_items
from lamplighter.streams.delivery_rounds import (
    DeliveryRounds,
    StreamMessage,
    WatchReport,
    park_busy_watchers,
)
from lamplighter.streams.seen_items import MAX_ITEMS, SeenItems
from lamplighter.streams.session import Session, Subscription, run_in_new_loop, subscribe_all
from lamplighter.streams.watchers import Watcher, by_stream, watchers_in
from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.sources import PollingTrigger, SourceContext, SourceItem, source_context

log = logging.getLogger(__name__)

# The time after a session to store the seen items, before another process may poll.
_SECONDS_TO_FINISH = 15


def poll_sources(*, seconds: float) -> WatchReport:
    """Poll all polled sources concurrently within a time limit."""
    seconds = min(seconds, settings.current().watch_session_seconds)
    streams = {
        hashlib.sha256(key.encode()).hexdigest(): watchers
        for key, watchers in by_stream(watchers_in(store.read_watchers(None))).items()
    }
    return run_in_new_loop(_poll_all(streams, seconds)) if streams else WatchReport()


async def _poll_all(streams: dict[str, list[Watcher]], seconds: float) -> WatchReport:
    report, fired, parked = WatchReport(), Counter[str](), store.read_parked()
    polls = [_Poll(key, watchers, report, fired, parked) for key, watchers in streams.items()]
    await asyncio.gather(*(poll.run(seconds) for poll in polls))
    report.parked_watchers = park_busy_watchers(fired)
    return report


@dataclass(frozen=True)
class _Poll:
    """One source and its watchers."""

    stream: str
    watchers: Sequence[Watcher]
    # Shared by all sources.
    report: WatchReport
    fired: Counter[str]
    parked: Container[str]

    async def run(self, seconds: float) -> None:
        """Poll, unless another process does; a failure affects only this source."""
        fields = self.watchers[0].log_fields
        try:
            lease = store.acquire_lease(self.stream, seconds=seconds + _SECONDS_TO_FINISH)
            if lease is not None:
                seen = await self._poll(lease, seconds)
                if not store.release_lease(lease, seen_items=seen):
                    log.warning("poll took too long; will retry", extra=fields)
        except Exception:  # the other sources go on
            log.exception("source could not be polled", extra=fields)
            self.report.failed_watchers += 1

    async def _poll(self, lease: StreamLease, seconds: float) -> bytes | None:
        """Return the seen items to store, if the source has any."""
        subscriptions, broken = subscribe_all(self.watchers, self.parked)
        self.report.failed_watchers += len(broken)
        if broken:
            return None  # if one cannot be built, none is given items that it would miss
        if not isinstance(subscriptions[0].trigger, PollingTrigger):
            await self._listen(subscriptions, seconds)
            return None
        since = min(watcher.created_at for watcher in self.watchers)
        # A source that was polled before these watchers existed starts anew.
        is_known = lease.polled_at is not None and lease.polled_at >= since
        seen = SeenItems(lease.seen_items if is_known else None, since=since)
        return await self._deliver_new_items(subscriptions, seen, seconds)

    async def _listen(self, subscriptions: Sequence[Subscription], seconds: float) -> None:
        """Run triggers that track what is new themselves, until time is up."""
        session = Session(subscriptions, seconds=seconds)
        await session.run(asyncio.Event().wait())
        self.report.sent_events += session.outbox.sent
        self.report.parked_events += session.outbox.parked
        for subscription in subscriptions:
            self.report.received += subscription.messages_read
            self.report.failed_watchers += subscription.error is not None
            self.report.rejected += len(subscription.rejected)
            self.fired[subscription.watcher.id] += subscription.fired
            for _, reason in subscription.rejected:
                # The source decides what happens to it.
                fields = {**subscription.watcher.log_fields, "reason": reason}
                log.warning("watcher rejected an item of its source", extra=fields)

    async def _deliver_new_items(
        self, subscriptions: Sequence[Subscription], seen: SeenItems, seconds: float
    ) -> bytes:
        deadline = monotonic() + seconds
        items = await _items(subscriptions[0].trigger, seconds)
        new = {StreamMessage(item): item for item in seen.new_among(items)}
        for subscription in subscriptions:
            # Streams are fixed at push time, whatever a trigger returns now.
            subscription.key = self.stream
        rounds = DeliveryRounds(list(new), seconds=deadline - monotonic())
        await rounds.run(subscriptions)
        done = rounds.finish(self.report, lambda message: _as_delivery(new[message]))
        self.report.received += len(new)
        self.fired.update(rounds.fired)
        not_done = {item.message_id for message, item in new.items() if message not in done}
        self.report.failed_watchers += bool(not_done)
        return seen_items.to_bytes(item for item in items if item.message_id not in not_done)


async def _items(trigger: BaseEventTrigger, seconds: float) -> Sequence[SourceItem]:
    assert isinstance(trigger, PollingTrigger)
    with source_context(SourceContext(list_objects=list_objects)):
        poll = asyncio.ensure_future(trigger.poll(trigger.serialize()[1]))
    # Not `wait_for`, which would wait for a task that ignores cancellation.
    await asyncio.wait([poll], timeout=seconds)
    if not poll.done():
        poll.cancel()
        raise TransientError(f"polling took longer than {seconds:.0f} s")
    return poll.result()


def _as_delivery(item: SourceItem) -> Delivery:
    body = json.dumps({"name": item.name, **item.payload}, default=str)
    name = item.message_id
    return Delivery(name, body, name, receipt="", receives=1, lane=None, queue_arn=NOWHERE)


def list_objects(bucket: str, prefix: str) -> list[SourceItem]:
    """Return the objects with a prefix, up to one more than allowed."""
    items: list[SourceItem] = []
    pages = aws.client("s3").get_paginator("list_objects_v2")
    for page in pages.paginate(Bucket=bucket, Prefix=prefix):
        for content in page.get("Contents", []):
            items.append(_object_item(bucket, content))
            if len(items) > MAX_ITEMS:
                return items
    return items


def _object_item(bucket: str, content: Any) -> SourceItem:
    key, etag = content["Key"], content["ETag"].strip('"')
    uri = f"s3://{bucket}/{key}"
    modified_at = pendulum.instance(content["LastModified"])
    payload = {"bucket": bucket, "key": key, "uri": uri, "size": content["Size"], "etag": etag}
    # Storing the same content again counts as a new version.
    return SourceItem(uri, f"{etag} {modified_at.isoformat()}", payload, modified_at)
