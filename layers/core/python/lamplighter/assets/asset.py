"""Assets: named pieces of data, and the ways a schedule can refer to them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from lamplighter.assets.condition import AssetLeaf
from lamplighter.errors import DefinitionError
from lamplighter.json_values import json_mapping

_MAX_LENGTH = 1500
_MAX_EXTRA = 32_000
_RESERVED_NAMES = frozenset({"self", "context"})


class _MissingNameError(DefinitionError, TypeError):
    """Neither name nor URI was given; Airflow raises `TypeError` here."""


class Asset(AssetLeaf):
    """A piece of data that tasks produce and schedules wait for, known by name and URI."""

    default_group = "asset"

    def __init__(
        self,
        name: str | None = None,
        uri: str | None = None,
        *,
        group: str | None = None,
        extra: Mapping[str, Any] | None = None,
        watchers: Sequence[AssetWatcher] = (),
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
        return (self.name, self.uri, self.group, self.extra, self.watchers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Asset):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((self.name, self.uri))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, uri={self.uri!r})"


class Dataset(Asset):
    """The older name of an asset."""

    default_group = "dataset"


class AssetAlias(AssetLeaf):
    """A name under which a task decides at run time which assets it has produced."""

    def __init__(self, name: str, *, group: str = "asset") -> None:
        self.name = _identifier(name, "alias")
        self.group = _group(group)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AssetAlias):
            return NotImplemented
        return (self.name, self.group) == (other.name, other.group)

    def __hash__(self) -> int:
        return hash((AssetAlias, self.name))

    def __repr__(self) -> str:
        return f"AssetAlias({self.name!r})"


class AssetRef(AssetLeaf):
    """An asset meant by its name or its URI alone; made by `Asset.ref`."""

    def __init__(self, *, name: str | None = None, uri: str | None = None) -> None:
        if (name is None) == (uri is None):
            raise _MissingNameError("Asset.ref: give exactly one of name and uri")
        self.name = None if name is None else _identifier(name, "name")
        self.uri = None if uri is None else normalize_uri(_identifier(uri, "uri"))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AssetRef):
            return NotImplemented
        return (self.name, self.uri) == (other.name, other.uri)

    def __hash__(self) -> int:
        return hash((AssetRef, self.name, self.uri))

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
        raise DefinitionError(f"asset {what} must be a text, not {value!r}")
    if not value.strip():
        raise DefinitionError(f"asset {what} must not be empty")
    if len(value) > _MAX_LENGTH:
        raise DefinitionError(
            f"asset {what} {value[:40]!r}…: {len(value)} characters, at most {_MAX_LENGTH} allowed"
        )
    return value
