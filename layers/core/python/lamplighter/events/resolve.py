"""Which asset an event is of, and where else it is recorded."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lamplighter import settings
from lamplighter.assets.asset import Asset, AssetRef
from lamplighter.errors import DefinitionError, RejectedError, TransientError
from lamplighter.events.fields import shown
from lamplighter.events.message import AssetEvent
from lamplighter.identifiers import alias_id, asset_id, uri_id
from lamplighter.store.assets import new_rows, put_missing, read_assets
from lamplighter.store.models import Assets


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
