"""Records events: once per id, with the next number of their asset, all of a group or none.

Owns: which asset an event is of, where else it is recorded, and the numbers. They are dense and
given at the commit, so that "up to number 7" means the same to everybody for ever. The same
transaction marks the asset as open: until it is closed again, there may be consumers who have not
been looked at since its newest event.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress

from pendulum import DateTime

from lamplighter import clock, settings
from lamplighter.assets.asset import Asset, AssetRef
from lamplighter.errors import DefinitionError, LamplighterError, RejectedError, TransientError
from lamplighter.events.fields import shown
from lamplighter.events.message import AssetEvent
from lamplighter.identifiers import OUTLET, alias_id, asset_id, is_alias, uri_id
from lamplighter.queues import Delivery
from lamplighter.store.assets import delete_unnumbered_event, new_rows, put_missing, read_assets
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

# Extras of one transaction, which may have 4 MB in all.
_MAX_BYTES = 3_000_000


# Which asset an event is of.


@dataclass
class Resolver:
    """The rows that some events are about. Each is read once, whatever their number."""

    rows: dict[str, Assets] = field(default_factory=dict)
    malformed: set[str] = field(default_factory=set)

    @classmethod
    def reading(cls, events: Sequence[AssetEvent]) -> "Resolver":
        """Return a resolver that has read all that the events name."""
        this = cls()
        this._read(key for event in events for key in (*_named(event), *_aliases(event)))
        if settings.current().unknown_assets == "register":
            this._register(events)
        this._follow()
        return this

    def learn(self, row: Assets) -> None:
        """Take in a row as it is now; it may lead elsewhere than before, and so may its URI."""
        self.rows[row.asset_id] = row
        uris = [key for key, uri in self.rows.items() if uri.target == row.asset_id]
        if uris:
            self.rows |= read_assets(uris, malformed=self.malformed)
        self._follow()

    def _follow(self) -> None:
        """Read where URIs lead, and the URIs under which assets are waited for."""
        self._read([row.target for row in self.rows.values() if row.target is not None])
        self._read([key for row in self.rows.values() for key in row.mirrored_uris or ()])

    def _read(self, keys: Iterable[str]) -> None:
        missing = set(keys) - self.rows.keys()
        if missing:
            self.rows |= read_assets(missing, malformed=self.malformed)

    def _register(self, events: Sequence[AssetEvent]) -> None:
        """Let assets that nobody has named yet have their rows."""
        unknown = {
            _named(event)[0]: rows
            for event in events
            if event.object_uri is None and _named(event)[0] not in self.rows
            if (rows := _rows_for(event))
        }
        put_missing([*unknown.values()])
        self._read(unknown)

    def streams_of(self, event: AssetEvent) -> tuple[str, ...]:
        """Return the ids under which an event is recorded, that of its asset first."""
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
        """Return a row that another one leads to."""
        if key not in self.rows:
            raise TransientError(f"asset {key!r} is being registered at this moment")
        return self.rows[key]


def _named(event: AssetEvent) -> list[str]:
    """Return the ids that may lead to the event's asset, the best first."""
    if event.asset is not None:
        return [asset_id(event.asset)]
    if event.uri is not None:
        return [uri_id(event.uri)]
    assert event.object_uri is not None
    return [uri_id(uri) for uri in uris_above(event.object_uri)]


def _is_in_use(row: Assets) -> bool:
    """Return False for a URI that an asset once had, and that nobody waits for."""
    return row.kind != "uri" or row.target is not None or bool(row.has_consumers)


def _aliases(event: AssetEvent) -> list[str]:
    return [alias_id(name) for name in event.aliases]


def uris_above(object_uri: str) -> list[str]:
    """Return the URIs that an object lies below, the longest first; its own comes before them."""
    scheme, _, rest = object_uri.partition("://")
    bucket, _, key = rest.partition("/")
    parts = key.split("/")
    folders = ["/".join(parts[:length]).rstrip("/") for length in range(len(parts), -1, -1)]
    # The normal form of a bucket's own URI ends with a slash, all others do not.
    return list(dict.fromkeys(f"{scheme}://{bucket}/{folder}" for folder in folders))


def _unknown(event: AssetEvent) -> str:
    if event.asset is not None:
        return f"asset: no DAG has named an asset {shown(event.asset)}"
    if event.uri is not None:
        return f"uri: no DAG has named an asset with the URI {shown(event.uri)}"
    return f"the object {shown(event.object_uri or '')} lies below the URI of no asset"


def _rows_for(event: AssetEvent) -> list[Assets]:
    """Return the rows that an asset gets when its first event comes, if it can be one."""
    try:
        return new_rows(_asset_of(event))
    except DefinitionError:
        return []  # it stays unknown, and its event is rejected


def _asset_of(event: AssetEvent) -> Asset | AssetRef:
    return Asset.ref(name=event.asset) if event.asset is not None else Asset(uri=event.uri)


# Recording.


@dataclass(frozen=True)
class IncomingEvent:
    """An event, the message that brought it, and the asset that it is of."""

    delivery: Delivery
    event: AssetEvent
    asset: str


@dataclass
class EventGroup:
    """Events that are recorded together: those of one asset, or of one lane in their order."""

    members: list[IncomingEvent]
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
            delete_unnumbered_event(expected_asset_id(event), event.event_id)


@dataclass
class Recorder:
    """Records groups on the rows of their assets, which it keeps up to date."""

    resolver: Resolver
    now: DateTime = field(default_factory=clock.now)
    recorded: int = 0
    known: set[tuple[str, str]] = field(default_factory=set)

    def record(self, groups: Sequence[EventGroup], *, has_time: Callable[[], bool]) -> None:
        """Record each group, as many as possible together; note on the others why they failed."""
        limits = settings.current().transaction_actions, _MAX_BYTES
        for bulk in pack(groups, (self._actions, limits[0]), (self._bytes, limits[1])):
            try:
                self._commit(bulk, has_time)
            except LamplighterError:
                # One of them is at fault, or too busy; alone, each finds out.
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
        # Asked each time: a push may change where an event belongs while it is being recorded.
        return self.resolver.streams_of(member.event)

    def _commit_alone(self, group: EventGroup, has_time: Callable[[], bool]) -> None:
        try:
            self._commit([group], has_time)
        except LamplighterError as error:
            group.failure = error

    def _commit(self, groups: Sequence[EventGroup], has_time: Callable[[], bool]) -> None:
        for _ in retry_attempts():
            if not has_time():
                raise TransientError("no time was left to record them")
            events, assets = self._changes(groups)
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
                self._remember(events, assets)
                return
        raise TransientError("assets stayed busy while their events were to be recorded")

    def _changes(self, groups: Sequence[EventGroup]) -> tuple[list[AssetEvents], list[Assets]]:
        """Return the rows of all events that are not known yet, and those of their assets."""
        events: list[AssetEvents] = []
        assets: dict[str, Assets] = {}
        seen = set(self.known)
        for member in (member for group in groups for member in group.members):
            asset, *others = self._streams(member)
            if (asset, member.event.event_id) in seen:
                # It was recorded everywhere at once; a place that is new since then is not for it.
                continue
            for stream in (asset, *others):
                key = (stream, recorded_event_id(stream, asset, member.event.event_id))
                if key in seen:
                    continue
                seen.add(key)
                row = assets.setdefault(stream, self.resolver.rows[stream].as_stored())
                row.seq = int(row.seq or 0) + 1
                event = self._event_row(member.event, key, row.seq)
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
            expires_at=self.now.add(days=settings.current().event_retention_days),
        )

    def _learn(
        self,
        events: Sequence[AssetEvents],
        assets: Sequence[Assets],
        cancelled: TransactionCanceled,
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

    def _remember(self, events: Sequence[AssetEvents], assets: Sequence[Assets]) -> None:
        self.recorded += sum(event.origin is None for event in events)
        self.known |= {(event.asset_id, event.event_id) for event in events}
        for row in assets:
            row.stored = dict(row.attribute_values)
            self.resolver.rows[row.asset_id] = row
