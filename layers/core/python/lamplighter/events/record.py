"""Records events: once per id, with the next sequence number of the asset, a group at a time.

Owns: the asset of an event, the aliases and URIs that it is also recorded under, and the sequence
numbers. They have no gaps and are assigned at commit, so a range of numbers never changes. The same
transaction opens the asset: until it is closed, consumers may not have seen its newest event.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pendulum import DateTime

from lamplighter import clock, settings
from lamplighter.assets.asset import Asset, AssetRef
from lamplighter.errors import DefinitionError, LamplighterError, RejectedError, TransientError
from lamplighter.events.fields import shown
from lamplighter.events.message import AssetEvent
from lamplighter.identifiers import alias_id, asset_id, is_alias, uri_id
from lamplighter.queues import Delivery
from lamplighter.store.assets import new_rows, put_missing, read_assets
from lamplighter.store.models import AssetEvents, Assets
from lamplighter.store.slots import shard_of
from lamplighter.store.transactions import (
    Cause,
    Change,
    Put,
    TransactionCanceled,
    pack,
    retry_attempts,
    transact,
)

# Extras in one transaction, which is limited to 4 MB.
_MAX_BYTES = 3_000_000


# Resolving assets.


@dataclass
class Resolver:
    """The rows that a batch of events refers to, each read once."""

    rows: dict[str, Assets] = field(default_factory=dict)
    malformed: set[str] = field(default_factory=set)

    @classmethod
    def reading(cls, events: Sequence[AssetEvent]) -> "Resolver":
        """Return a resolver that has read everything the events name."""
        this = cls()
        this._read(key for event in events for key in (*_named(event), *_aliases(event)))
        if settings.current().unknown_assets == "register":
            this._register(events)
        this._follow()
        return this

    def learn(self, row: Assets) -> None:
        """Replace a row by its current state; it, and its URI, may have a new target."""
        self.rows[row.asset_id] = row
        uris = [key for key, uri in self.rows.items() if uri.target == row.asset_id]
        if uris:
            self.rows |= read_assets(uris, malformed=self.malformed)
        self._follow()

    def _follow(self) -> None:
        """Read the targets of URIs, and the URIs that assets are mirrored to."""
        self._read([row.target for row in self.rows.values() if row.target is not None])
        self._read([key for row in self.rows.values() for key in row.mirrored_uris or ()])

    def _read(self, keys: Iterable[str]) -> None:
        missing = set(keys) - self.rows.keys()
        if missing:
            self.rows |= read_assets(missing, malformed=self.malformed)

    def _register(self, events: Sequence[AssetEvent]) -> None:
        """Create rows for assets that no DAG names."""
        unknown = {
            _named(event)[0]: rows
            for event in events
            if event.object_uri is None and _named(event)[0] not in self.rows
            if (rows := _rows_for(event))
        }
        put_missing([*unknown.values()])
        self._read(unknown)

    def streams_of(self, event: AssetEvent) -> tuple[str, ...]:
        """Return the ids under which an event is recorded, its asset's first."""
        if unreadable := self.malformed.intersection((*_named(event), *_aliases(event))):
            raise TransientError(f"asset {min(unreadable)!r} cannot be read: its row is malformed")
        found = (self.rows[key] for key in _named(event) if key in self.rows)
        row = next(filter(_is_in_use, found), None)
        if row is None:
            raise RejectedError(_unknown(event))
        if row.target is not None:
            row = self._of(row.target)
        aliases = _aliases(event)
        if unknown := [
            name for name, key in zip(event.aliases, aliases, strict=True) if key not in self.rows
        ]:
            raise RejectedError(f"aliases: no DAG has named the alias {shown(unknown[0])}")
        also = [self._of(key).asset_id for key in sorted(row.mirrored_uris or ())]
        return tuple(dict.fromkeys((row.asset_id, *also, *aliases)))

    def _of(self, key: str) -> Assets:
        if key not in self.rows:
            raise TransientError(f"asset {key!r} is being registered; will retry")
        return self.rows[key]


def _named(event: AssetEvent) -> list[str]:
    """Return the ids that may resolve to the event's asset, best first."""
    if event.asset is not None:
        return [asset_id(event.asset)]
    if event.uri is not None:
        return [uri_id(event.uri)]
    assert event.object_uri is not None
    return [uri_id(uri) for uri in uris_above(event.object_uri)]


def _is_in_use(row: Assets) -> bool:
    """Return False for a URI that no asset has and no DAG waits for."""
    return row.kind != "uri" or row.target is not None or bool(row.has_consumers)


def _aliases(event: AssetEvent) -> list[str]:
    return [alias_id(name) for name in event.aliases]


def uris_above(object_uri: str) -> list[str]:
    """Return the URI of an object and those above it, the longest first."""
    scheme, _, rest = object_uri.partition("://")
    bucket, _, key = rest.partition("/")
    parts = key.split("/")
    folders = ["/".join(parts[:length]).rstrip("/") for length in range(len(parts), -1, -1)]
    # The normalized URI of a bucket ends with a slash, all others do not.
    return list(dict.fromkeys(f"{scheme}://{bucket}/{folder}" for folder in folders))


def _unknown(event: AssetEvent) -> str:
    if event.asset is not None:
        return f"asset: no DAG has named an asset {shown(event.asset)}"
    if event.uri is not None:
        return f"uri: no DAG has named an asset with the URI {shown(event.uri)}"
    return f"the object {shown(event.object_uri or '')} lies below the URI of no asset"


def _rows_for(event: AssetEvent) -> list[Assets]:
    """Return the rows for an asset's first event, or none if its name or URI is invalid."""
    try:
        return new_rows(_asset_of(event))
    except DefinitionError:
        return []  # it stays unknown, so its event is rejected


def _asset_of(event: AssetEvent) -> Asset | AssetRef:
    return Asset.ref(name=event.asset) if event.asset is not None else Asset(uri=event.uri)


# Recording.


@dataclass(frozen=True)
class IncomingEvent:
    """An event, its message and its asset."""

    delivery: Delivery
    event: AssetEvent
    asset: str


@dataclass
class EventGroup:
    """Events that are recorded together: of one asset, or of one lane in order."""

    members: list[IncomingEvent]
    failure: Exception | None = None


def recorded_event_id(stream: str, asset: str, event_id: str) -> str:
    """Return the id under which an event is stored in a stream."""
    # An alias collects events of several assets, whose ids may be the same.
    return f"{asset}#{event_id}" if is_alias(stream) else event_id


def event_id_of(row: AssetEvents) -> str:
    """Return the producer's event id of a stored event."""
    return row.event_id.removeprefix(f"{row.origin}#") if is_alias(row.asset_id) else row.event_id


@dataclass(frozen=True)
class Conflict:
    """An event with the id of a recorded one, and other content."""

    member: IncomingEvent
    first: AssetEvents


@dataclass
class Recorder:
    """Records groups of events and keeps the rows of their assets up to date."""

    resolver: Resolver
    now: DateTime = field(default_factory=clock.now)
    recorded: int = 0
    known: dict[tuple[str, str], AssetEvents] = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)

    def record(self, groups: Sequence[EventGroup], *, has_time: Callable[[], bool]) -> None:
        """Record the groups, as many as possible per transaction; set `failure` on the others."""
        limits = settings.current().transaction_actions, _MAX_BYTES
        for bulk in pack(groups, (self._actions, limits[0]), (self._bytes, limits[1])):
            try:
                self._commit(bulk, has_time)
            except LamplighterError:
                # One of them is at fault or contended; find it by committing each alone.
                for group in bulk:
                    self._commit_alone(group, has_time)

    def _actions(self, group: EventGroup) -> int:
        streams = [stream for member in group.members for stream in self._streams(member)]
        return len(streams) + len(set(streams))

    def _bytes(self, group: EventGroup) -> int:
        return sum(
            len(member.delivery.body) * len(self._streams(member)) for member in group.members
        )

    def _streams(self, member: IncomingEvent) -> tuple[str, ...]:
        # Resolved each time: a push may change the streams while an event is being recorded.
        return self.resolver.streams_of(member.event)

    def _commit_alone(self, group: EventGroup, has_time: Callable[[], bool]) -> None:
        try:
            self._commit([group], has_time)
        except LamplighterError as error:
            group.failure = error

    def _commit(self, groups: Sequence[EventGroup], has_time: Callable[[], bool]) -> None:
        for _ in retry_attempts():
            if not has_time():
                raise TransientError("no time left to record events; will retry")
            events, assets, conflicts = self._changes(groups)
            if not events:
                self.conflicts += conflicts
                return
            # The asset may have been closed since it was read.
            changes = [
                Change(row, ("seq", "refs_rev"), always=("open_shard", "open_since"))
                for row in assets
            ]
            try:
                # An outlet's event has a row without a number from the end of its step.
                puts = [Put(event, unless_has="seq") for event in events]
                transact([*puts, *changes])
            except TransactionCanceled as cancelled:
                self._learn(events, assets, cancelled)
            else:
                self._remember(events, assets)
                self.conflicts += conflicts
                return
        raise TransientError("assets are contended; events will be recorded on retry")

    def _changes(
        self, groups: Sequence[EventGroup]
    ) -> tuple[list[AssetEvents], list[Assets], list[Conflict]]:
        """Return the rows of all new events, those of their assets, and what is not recorded."""
        events: list[AssetEvents] = []
        assets: dict[str, Assets] = {}
        conflicts: list[Conflict] = []
        seen = dict(self.known)
        for member in (member for group in groups for member in group.members):
            asset, *others = self._streams(member)
            if (first := seen.get((asset, member.event.event_id))) is not None:
                # It was recorded in all streams at once; a stream added since then does not get it.
                if first.content_hash not in {None, member.event.content_hash}:
                    conflicts.append(Conflict(member, first))
                continue
            for stream in (asset, *others):
                key = (stream, recorded_event_id(stream, asset, member.event.event_id))
                if key in seen:
                    continue
                row = assets.setdefault(stream, self.resolver.rows[stream].as_stored())
                row.seq = int(row.seq or 0) + 1
                event = seen[key] = self._event_row(member, key, row.seq)
                event.origin = None if stream == asset else asset
                events.append(event)
        for stream, row in assets.items():
            # Never back in time, even if clocks differ: run keys are derived from it.
            before = row.recorded_at
            row.recorded_at = self.now if before is None else max(self.now, before)
            if row.open_shard is None or row.open_since is None:
                row.open_since = self.now
            row.open_shard = shard_of(stream, settings.current().run_shards)
        return events, list(assets.values()), conflicts

    def _event_row(self, member: IncomingEvent, key: tuple[str, str], seq: int) -> AssetEvents:
        event = member.event
        return AssetEvents(
            *key,
            seq=seq,
            timestamp=event.timestamp or self.now,
            recorded_at=self.now,
            extra=event.extra or None,
            source=event.source,
            partition_key=event.partition_key,
            sender=member.delivery.sender,
            content_hash=event.content_hash,
            expires_at=self.now.add(days=settings.current().event_retention_days),
        )

    def _learn(
        self,
        events: Sequence[AssetEvents],
        assets: Sequence[Assets],
        cancelled: TransactionCanceled,
    ) -> None:
        """Learn from a cancelled transaction: events that exist, assets that have changed."""
        for event, reason in zip(events, cancelled.reasons, strict=False):
            if reason.cause is Cause.CONDITION_FAILED:
                self.known[event.asset_id, event.event_id] = reason.row or event
        of_assets = zip(assets, cancelled.reasons[len(events) :], strict=True)
        for row, reason in of_assets:
            if reason.cause is not Cause.CONDITION_FAILED:
                continue
            if reason.row is None:
                raise TransientError(f"asset {row.asset_id!r} was deleted; will retry")
            self.resolver.learn(reason.row)

    def _remember(self, events: Sequence[AssetEvents], assets: Sequence[Assets]) -> None:
        self.recorded += sum(event.origin is None for event in events)
        self.known |= {(event.asset_id, event.event_id): event for event in events}
        for row in assets:
            row.stored = dict(row.attribute_values)
            self.resolver.rows[row.asset_id] = row
