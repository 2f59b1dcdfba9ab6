"""A batch of messages, from reading to answering: recorded first, acknowledged after that.

Owns: what becomes of each message. Taken: its events are recorded and handed on. Rejected: it can
never be taken, is kept among the dead letters with the reason, and does not come again. Failed:
something was busy or broken, and it is delivered again, later each time; of a lane, with all that
comes after it. Given up: it failed once more long after it first came, and is kept like a reject.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lamplighter import queues, settings
from lamplighter.errors import RejectedError, TransientError, in_short
from lamplighter.events.dead_letters import FailedMessage, send_to_dlq, send_expired_to_dlq
from lamplighter.queues import Delivery, from_first_in_lane
from lamplighter.events.fan_out import fan_out
from lamplighter.events.message import AssetEvent, read_events
from lamplighter.events.record import Entry, Recorder, Unit, delete_outlet_rows, expected_asset_id
from lamplighter.events.record import Resolver
from lamplighter.store.transactions import pack

log = logging.getLogger(__name__)

# So many failed messages are paused one by one; telling SQS about more would take too long.
_MAX_PAUSED = 1_000
# How much of a transaction the events of a unit are. So it has room for the rows of their assets,
# and still fits when a push, meanwhile, lets each event be recorded in one place more.
_SHARE_OF_A_TRANSACTION = 0.45


@dataclass
class IngestReport:
    """What became of a batch, in numbers; `failed` are the messages to be delivered again."""

    received: int = 0
    recorded: int = 0
    rejected: int = 0
    given_up: int = 0
    fired_runs: int = 0
    failed: set[str] = field(default_factory=set)


def ingest(records: Iterable[Mapping[str, Any]], *, has_time: Callable[[], bool]) -> IngestReport:
    """Take the messages of a batch, as Lambda hands them over."""
    batch = _Batch([Delivery.of(record) for record in records], has_time)
    try:
        batch.run()
    except (
        Exception
    ) as error:  # an error of Lambda's would bring them back at once, and without a pause
        log.exception("a batch of %d messages failed", len(batch.deliveries))
        batch.fail({one.message_id: in_short(error) for one in batch.deliveries})
    batch.give_up()
    _come_back_later([one for one in batch.deliveries if one.message_id in batch.report.failed])
    return batch.report


@dataclass
class _Batch:
    """Messages that arrived together."""

    deliveries: list[Delivery]
    has_time: Callable[[], bool]
    report: IngestReport = field(default_factory=IngestReport)
    events: dict[str, list[AssetEvent]] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    rejects: dict[str, Reject] = field(default_factory=dict)
    # Why messages failed, without those that only come after one of them in its lane.
    failures: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        self.report.received = len(self.deliveries)
        for delivery in self.deliveries:
            self._read(delivery)
        resolver = Resolver.reading([event for events in self.events.values() for event in events])
        for delivery in self.deliveries:
            self._resolve(delivery, resolver)
        lost = send_to_dlq(list(self.rejects.values()))
        self.fail({reject.delivery.message_id: reject.reason for reject in lost})
        self.report.rejected = len(self.rejects) - len(lost)
        delete_outlet_rows(
            event for message_id in self.rejects for event in self.events.get(message_id, ())
        )
        self._hand_on(self._record(resolver), resolver)

    def fail(self, reasons: Mapping[str, str]) -> None:
        """Let messages come again, and with each what follows it in its lane."""
        self.failures |= reasons
        self.report.failed = from_first_in_lane(self.deliveries, {*self.failures})

    def give_up(self) -> None:
        """Keep messages that have failed for too long, so that they hold up nobody any more."""
        failed = [
            Reject(one, self.failures[one.message_id])
            for one in self.deliveries
            if one.message_id in self.failures
        ]
        kept = give_up(failed, "events-dlq")
        self.report.given_up = len(kept)
        self.report.failed -= kept

    def _read(self, delivery: Delivery) -> None:
        try:
            self.events[delivery.message_id] = read_events(
                delivery.body, first_id=delivery.first_id
            )
        except RejectedError as rejected:
            self._reject(delivery, str(rejected))

    def _resolve(self, delivery: Delivery, resolver: Resolver) -> None:
        """Find the assets of a message's events; it is rejected if one of them has none."""
        for event in self.events.get(delivery.message_id, ()):
            try:
                asset = resolver.streams_of(event)[0]
            except RejectedError as rejected:
                self._reject(delivery, str(rejected), event.event_id)
            except TransientError as error:
                log.warning("message %s is delivered again: %s", delivery.message_id, error)
                self.fail({delivery.message_id: str(error)})
            else:
                self.entries.append(Entry(delivery, event, asset))

    def _reject(self, delivery: Delivery, reason: str, *event_ids: str) -> None:
        before = self.rejects.get(delivery.message_id)
        if before is not None:
            reason, event_ids = before.reason, (*before.event_ids, *event_ids)
        self.rejects[delivery.message_id] = Reject(delivery, reason, event_ids)

    def _record(self, resolver: Resolver) -> list[Unit]:
        """Record what was understood; return the units that were tried."""
        recorder = Recorder(resolver)
        tried: list[Unit] = []
        todo = self._units(resolver)
        while todo:
            first = [units[0] for units in todo]
            recorder.record(first, has_time=self.has_time)
            tried += first
            todo = [units[1:] for units in todo if units[1:] and units[0].failure is None]
        self.report.recorded = recorder.recorded
        failed = [unit for unit in tried if unit.failure is not None]
        for reason, count in Counter(str(unit.failure) for unit in failed).items():
            log.warning("events of %d units are delivered again: %s", count, reason)
        self.fail(
            {entry.delivery.message_id: str(u.failure) for u in failed for entry in u.entries}
        )
        delete_outlet_rows(
            entry.event
            for unit in tried
            for entry in unit.entries
            if unit.failure is None and entry.asset != expected_asset_id(entry.event)
        )
        return tried

    def _units(self, resolver: Resolver) -> list[list[Unit]]:
        """Return what is to be recorded, in lists whose units must be recorded one by one.

        Units are made by asset, each a list of its own, or by lane in the order of its messages.
        """
        by_asset: dict[str, list[Entry]] = defaultdict(list)
        by_lane: dict[str, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            if entry.delivery.message_id in self.report.failed:
                continue
            if entry.delivery.lane is None:
                by_asset[entry.asset].append(entry)
            else:
                by_lane[entry.delivery.lane].append(entry)
        limit = int(_SHARE_OF_A_TRANSACTION * settings.current().transaction_actions)
        places = (lambda entry: len(resolver.streams_of(entry.event)), limit)
        plain = [[Unit(some)] for entries in by_asset.values() for some in pack(entries, places)]
        lanes = [[Unit(some) for some in pack(entries, places)] for entries in by_lane.values()]
        return plain + lanes

    def _hand_on(self, units: Sequence[Unit], resolver: Resolver) -> None:
        """Let those who wait for the recorded events have their runs.

        Also for events that were recorded before: whoever did it may not have come this far.
        """
        entries = [entry for unit in units if unit.failure is None for entry in unit.entries]
        streams = {stream for entry in entries for stream in resolver.streams_of(entry.event)}
        rows = [resolver.rows[stream] for stream in sorted(streams)]
        opened = [row for row in rows if row.open_shard is not None]
        if not opened:
            return
        try:
            self.report.fired_runs = fan_out(opened, has_time=self.has_time).claimed_runs
        except Exception as error:  # they are recorded; whoever gets them next hands them on
            log.exception("events of %d assets could not be handed on yet", len(opened))
            self.fail({entry.delivery.message_id: in_short(error) for entry in entries})


def _come_back_later(deliveries: Sequence[Delivery]) -> None:
    """Let each failed message be delivered again, later each time."""
    for is_fifo, queue in ((False, "events"), (True, "events.fifo")):
        failed = [
            (one.receipt, one.receives)
            for one in deliveries[:_MAX_PAUSED]
            if one.is_fifo == is_fifo
        ]
        if failed:
            queues.delay_redelivery(queue, failed)
