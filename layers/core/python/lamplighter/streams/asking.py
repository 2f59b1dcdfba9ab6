"""Sources that must be asked: each once a minute, by one session, for a short time.

Owns: that nobody else asks meanwhile, and that what was seen is remembered only after what was made
of it has been sent.
"""

import asyncio
import hashlib
import json
import logging
from collections import Counter
from collections.abc import Container, Sequence
from time import monotonic

from lamplighter import settings
from lamplighter.errors import TransientError
from lamplighter.events.dead_letters import NOWHERE, dead_letter
from lamplighter.store import stream_leases
from lamplighter.store.stream_leases import Lease
from lamplighter.store.watchers import read_parked, read_watchers
from lamplighter.streams import memory
from lamplighter.streams.listing import list_objects
from lamplighter.streams.memory import Memory
from lamplighter.streams.report import WatchReport, park, send_to_dlq
from lamplighter.streams.rounds import Arrival, Rounds
from lamplighter.streams.session import Session, Work, run_in_a_loop, works_of
from lamplighter.streams.watchers import Watcher, by_stream, watchers_in
from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.offered import Offer, Sighting, offering
from lamplighter.triggers.polled import PolledTrigger

log = logging.getLogger(__name__)

# After a session, what it saw is written down within this time, or another may ask.
_SECONDS_TO_FINISH = 15


def ask_sources(*, seconds: float) -> WatchReport:
    """Ask every source that must be asked, all at the same time, for at most some seconds."""
    seconds = min(seconds, settings.current().watch_session_seconds)
    streams = by_stream(watchers_in(read_watchers(None)))
    return run_in_a_loop(_ask_all(streams, seconds)) if streams else WatchReport()


async def _ask_all(streams: dict[str, list[Watcher]], seconds: float) -> WatchReport:
    report, fired, parked = WatchReport(), Counter[str](), read_parked()
    asked = [
        _Asked(stream, watchers, report, fired, parked) for stream, watchers in streams.items()
    ]
    await asyncio.gather(*(one.run(seconds) for one in asked))
    report.parked_watchers = park(fired)
    return report


class _Asked:
    """One source, and those who watch it."""

    def __init__(
        self,
        stream: str,
        watchers: Sequence[Watcher],
        report: WatchReport,
        fired: Counter[str],
        parked: Container[str],
    ) -> None:
        self._stream = hashlib.sha256(stream.encode()).hexdigest()
        self._watchers = watchers
        # Of all sources together.
        self._report = report
        self._fired = fired
        self._parked = parked

    async def run(self, seconds: float) -> None:
        """Ask, unless someone else does; a failure is this source's own, until the next minute."""
        try:
            lease = stream_leases.take(self._stream, seconds=seconds + _SECONDS_TO_FINISH)
            if lease is not None:
                seen = await self._ask(lease, seconds)
                if not stream_leases.give_back(lease, seen=seen):
                    log.warning("%s took too long, and is asked again", self._watchers[0].title)
        except Exception:  # the other sources must not suffer from it
            log.exception("%s: its source could not be asked", self._watchers[0].title)
            self._report.failed_watchers += 1

    async def _ask(self, lease: Lease, seconds: float) -> bytes | None:
        """Return what is to be remembered, if the source is one of which something is."""
        works, broken = works_of(self._watchers, self._parked)
        self._report.failed_watchers += len(broken)
        if broken:
            return None  # what they would miss, nobody is told
        if not isinstance(works[0].trigger, PolledTrigger):
            await self._listen(works, seconds)
            return None
        since = min(watcher.since for watcher in self._watchers)
        # A source that was asked for others, before these came, begins anew.
        is_known = lease.looked_at is not None and lease.looked_at >= since
        return await self._look(
            works, Memory(lease.seen if is_known else None, since=since), seconds
        )

    async def _listen(self, works: Sequence[Work], seconds: float) -> None:
        """Let triggers read a source that tells by itself what is new, until time is up."""
        session = Session(works, seconds=seconds)
        await session.run(asyncio.Event().wait())
        self._report.sent_events += session.outbox.sent
        self._report.kept_events += session.outbox.kept
        for work in works:
            self._report.received += work.pulled
            self._report.failed_watchers += work.error is not None
            self._report.rejected += len(work.rejected)
            self._fired[work.watcher.id] += work.fired
            for _, reason in work.rejected:
                log.warning("%s", reason)  # what becomes of it is up to its source

    async def _look(self, works: Sequence[Work], known: Memory, seconds: float) -> bytes:
        """Look at a source once, and tell what is new there."""
        deadline = monotonic() + seconds
        sightings = await _sightings(works[0].trigger, seconds)
        new = known.new(sightings)
        came = {Arrival(sighting): sighting for sighting in new}
        for work in works:
            # Whatever a trigger says now: who shares a source was decided when it was pushed.
            work.key = self._stream
        rounds = Rounds(list(came), seconds=deadline - monotonic())
        await rounds.run(works)
        lost = send_to_dlq(
            {arrival: _letter(came[arrival], reason) for arrival, reason in rounds.rejected.items()}
        )
        self._report.received += len(new)
        self._report.rejected += len(rounds.rejected) - len(lost)
        self._report.sent_events += rounds.sent
        self._report.kept_events += rounds.kept
        self._fired.update(rounds.fired)
        untold = {
            one.message_id for arrival, one in came.items() if arrival not in rounds.done - lost
        }
        self._report.failed_watchers += bool(untold)
        return memory.written(one for one in sightings if one.message_id not in untold)


async def _sightings(trigger: BaseEventTrigger, seconds: float) -> Sequence[Sighting]:
    assert isinstance(trigger, PolledTrigger)
    with offering(Offer(objects=list_objects)):
        look = asyncio.ensure_future(trigger.look(trigger.serialize()[1]))
    # Not `wait_for`, which would wait on for one that will not be cancelled.
    await asyncio.wait([look], timeout=seconds)
    if not look.done():
        look.cancel()
        raise TransientError(f"looking took longer than {seconds:.0f} s")
    return look.result()


def _letter(sighting: Sighting, reason: str) -> dict[str, object]:
    body = json.dumps({"name": sighting.name, **sighting.payload}, default=str)
    return dead_letter(body, reason=reason, first_id=sighting.message_id, queue_arn=NOWHERE)
