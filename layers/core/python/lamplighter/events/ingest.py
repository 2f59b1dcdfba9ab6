"""Ingests a batch of messages: record first, acknowledge afterwards.

Owns: the outcome of each message. Recorded: its events are stored and fanned out. Rejected: it is
invalid and goes to the DLQ with the reason. Failed: it is delivered again after a growing delay,
in a lane together with all later messages. Expired: it has failed for too long and goes to the DLQ.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lamplighter import clock, queues, settings
from lamplighter.errors import RejectedError, TransientError, in_short
from lamplighter.events.dead_letters import FailedMessage, reject_events, send_expired_to_dlq
from lamplighter.events.fan_out import fan_out
from lamplighter.events.message import RESERVED, AssetEvent, claims_outlet, read_events
from lamplighter.events.record import (
    Conflict,
    EventGroup,
    IncomingEvent,
    Recorder,
    Resolver,
)
from lamplighter.identifiers import asset_id
from lamplighter.queues import Delivery, from_first_in_lane
from lamplighter.store.assets import (
    delete_unnumbered_event,
    note_conflict,
    read_asset_events,
    reject_unnumbered_event,
)
from lamplighter.store.transactions import pack
from lamplighter.zones import iso

log = logging.getLogger(__name__)

# Failed messages that get an individual delay; more calls to SQS would take too long.
_MAX_PAUSED = 1_000
# The share of a transaction for a group's events. It leaves room for the rows of their assets, even
# if a push adds one more stream for each event in the meantime.
_SHARE_OF_A_TRANSACTION = 0.45


@dataclass
class IngestReport:
    """Counts of a batch; `failed` are the ids of messages to deliver again."""

    received: int = 0  # Messages in the batch.
    recorded: int = 0  # Events that are new.
    rejected: int = 0  # Messages that no retry would help.
    dead_lettered: int = 0  # Messages that were given up because of their age.
    triggered_runs: int = 0  # Runs that the events created.
    # Events that came with the id of another one, and other content.
    conflicting_events: int = 0
    failed: set[str] = field(default_factory=set)  # Messages that are delivered again.


def ingest(records: Iterable[Mapping[str, Any]], *, has_time: Callable[[], bool]) -> IngestReport:
    """Ingest the records of a Lambda event."""
    batch = _Batch([Delivery.of(record) for record in records], has_time)
    try:
        batch.run()
    except (
        Exception
    ) as error:  # if the function failed, all messages would come back at once, without a delay
        log.exception("batch failed", extra={"messages": len(batch.deliveries)})
        batch.fail({one.message_id: in_short(error) for one in batch.deliveries})
    batch.give_up()
    _delay_redelivery([one for one in batch.deliveries if one.message_id in batch.report.failed])
    return batch.report


@dataclass
class _Batch:
    """Messages received together."""

    deliveries: list[Delivery]
    has_time: Callable[[], bool]
    report: IngestReport = field(default_factory=IngestReport)
    events: dict[str, list[AssetEvent]] = field(default_factory=dict)
    incoming: list[IncomingEvent] = field(default_factory=list)
    rejects: dict[str, FailedMessage] = field(default_factory=dict)
    # Why messages failed, without those that only follow a failed one in its lane.
    failures: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        self.report.received = len(self.deliveries)
        for delivery in self.deliveries:
            self._read(delivery)
        resolver = Resolver.reading([event for events in self.events.values() for event in events])
        for delivery in self.deliveries:
            self._resolve(delivery, resolver)
        self._refuse_unproven()
        lost = reject_events(list(self.rejects.values()))
        self.fail({reject.delivery.message_id: reject.reason for reject in lost})
        self.report.rejected = len(self.rejects) - len(lost)
        for message_id, reject in self.rejects.items():
            for event in self.events.get(message_id, ()):
                reject_outlet_event(event, reject.delivery.body, reject.reason)
        self._fan_out(self._record(resolver), resolver)

    def fail(self, reasons: Mapping[str, str]) -> None:
        """Mark messages for redelivery, with all that follow them in their lanes."""
        self.failures |= reasons
        self.report.failed = from_first_in_lane(self.deliveries, {*self.failures})

    def give_up(self) -> None:
        """Move messages that have failed for too long to the DLQ."""
        failed = [
            FailedMessage(one, self.failures[one.message_id])
            for one in self.deliveries
            if one.message_id in self.failures
        ]
        kept = send_expired_to_dlq(failed, "events-dlq")
        self.report.dead_lettered = len(kept)
        self.report.failed -= kept

    def _read(self, delivery: Delivery) -> None:
        try:
            self.events[delivery.message_id] = read_events(
                delivery.body, first_id=delivery.first_id
            )
        except RejectedError as rejected:
            self._reject(delivery, str(rejected))

    def _resolve(self, delivery: Delivery, resolver: Resolver) -> None:
        """Find the assets of a message's events; reject the message if one has none."""
        for event in self.events.get(delivery.message_id, ()):
            try:
                asset = resolver.streams_of(event)[0]
            except RejectedError as rejected:
                self._reject(delivery, str(rejected), event.event_id)
            except TransientError as error:
                about = {"message_id": delivery.message_id, "error": str(error)}
                log.warning("message failed; will retry", extra=about)
                self.fail({delivery.message_id: str(error)})
            else:
                self.incoming.append(IncomingEvent(delivery, event, asset))

    def _refuse_unproven(self) -> None:
        """Reject what looks like an event of an outlet and is none."""
        refused = unproven(self.incoming)
        for member in refused:
            # Its own id, as the one that it claims is another's.
            self._reject(member.delivery, RESERVED, member.delivery.message_id)
        self.incoming = [member for member in self.incoming if member not in refused]

    def _reject(self, delivery: Delivery, reason: str, *event_ids: str) -> None:
        before = self.rejects.get(delivery.message_id)
        if before is not None:
            reason, event_ids = before.reason, (*before.event_ids, *event_ids)
        self.rejects[delivery.message_id] = FailedMessage(delivery, reason, event_ids)

    def _record(self, resolver: Resolver) -> list[EventGroup]:
        """Record the events; return the groups that were tried."""
        recorder = Recorder(resolver)
        tried: list[EventGroup] = []
        todo = self._groups(resolver)
        while todo:
            first = [groups[0] for groups in todo]
            recorder.record(first, has_time=self.has_time)
            tried += first
            todo = [groups[1:] for groups in todo if groups[1:] and groups[0].failure is None]
        self.report.recorded = recorder.recorded
        failed = [group for group in tried if group.failure is not None]
        for reason, count in Counter(str(group.failure) for group in failed).items():
            about = {"groups": count, "error": reason}
            log.warning("group of events failed; will retry", extra=about)
        self.fail({m.delivery.message_id: str(g.failure) for g in failed for m in g.members})
        self._note_conflicts(recorder.conflicts)
        delete_moved_rows(
            member for group in tried if group.failure is None for member in group.members
        )
        return tried

    def _note_conflicts(self, conflicts: Sequence[Conflict]) -> None:
        """Note events that came with the ids of others on those, before they are acknowledged."""
        for one in conflicts:
            first, delivery = one.first, one.member.delivery
            about = {"sender": delivery.sender, "message_id": delivery.message_id}
            try:
                noted = {**about, "at": iso(clock.now())}
                note_conflict(first.asset_id, first.event_id, noted)
            except Exception as error:
                log.exception("other content cannot be noted; will retry", extra=about)
                self.fail({delivery.message_id: in_short(error)})
                continue
            self.report.conflicting_events += 1
            about |= {"asset": first.asset_id, "event_id": first.event_id}
            about |= {"first_sender": first.sender}
            log.warning("the id of an event came again with other content", extra=about)

    def _groups(self, resolver: Resolver) -> list[list[EventGroup]]:
        """Return groups by asset or lane; the groups of one list must be recorded in order."""
        by_asset: dict[str, list[IncomingEvent]] = defaultdict(list)
        by_lane: dict[str, list[IncomingEvent]] = defaultdict(list)
        for member in self.incoming:
            if member.delivery.message_id in self.report.failed:
                continue
            if member.delivery.lane is None:
                by_asset[member.asset].append(member)
            else:
                by_lane[member.delivery.lane].append(member)
        limit = int(_SHARE_OF_A_TRANSACTION * settings.current().transaction_actions)
        places = (lambda member: len(resolver.streams_of(member.event)), limit)
        plain = [[EventGroup(some)] for each in by_asset.values() for some in pack(each, places)]
        lanes = [[EventGroup(some) for some in pack(each, places)] for each in by_lane.values()]
        return plain + lanes

    def _fan_out(self, groups: Sequence[EventGroup], resolver: Resolver) -> None:
        """Claim the consumers of the recorded events.

        Includes events recorded earlier: that attempt may have failed before its fan-out.
        """
        members = [member for group in groups if group.failure is None for member in group.members]
        streams = {stream for member in members for stream in resolver.streams_of(member.event)}
        rows = [resolver.rows[stream] for stream in sorted(streams)]
        opened = [row for row in rows if row.open_shard is not None]
        if not opened:
            return
        try:
            self.report.triggered_runs = fan_out(opened, has_time=self.has_time).claimed_runs
        except Exception as error:  # the events are recorded; a redelivery repeats the fan-out
            about = {"assets": [row.asset_id for row in opened]}
            log.exception("fan-out failed; will retry", extra=about)
            self.fail({member.delivery.message_id: in_short(error) for member in members})


def _delay_redelivery(deliveries: Sequence[Delivery]) -> None:
    for is_fifo, queue in ((False, "events"), (True, "events.fifo")):
        failed = [
            (one.receipt, one.receives)
            for one in deliveries[:_MAX_PAUSED]
            if one.is_fifo == is_fifo
        ]
        if failed:
            queues.delay_redelivery(queue, failed)


# Events of outlets. The proof is a row with the message, stored with the success of the step before
# the message is sent. Anything else under its id, or with a step as its source, is refused, whoever
# has sent it.


def unproven(members: Sequence[IncomingEvent]) -> list[IncomingEvent]:
    """Return those that look like events of outlets, and of which no step has told."""
    claims = [member for member in members if claims_outlet(member.event)]
    keys = {key for member in claims for key in _keys(member)}
    if not keys:
        return []
    rows = {(row.asset_id, row.event_id): row for row in read_asset_events(keys)}
    return [
        member
        for member in claims
        # One with a number is recorded; this is the same again, or is noted as another.
        if not any(
            row.seq is not None or row.message == member.delivery.body
            for key in _keys(member)
            if (row := rows.get(key)) is not None
        )
    ]


def _keys(member: IncomingEvent) -> set[tuple[str, str]]:
    event = member.event
    return {(key, event.event_id) for key in (_expected_asset_id(event), member.asset)}


def _expected_asset_id(event: AssetEvent) -> str:
    """Return the asset id that an event names, before it is resolved."""
    return asset_id(event.asset or event.uri or "")


def reject_outlet_event(event: AssetEvent, body: str, reason: str) -> None:
    """Have a rejected event not sent again; its row stays, and proves its message in a replay."""
    if claims_outlet(event):
        reject_unnumbered_event(_expected_asset_id(event), event.event_id, body, reason)


def delete_moved_rows(members: Iterable[IncomingEvent]) -> None:
    """Delete rows of recorded events whose URI resolved to an asset with another id."""
    for member in members:
        expected = _expected_asset_id(member.event)
        if claims_outlet(member.event) and member.asset != expected:
            delete_unnumbered_event(expected, member.event.event_id, member.delivery.body)
