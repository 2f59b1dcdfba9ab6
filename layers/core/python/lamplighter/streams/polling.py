"""Polls sources without notifications: each once a minute, in one short session.

Owns: that only one process polls a source at a time, that an item counts as seen only after its
events have been sent, and how many sessions in a row a watcher may fail at what an author's own
producer delivers.
"""

import asyncio
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import pendulum
from pendulum import DateTime

from lamplighter import aws, settings
from lamplighter.errors import DefinitionError, TransientError
from lamplighter.events.dead_letters import NOWHERE
from lamplighter.queues import Delivery
from lamplighter.store import watchers as store
from lamplighter.store.watchers import StreamLease
from lamplighter.streams.delivery_rounds import DeliveryRounds, StreamMessage, WatchReport
from lamplighter.streams.session import Session, Subscription, run_in_new_loop, subscribe_all
from lamplighter.streams.watchers import Watcher, by_stream, watchers_in
from lamplighter.triggers.sources import PollingTrigger, SourceContext, SourceItem, source_context

log = logging.getLogger(__name__)

# The maximum that fits into a row.
MAX_ITEMS = 40_000
_HASH_BYTES = 8
# The time after a session to store the seen items, before another process may poll.
_SECONDS_TO_FINISH = 15


def poll_sources(*, seconds: float) -> WatchReport:
    """Poll all polled sources concurrently within a time limit."""
    seconds = min(seconds, settings.current().watch_session_seconds)
    streams = by_stream(watchers_in(store.read_watchers(None)))
    return run_in_new_loop(_poll_all(streams, seconds)) if streams else WatchReport()


async def _poll_all(streams: dict[str, list[Watcher]], seconds: float) -> WatchReport:
    report, fired, parked = WatchReport(), Counter[str](), store.read_parked()
    polls = [_Poll(key, watchers, report, fired, parked) for key, watchers in streams.items()]
    await asyncio.gather(*(poll.run(seconds) for poll in polls))
    report.park_busy_watchers(fired)
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
                found = await self._poll(lease, seconds)
                if not store.release_lease(
                    lease, seen_items=found.seen_items, failed_sessions=found.failed_sessions
                ):
                    log.warning("poll took too long; will retry", extra=fields)
        except Exception:  # the other sources go on
            log.exception("source could not be polled", extra=fields)
            self.report.failed_watchers += 1

    async def _poll(self, lease: StreamLease, seconds: float) -> "_Found":
        """Return what is to be stored, if anything."""
        subscriptions, broken = subscribe_all(self.watchers, self.parked)
        self.report.failed_watchers += len(broken)
        if broken:
            return _Found()  # if one cannot be built, none is given items that it would miss
        trigger = subscriptions[0].trigger
        if not isinstance(trigger, PollingTrigger):
            return await self._listen(lease, subscriptions, seconds)
        since = min(watcher.created_at for watcher in self.watchers)
        # A source that was polled before these watchers existed starts anew.
        is_known = lease.polled_at is not None and lease.polled_at >= since
        seen = lease.seen_items if is_known else None
        deadline = monotonic() + seconds
        items = await _items(trigger, seconds)
        new = [StreamMessage(item) for item in new_items(items, seen, since=since)]
        left = await self._deliver(new, subscriptions, seconds=deadline - monotonic())
        return _Found(to_bytes(item for item in items if item.message_id not in left))

    async def _listen(
        self, lease: StreamLease, subscriptions: Sequence[Subscription], seconds: float
    ) -> "_Found":
        """Run triggers that track what is new themselves, until time is up."""
        limit = settings.current().watcher_retry_sessions
        for one in subscriptions:
            failed_before = lease.failed_sessions.get(one.watcher.versioned_id, 0)
            one.progress.gives_up = failed_before >= limit
        session = Session(subscriptions, seconds=seconds)
        await session.run(asyncio.Event().wait())
        self._note(session, subscriptions)
        failed = {one.watcher.versioned_id: session.has_failed(one) for one in subscriptions}
        counts = _count_failed(lease.failed_sessions, failed)
        return _Found(failed_sessions=None if counts == lease.failed_sessions else counts)

    def _note(self, session: Session, subscriptions: Sequence[Subscription]) -> None:
        self.report.sent_events += session.outbox.sent
        self.report.parked_events += session.outbox.parked
        self.report.dead_lettered += session.given_up
        for subscription in subscriptions:
            self.report.received += subscription.progress.read
            self.report.failed_watchers += subscription.error is not None
            self.report.rejected += len(subscription.rejected)
            self.fired[subscription.watcher.id] += subscription.fired
            for _, reason in subscription.rejected:
                # The source decides what happens to it.
                fields = {**subscription.watcher.log_fields, "reason": reason}
                log.warning("watcher rejected an item of its source", extra=fields)

    async def _deliver(
        self, new: Sequence[StreamMessage], subscriptions: Sequence[Subscription], *, seconds: float
    ) -> set[str]:
        """Deliver what is new at a source; return the ids of what a watcher failed at."""
        for subscription in subscriptions:
            # Streams are fixed at push time, whatever a trigger returns now.
            subscription.key = self.stream
        rounds = DeliveryRounds(new, seconds=seconds)
        await rounds.run(subscriptions)
        done = rounds.finish(self.report, lambda message: _as_delivery(message.raw))
        self.report.received += len(new)
        self.fired.update(rounds.fired)
        not_done = {message.raw.message_id for message in new if message not in done}
        self.report.failed_watchers += bool(not_done)
        return not_done


@dataclass(frozen=True)
class _Found:
    """What a session leaves for the next one."""

    seen_items: bytes | None = None
    failed_sessions: Mapping[str, int] | None = None


def _count_failed(before: Mapping[str, int], failed: Mapping[str, bool | None]) -> dict[str, int]:
    """Return in how many sessions in a row each of the present watchers has failed."""
    counts = {name: before.get(name, 0) for name in failed}
    counts |= {
        name: counts[name] + 1 if is_failed else 0
        for name, is_failed in failed.items()
        if is_failed is not None
    }
    return {name: count for name, count in counts.items() if count}


async def _items(trigger: PollingTrigger, seconds: float) -> Sequence[SourceItem]:
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


# What was seen. An item is known by its name and version. What was there before the first of its
# watchers was created is not new; what a watcher failed at is new again the next time.


def new_items(
    items: Sequence[SourceItem], seen: bytes | None, *, since: DateTime
) -> list[SourceItem]:
    """Return the items that watchers have not been given.

    `seen` is what was stored after the last poll; None: there was none since the watchers exist.
    """
    if len(items) > MAX_ITEMS:
        raise DefinitionError(
            f"the source has {len(items):,} items, at most {MAX_ITEMS:,} can be tracked:"
            " watch a narrower prefix, or use S3 event notifications"
        )
    if seen is not None:
        hashes = {seen[at : at + _HASH_BYTES] for at in range(0, len(seen), _HASH_BYTES)}
        return [item for item in items if _hash(item) not in hashes]
    # Sources round timestamps down to whole seconds.
    first = since.start_of("second")
    return [item for item in items if item.modified_at is not None and item.modified_at >= first]


def to_bytes(items: Iterable[SourceItem]) -> bytes:
    """Return the stored form of items that must not fire again."""
    return b"".join(sorted({_hash(item) for item in items}))


def _hash(item: SourceItem) -> bytes:
    return hashlib.sha256(item.message_id.encode()).digest()[:_HASH_BYTES]


# The objects of a bucket.


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
