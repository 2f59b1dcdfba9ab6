"""Records events: once per id, with the next number of their asset, all of a unit or none.

Owns: the numbers. They are dense and given at the commit, so that "up to number 7" means the same
to everybody for ever. The same transaction marks the asset as open: until it is closed again, there
may be consumers who have not been looked at since its newest event.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress

from pendulum import DateTime

from lamplighter import clock, settings
from lamplighter.errors import LamplighterError, TransientError
from lamplighter.queues import Delivery
from lamplighter.events.message import AssetEvent
from lamplighter.identifiers import OUTLET, asset_id, is_alias
from lamplighter.store.due import shard_of
from lamplighter.store.models import AssetEvents, Assets
from lamplighter.store.transactions import delete_if
from lamplighter.store.transactions import (
    TransactionCanceled,
    Change,
    Put,
    Cause,
    pack,
    retry_attempts,
    transact,
)

# Extras of one transaction, which may have 4 MB in all.
_MAX_BYTES = 3_000_000


@dataclass(frozen=True)
class Entry:
    """An event, the message that brought it, and the asset that it is of."""

    delivery: Delivery
    event: AssetEvent
    asset: str


@dataclass
class Unit:
    """Events that are recorded together: those of one asset, or of one lane in their order."""

    entries: list[Entry]
    failure: Exception | None = None


def recorded_event_id(stream: str, asset: str, event_id: str) -> str:
    """Return what an event of an asset is called where it is recorded."""
    # An alias gathers the events of several assets, which may number theirs alike.
    return f"{asset}#{event_id}" if is_alias(stream) else event_id


def event_id_of(row: AssetEvents) -> str:
    """Return what an event is called by its producer, wherever it is recorded."""
    return row.event_id.removeprefix(f"{row.origin}#") if is_alias(row.asset_id) else row.event_id


def expected_asset_id(event: AssetEvent) -> str:
    """Return the id under which an event is expected, going by what it says itself."""
    return asset_id(event.asset or event.uri or "")


def delete_outlet_rows(events: Iterable[AssetEvent]) -> None:
    """Remove the rows of outlets' events that will never have a number: where they were expected.

    They were rejected, or a URI has led to an asset that is called otherwise.
    """
    for event in events:
        if event.event_id.startswith(OUTLET):
            row = AssetEvents(expected_asset_id(event), event.event_id)
            delete_if(row, AssetEvents.seq.does_not_exist())


@dataclass
class Recorder:
    """Records units on the rows of their assets, which it keeps up to date."""

    resolver: Resolver
    now: DateTime = field(default_factory=clock.now)
    recorded: int = 0
    known: set[tuple[str, str]] = field(default_factory=set)

    def record(self, units: Sequence[Unit], *, has_time: Callable[[], bool]) -> None:
        """Record each unit, as many as possible together; note on the others why they failed."""
        limits = settings.current().transaction_actions, _MAX_BYTES
        for bulk in pack(units, (self._actions, limits[0]), (self._bytes, limits[1])):
            try:
                self._commit(bulk, has_time)
            except LamplighterError:
                # One of them is at fault, or too busy; alone, each finds out.
                for unit in bulk:
                    self._commit_alone(unit, has_time)

    def _actions(self, unit: Unit) -> int:
        streams = [stream for entry in unit.entries for stream in self._streams(entry)]
        return len(streams) + len(set(streams))

    def _bytes(self, unit: Unit) -> int:
        return sum(len(entry.delivery.body) * len(self._streams(entry)) for entry in unit.entries)

    def _streams(self, entry: Entry) -> tuple[str, ...]:
        # Asked each time: a push may change where an event belongs while it is being recorded.
        return self.resolver.streams_of(entry.event)

    def _commit_alone(self, unit: Unit, has_time: Callable[[], bool]) -> None:
        try:
            self._commit([unit], has_time)
        except LamplighterError as error:
            unit.failure = error

    def _commit(self, units: Sequence[Unit], has_time: Callable[[], bool]) -> None:
        for _ in retry_attempts():
            if not has_time():
                raise TransientError("no time was left to record them")
            events, assets = self._changes(units)
            if not events:
                return
            # Whoever handed on the event before has perhaps closed the asset since it was read.
            changes = [
                Change(row, ("seq", "refs_rev"), always=("open_shard", "open_since"))
                for row in assets
            ]
            try:
                # An outlet's event has its row, but no number, from the moment its step was over.
                puts = [Put(event, unless_has="seq") for event in events]
                transact([*puts, *changes])
            except TransactionCanceled as cancelled:
                self._learn(events, assets, cancelled)
            else:
                self._keep(events, assets)
                return
        raise TransientError("assets stayed busy while their events were to be recorded")

    def _changes(self, units: Sequence[Unit]) -> tuple[list[AssetEvents], list[Assets]]:
        """Return the rows of all events that are not known yet, and those of their assets."""
        events: list[AssetEvents] = []
        assets: dict[str, Assets] = {}
        seen = set(self.known)
        for entry in (entry for unit in units for entry in unit.entries):
            asset, *others = self._streams(entry)
            if (asset, entry.event.event_id) in seen:
                # It was recorded everywhere at once; a place that is new since then is not for it.
                continue
            for stream in (asset, *others):
                key = (stream, recorded_event_id(stream, asset, entry.event.event_id))
                if key in seen:
                    continue
                seen.add(key)
                row = assets.setdefault(stream, self.resolver.rows[stream].as_stored())
                row.seq = int(row.seq or 0) + 1
                event = self._event_row(entry.event, key, row.seq)
                event.origin = None if stream == asset else asset
                events.append(event)
        for stream, row in assets.items():
            # Never back, whatever the clocks of two machines say: a run is named by it, and found.
            before = row.recorded_at
            row.recorded_at = self.now if before is None else max(self.now, before)
            if row.open_shard is None or row.open_since is None:
                row.open_since = self.now
            row.open_shard = shard_of(stream, settings.current().run_shards)
        return events, list(assets.values())

    def _event_row(self, event: AssetEvent, key: tuple[str, str], seq: int) -> AssetEvents:
        return AssetEvents(
            *key,
            seq=seq,
            timestamp=event.timestamp or self.now,
            recorded_at=self.now,
            extra=event.extra or None,
            source=event.source,
            partition_key=event.partition_key,
            expires_at=self.now.add(days=settings.current().keep_events_days),
        )

    def _learn(
        self, events: Sequence[AssetEvents], assets: Sequence[Assets], cancelled: TransactionCanceled
    ) -> None:
        """Take in what stood in the way: events that exist, assets that have moved on."""
        refused = [reason.cause is Cause.CONDITION_FAILED for reason in cancelled.reasons]
        for event in compress(events, refused):
            self.known.add((event.asset_id, event.event_id))
        of_assets = zip(assets, cancelled.reasons[len(events) :], strict=True)
        for row, reason in of_assets:
            if reason.cause is not Cause.CONDITION_FAILED:
                continue
            if reason.row is None:
                raise TransientError(f"asset {row.asset_id!r} was removed meanwhile")
            self.resolver.learn(reason.row)

    def _keep(self, events: Sequence[AssetEvents], assets: Sequence[Assets]) -> None:
        self.recorded += sum(event.origin is None for event in events)
        self.known |= {(event.asset_id, event.event_id) for event in events}
        for row in assets:
            row.stored = dict(row.attribute_values)
            self.resolver.rows[row.asset_id] = row
