"""Outlets of a task, and the facts that its program states about them.

Owns: what may be said about an outlet, and how much. Refuses: writing it anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lamplighter_job.errors import ContextError
from lamplighter_job.json_values import json_object

if TYPE_CHECKING:
    from collections.abc import Mapping

ASSET = "asset"
ALIAS = "alias"


class Outlet:
    """One outlet of the running step: an asset with facts to fill in, or an alias to add to."""

    def __init__(
        self,
        kind: str,  # `asset` or `alias`.
        name: str,  # Of the asset or alias.
        uri: str | None = None,  # Where the data is.
    ) -> None:
        self.kind = kind
        self.name = name
        self.uri = uri
        self._extra: Any = {}
        self._added: list[dict[str, Any]] = []

    def __repr__(self) -> str:
        return f"Outlet({self.kind!r}, {self.name!r})"

    @property
    def extra(self) -> dict[str, Any]:
        """The `extra` of the asset's event: a dict of JSON values to fill in."""
        self._require(ASSET, "has no extra of its own: use .add(name=..., uri=..., extra={...})")
        facts: dict[str, Any] = self._extra
        return facts

    @extra.setter
    def extra(self, facts: dict[str, Any]) -> None:
        self._require(ASSET, "has no extra of its own: use .add(name=..., uri=..., extra={...})")
        self._extra = facts

    def add(
        self,
        *,
        name: str | None = None,
        uri: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Add an asset, by name, URI or both, that was updated under this alias."""
        self._require(ALIAS, "is no alias: fill its .extra instead")
        if not name and not uri:
            raise ContextError(f"alias {self.name!r}: give the name of an asset, its uri, or both")
        self._added.append({"name": name, "uri": uri, "extra": {} if extra is None else extra})

    def facts(self) -> dict[str, Any]:
        """Return the extra of an asset as it is reported."""
        return json_object(self._extra, f"outlet {self.name!r}: extra")

    def additions(self) -> list[dict[str, Any]]:
        """Return what was added to an alias as it is reported."""
        return [
            {
                **entry,
                "extra": json_object(
                    entry["extra"],
                    f"alias {self.name!r}, asset {entry['name'] or entry['uri']!r}: extra",
                ),
            }
            for entry in self._added
        ]

    def _require(self, kind: str, otherwise: str) -> None:
        if self.kind != kind:
            raise ContextError(f"outlet {self.name!r} {otherwise}")


def find_outlet(outlets: tuple[Outlet, ...], wanted: object) -> Outlet:
    """Return the outlet that a name, or anything with a name, means."""
    name = wanted if isinstance(wanted, str) else getattr(wanted, "name", None)
    found = [outlet for outlet in outlets if outlet.name == name]
    if not found:
        there_are = ", ".join(repr(outlet.name) for outlet in outlets) or "none"
        asked = repr(name) if isinstance(name, str) else repr(wanted)
        raise ContextError(f"{asked} is not an outlet of this task; its outlets: {there_are}")
    # An asset and an alias may share a name. Of the two only an asset has a URI.
    is_alias = not isinstance(wanted, str) and not hasattr(wanted, "uri")
    kind = ALIAS if is_alias else ASSET
    return next((outlet for outlet in found if outlet.kind == kind), found[0])
