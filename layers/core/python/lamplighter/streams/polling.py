"""Polls sources without notifications: each once a minute, in one short session.

Owns: that only one process polls a source at a time, that an item counts as seen only after its
events have been sent, and how many sessions in a row a watcher may fail at what an author's own
producer delivers.
"""

import asyncio
import hashlib
import json
import logging
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, Self

from pendulum import DateTime

from lamplighter import settings
from lamplighter.errors import DefinitionError, TransientError
from lamplighter.events.dead_letters import NOWHERE
from lamplighter.queues import Delivery
from lamplighter.store import watchers as store
from lamplighter.store.watchers import StreamLease
from lamplighter.streams.delivery_rounds import DeliveryRounds, StreamMessage, WatchReport
from lamplighter.streams.guarded_producer import keep_as_dead_letters
from lamplighter.streams.isolation import BundleProcesses, Work, isolated_by_bundle
from lamplighter.streams.outside import MAX_ITEMS, Outside
from lamplighter.streams.session import Session, Subscription, run_in_new_loop, subscribe_all
from lamplighter.streams.watchers import Watcher, by_stream, watchers_in
from lamplighter.triggers.sources import PollingTrigger, SourceContext, SourceItem, source_context
from lamplighter.zones import iso, parse_instant

log = logging.getLogger(__name__)

_HASH_BYTES = 8
# Together with the items it must fit into a row.
_MAX_COUNTS_BYTES = 50_000
# The time after a session to store the seen items, before another process may poll.
_SECONDS_TO_FINISH = 15


def poll_sources(*, seconds: float) -> WatchReport:
    """Poll all polled sources concurrently within a time limit."""
    seconds = min(seconds, settings.current().watch_session_seconds)
    watchers = watchers_in(store.read_watchers(None))
    if not watchers:
        return WatchReport()
    report, fired, parked = WatchReport(), Counter[str](), store.read_parked()
    ours, isolated = isolated_by_bundle(watchers)
    leased = {bundle: _leased(some, seconds) for bundle, some in isolated.items()}
    with BundleProcesses(parked, seconds=seconds) as processes:
        for bundle, leases in leased.items():
            if leases:
                given = [_lease_json(lease) for lease in leases]
                processes.start(bundle, isolated[bundle], {"leases": given})
        if ours:
            run_in_new_loop(_poll_ours(by_stream(ours), seconds, report, fired, parked))
    for work in processes.works:
        _finish(work, leased[work.bundle], report, fired)
    report.park_busy_watchers(fired)
    return report


async def _poll_ours(
    streams: Mapping[str, Sequence[Watcher]],
    seconds: float,
    report: WatchReport,
    fired: Counter[str],
    parked: Container[str],
) -> None:
    polls = [Poll(watchers, report, fired, parked) for watchers in streams.values()]
    await asyncio.gather(
        *(_run(poll, stream, seconds) for poll, stream in zip(polls, streams, strict=True))
    )


async def _run(poll: "Poll", stream: str, seconds: float) -> None:
    """Poll, unless another process does; a failure affects only this source."""
    fields = poll.watchers[0].log_fields
    try:
        lease = store.acquire_lease(stream, seconds=seconds + _SECONDS_TO_FINISH)
        if lease is not None:
            _release(lease, await poll.run(lease, seconds), fields)
    except Exception:  # the other sources go on
        log.exception("source could not be polled", extra=fields)
        poll.report.failed_watchers += 1


def _release(lease: StreamLease, found: "Found", fields: Mapping[str, object]) -> None:
    if not store.release_lease(
        lease, seen_items=found.seen_items, failed_sessions=found.failed_sessions
    ):
        log.warning("poll took too long; will retry", extra=dict(fields))


# Sources of author code: the leases stay here, and what they say goes to the bundle's process.


def _leased(watchers: Sequence[Watcher], seconds: float) -> list[StreamLease]:
    """Return the leases of a bundle's sources, without those that another process holds."""
    found = []
    for stream, some in by_stream(watchers).items():
        try:
            lease = store.acquire_lease(stream, seconds=seconds + _SECONDS_TO_FINISH)
        except Exception:  # the other sources go on
            log.exception("source cannot be leased", extra=some[0].log_fields)
        else:
            found += [] if lease is None else [lease]
    return found


def _finish(
    work: Work, leases: Sequence[StreamLease], report: WatchReport, fired: Counter[str]
) -> None:
    """Store what a bundle's process has found, source by source."""
    report.sent_events += work.sent
    report.parked_events += work.parked_events
    fired.update(work.fired)
    for lease in leases:
        try:
            said = work.answer["streams"].get(lease.stream)
            if said is None:  # author code has failed, and its log says how
                report.failed_watchers += 1
                continue
            found = Found.from_json(said)
            counts = {name: work.count(said, name) for name in _COUNTS}
            _release(lease, found, {"bundle": work.bundle})
        except Exception:  # the other sources go on; this lease expires
            log.exception("source could not be polled", extra={"bundle": work.bundle})
            report.failed_watchers += 1
            work.end_process()
        else:
            for name, count in counts.items():
                setattr(report, name, getattr(report, name) + count)


_COUNTS = ("received", "rejected", "dead_lettered", "failed_watchers")


def _lease_json(lease: StreamLease) -> dict[str, Any]:
    return {
        "stream": lease.stream,
        "polled_at": None if lease.polled_at is None else iso(lease.polled_at),
        "seen_items": None if lease.seen_items is None else b64encode(lease.seen_items).decode(),
        "failed_sessions": dict(lease.failed_sessions),
    }


def poll_leased(
    watchers: Sequence[Watcher],
    leases: Sequence[Mapping[str, Any]],
    parked: Container[str],
    *,
    seconds: float,
    outside: Outside,
) -> dict[str, Any]:
    """Poll sources of author code, in its process; return by source what was found, as JSON."""
    streams = by_stream(watchers)

    async def poll(given: Mapping[str, Any]) -> dict[str, Any] | None:
        at, seen = given["polled_at"], given["seen_items"]
        lease = StreamLease(
            given["stream"],
            owner="",
            polled_at=None if at is None else parse_instant(at),
            seen_items=None if seen is None else b64decode(seen),
            failed_sessions=given["failed_sessions"],
        )
        report = WatchReport()
        try:
            each = Poll(streams[lease.stream], report, Counter(), parked, outside)
            found = await each.run(lease, seconds)
        except Exception:  # the other sources go on
            log.exception("source could not be polled")
            return None
        return found.to_json() | {name: getattr(report, name) for name in _COUNTS}

    async def poll_all() -> list[dict[str, Any] | None]:
        return await asyncio.gather(*map(poll, leases))

    done = run_in_new_loop(poll_all())
    return {given["stream"]: found for given, found in zip(leases, done, strict=True) if found}


@dataclass(frozen=True)
class Poll:
    """One source and its watchers."""

    watchers: Sequence[Watcher]
    # Shared by all sources.
    report: WatchReport
    fired: Counter[str]
    parked: Container[str]
    outside: Outside = field(default_factory=Outside)

    async def run(self, lease: StreamLease, seconds: float) -> "Found":
        """Return what is to be stored, if anything."""
        subscriptions, broken = subscribe_all(self.watchers, self.parked)
        self.report.failed_watchers += len(broken)
        if broken:
            return Found()  # if one cannot be built, none is given items that it would miss
        trigger = subscriptions[0].trigger
        if not isinstance(trigger, PollingTrigger):
            return await self._listen(lease, subscriptions, seconds)
        since = min(watcher.created_at for watcher in self.watchers)
        # A source that was polled before these watchers existed starts anew.
        is_known = lease.polled_at is not None and lease.polled_at >= since
        seen = lease.seen_items if is_known else None
        deadline = monotonic() + seconds
        items = await self._items(trigger, seconds)
        new = [StreamMessage(item) for item in new_items(items, seen, since=since)]
        left = await self._deliver(new, subscriptions, lease.stream, seconds=deadline - monotonic())
        return Found(to_bytes(item for item in items if item.message_id not in left))

    async def _listen(
        self, lease: StreamLease, subscriptions: Sequence[Subscription], seconds: float
    ) -> "Found":
        """Run triggers that track what is new themselves, until time is up."""
        limit = settings.current().watcher_retry_sessions
        for one in subscriptions:
            failed_before = lease.failed_sessions.get(one.watcher.versioned_id, 0)
            one.progress.gives_up = failed_before >= limit
        keep = partial(keep_as_dead_letters, send=self.outside.send_to_dlq)
        session = Session(subscriptions, seconds=seconds, send=self.outside.send, keep=keep)
        await session.run(asyncio.Event().wait())
        self._note(session, subscriptions)
        failed = {one.watcher.versioned_id: session.has_failed(one) for one in subscriptions}
        counts = _count_failed(lease.failed_sessions, failed)
        return Found(failed_sessions=None if counts == lease.failed_sessions else counts)

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
        self,
        new: Sequence[StreamMessage],
        subscriptions: Sequence[Subscription],
        stream: str,
        *,
        seconds: float,
    ) -> set[str]:
        """Deliver what is new at a source; return the ids of what a watcher failed at."""
        for subscription in subscriptions:
            # Streams are fixed at push time, whatever a trigger returns now.
            subscription.key = stream
        rounds = DeliveryRounds(new, seconds=seconds, outside=self.outside)
        await rounds.run(subscriptions)
        done = rounds.finish(self.report, lambda message: _as_delivery(message.raw))
        self.report.received += len(new)
        self.fired.update(rounds.fired)
        not_done = {message.raw.message_id for message in new if message not in done}
        self.report.failed_watchers += bool(not_done)
        return not_done

    async def _items(self, trigger: PollingTrigger, seconds: float) -> Sequence[SourceItem]:
        with source_context(SourceContext(list_objects=self.outside.list_objects)):
            poll = asyncio.ensure_future(trigger.poll(trigger.serialize()[1]))
        # Not `wait_for`, which would wait for a task that ignores cancellation.
        await asyncio.wait([poll], timeout=seconds)
        if not poll.done():
            poll.cancel()
            raise TransientError(f"polling took longer than {seconds:.0f} s")
        return poll.result()


@dataclass(frozen=True)
class Found:
    """What a session leaves for the next one."""

    seen_items: bytes | None = None
    failed_sessions: Mapping[str, int] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        seen = None if self.seen_items is None else b64encode(self.seen_items).decode()
        return {"seen_items": seen, "failed_sessions": self.failed_sessions}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what `to_json` wrote, of which nothing is believed."""
        seen, failed = data["seen_items"], data["failed_sessions"]
        items = None if seen is None else b64decode(seen, validate=True)
        if items is not None and len(items) > MAX_ITEMS * _HASH_BYTES:
            raise ValueError("there are too many items")
        if failed is not None:
            failed = {str(name): int(count) for name, count in failed.items()}
            if len(json.dumps(failed)) > _MAX_COUNTS_BYTES:
                raise ValueError("there are too many counts")
        return cls(items, failed)


def _count_failed(before: Mapping[str, int], failed: Mapping[str, bool | None]) -> dict[str, int]:
    """Return in how many sessions in a row each of the present watchers has failed."""
    counts = {name: before.get(name, 0) for name in failed}
    counts |= {
        name: counts[name] + 1 if is_failed else 0
        for name, is_failed in failed.items()
        if is_failed is not None
    }
    return {name: count for name, count in counts.items() if count}


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
