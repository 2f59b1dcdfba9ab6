"""Assets: named pieces of data, and the ways a schedule can refer to them.

Owns: their names and URIs, whose normal form makes two spellings of one place one asset, their
written form, and watchers, which declare that an outside source updates an asset.
"""

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from lamplighter.assets.condition import AssetCondition, AssetLeaf, decode
from lamplighter.errors import DefinitionError, SerializationError
from lamplighter.loading import is_kept_as_data, json_mapping, load_class
from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.feeds import ForeignTrigger, StreamInfo

_MAX_LENGTH = 1500
_MAX_EXTRA = 32_000
_MAX_WATCHER_NAME = 200
_RESERVED_NAMES = frozenset({"self", "context"})


class _MissingNameError(DefinitionError, TypeError):
    """Neither name nor URI was given; Airflow raises `TypeError` here."""


@dataclass(unsafe_hash=True)
class AssetWatcher:
    """A named trigger on an asset: each of its events becomes an event of the asset."""

    name: str  # What it is called among the watchers of the asset; at most 200 characters.
    trigger: BaseEventTrigger  # What reports the events.

    def __post_init__(self) -> None:
        name, trigger = self.name, self.trigger
        if not isinstance(name, str) or not name.strip():
            raise DefinitionError(f"watcher: the name must be a non-empty string, not {name!r}")
        if len(name) > _MAX_WATCHER_NAME:
            raise DefinitionError(f"watcher: a name has at most {_MAX_WATCHER_NAME} characters")
        if not isinstance(trigger, BaseEventTrigger):
            raise DefinitionError(
                f"watcher {name!r}: trigger {type(trigger).__name__} must be a BaseEventTrigger;"
                " others report a state that stays true, and would start runs without end"
            )

    def __repr__(self) -> str:
        return f"AssetWatcher({self.name!r}, {self.trigger!r})"


class Asset(AssetLeaf):
    """A piece of data that tasks produce and schedules wait for, known by name and URI."""

    default_group = "asset"

    def __init__(
        self,
        name: str | None = None,  # What schedules and events call it; the URI by default.
        uri: str | None = None,  # Where the data is; the name by default.
        *,
        group: str | None = None,  # A word to sort assets by; "asset" by default.
        extra: Mapping[str, Any]
        | None = None,  # Facts about it, at most 32,000 characters of JSON.
        watchers: Sequence[AssetWatcher] = (),  # What reports events of it from outside.
    ) -> None:
        if name is None and uri is None:
            raise _MissingNameError(f"{type(self).__name__}: give a name, a uri, or both")
        place = without_credentials(_identifier(name if uri is None else uri, "uri"))
        self.name = place if name is None or uri is None else _identifier(name, "name")
        self.uri = normalize_uri(place)
        self.group = _group(self.default_group if group is None else group)
        self.watchers = tuple(watchers)
        if self.name in _RESERVED_NAMES:
            raise DefinitionError(f"asset {self.name!r}: that name is reserved")
        for watcher in self.watchers:
            if not isinstance(watcher, AssetWatcher):
                raise DefinitionError(f"asset {self.name!r}: {watcher!r} is not an AssetWatcher")
        try:
            self.extra = _extra(extra or {})
        except TypeError as error:
            raise DefinitionError(f"asset {self.name!r}: extra: {error}") from error

    @staticmethod
    def ref(*, name: str | None = None, uri: str | None = None) -> "AssetRef":
        """Return a reference to an asset that is defined elsewhere, by name or by URI."""
        return AssetRef(name=name, uri=uri)

    def _fields(self) -> tuple[object, ...]:
        return (Asset, self.name, self.uri, self.group, self.extra, self.watchers)

    def __hash__(self) -> int:
        return hash((self.name, self.uri))  # an extra may have no hash

    def describe(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, uri={self.uri!r})"


class Dataset(Asset):
    """The older name of `Asset`, with the same arguments."""

    default_group = "dataset"


class AssetAlias(AssetLeaf):
    """A name under which a task decides at run time which assets it has produced."""

    def __init__(
        self,
        name: str,  # What outlets, schedules and jobs call it.
        *,
        group: str = "asset",  # A word to sort it by.
    ) -> None:
        self.name = _identifier(name, "alias")
        self.group = _group(group)

    def _fields(self) -> tuple[object, ...]:
        return (AssetAlias, self.name, self.group)

    def describe(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"AssetAlias({self.name!r})"


class AssetRef(AssetLeaf):
    """An asset meant by its name or its URI alone; made by `Asset.ref`."""

    def __init__(
        self,
        *,
        name: str | None = None,  # Exactly one of these two.
        uri: str | None = None,  # In any spelling of the same place.
    ) -> None:
        if (name is None) == (uri is None):
            raise _MissingNameError("Asset.ref: give exactly one of name and uri")
        self.name = None if name is None else _identifier(name, "name")
        self.uri = None if uri is None else normalize_uri(_identifier(uri, "uri"))

    def _fields(self) -> tuple[object, ...]:
        return (AssetRef, self.name, self.uri)

    def describe(self) -> str:
        return self.name or self.uri or ""

    def __repr__(self) -> str:
        return f"Asset.ref(uri={self.uri!r})" if self.name is None else f"Asset.ref({self.name!r})"


def _extra(value: object) -> dict[str, Any]:
    extra = json_mapping(value)
    size = len(json.dumps(extra))
    if size > _MAX_EXTRA:
        raise TypeError(f"{size:,} characters as JSON, at most {_MAX_EXTRA:,} are allowed")
    return extra


def _group(value: object) -> str:
    return "" if value == "" else _identifier(value, "group")


def _identifier(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise DefinitionError(f"asset {what} must be a string, not {value!r}")
    if not value.strip():
        raise DefinitionError(f"asset {what} must not be empty")
    if len(value) > _MAX_LENGTH:
        raise DefinitionError(
            f"asset {what} {value[:40]!r}…: {len(value)} characters, at most {_MAX_LENGTH} allowed"
        )
    return value


# URIs.


def without_credentials(uri: str) -> str:
    """Return `uri` without user and password, with a warning if there was a password.

    Definitions are stored, logged and shown: a password in one of them has already leaked.
    """
    parts = _split(uri)
    if not _has_normal_form(parts) or parts.password is None:
        return uri
    host = parts.netloc.rpartition("@")[2]
    warnings.warn(
        f"asset URI {parts.scheme}://{host}…: user and password were dropped; keep credentials out"
        " of DAG files",
        UserWarning,
        stacklevel=3,
    )
    return urlunsplit(parts._replace(netloc=host))


def normalize_uri(uri: str) -> str:
    """Return `uri` with scheme, path and query in their normal form, fragment and password gone."""
    parts = _split(without_credentials(uri))
    if not _has_normal_form(parts):
        return uri
    scheme = parts.scheme.lower()
    if scheme == "airflow":
        raise DefinitionError(f"asset URI {uri!r}: the scheme 'airflow' is reserved")
    path = parts.path.rstrip("/") or "/"
    if not parts.netloc and path.startswith("//"):
        path = "/" + path.lstrip("/")  # else it would be taken for a host when it is read again
    query = urlencode(sorted(parse_qsl(parts.query, keep_blank_values=True)))
    return urlunsplit((scheme, parts.netloc, path, query, ""))


def _has_normal_form(parts: SplitResult) -> bool:
    """Return False for plain names and for schemes that say they are someone's own."""
    return bool(parts.scheme) and not parts.scheme.lower().startswith("x-")


def _split(uri: str) -> SplitResult:
    try:
        parts = urlsplit(uri)
        parts.password  # noqa: B018 - a broken host shows only when it is looked at
    except ValueError as error:
        raise DefinitionError(f"asset URI {uri!r} cannot be read: {error}") from error
    return parts


# The written form of assets, and of conditions on them.


def encode_condition(condition: AssetCondition) -> dict[str, Any]:
    """Return the JSON value that `decode_condition` reads back."""
    written: dict[str, Any] = condition.encode(_encode_leaf)
    return written


def decode_condition(document: dict[str, Any]) -> AssetCondition:
    """Return the condition that was written."""
    return decode(document, _decode_leaf)


def _encode_leaf(leaf: AssetLeaf) -> dict[str, Any]:
    match leaf:
        case Asset():
            written = {name: getattr(leaf, name) for name in ("name", "uri", "group", "extra")}
            watchers = [encode_watcher(watcher) for watcher in leaf.watchers]
            kind = "asset" if type(leaf) is Asset else "dataset"
            return {kind: written | {"watchers": watchers}}
        case AssetAlias():
            return {"alias": {"name": leaf.name, "group": leaf.group}}
        case AssetRef():
            return {"asset_ref": {"uri": leaf.uri} if leaf.name is None else {"name": leaf.name}}
    raise SerializationError(f"{leaf!r} has no written form")


def _decode_leaf(document: dict[str, Any]) -> AssetLeaf:
    if len(document) != 1:
        raise SerializationError(f"an asset condition has one key, not {sorted(document)}")
    ((kind, data),) = document.items()
    match kind:
        case "asset" | "dataset":
            watchers = [
                AssetWatcher(each["name"], decode_trigger(each["trigger"]))
                for each in data["watchers"]
            ]
            return (Asset if kind == "asset" else Dataset)(
                data["name"],
                data["uri"],
                group=data["group"],
                extra=data["extra"],
                watchers=watchers,
            )
        case "alias":
            return AssetAlias(data["name"], group=data["group"])
        case "asset_ref":
            return AssetRef(name=data.get("name"), uri=data.get("uri"))
    raise SerializationError(f"unknown kind of asset condition: {kind!r}")


def encode_watcher(watcher: AssetWatcher) -> dict[str, Any]:
    """Return the JSON value of a watcher, with what must be wired for it."""
    path, kwargs = watcher.trigger.serialize()
    # Read where it is defined: elsewhere an author's class is only remembered.
    facts = StreamInfo.of(watcher.trigger).to_json()
    return {"name": watcher.name, "trigger": {"type": path, "data": kwargs, **facts}}


def decode_trigger(document: dict[str, Any]) -> BaseEventTrigger:
    """Return the trigger that was written; an author's class only where its bundle may run."""
    path, data = document["type"], document["data"]
    if is_kept_as_data(path):
        return ForeignTrigger(path, data, StreamInfo.from_json(document))
    return load_class(path, BaseEventTrigger)(**data)
