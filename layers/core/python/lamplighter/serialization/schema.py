"""The version of the document format, and what happens to documents of another.

A change of the format adds one to `SCHEMA` and a step to `_UPGRADES` that turns a document of the
version before into the next; documents from the future are refused.
"""

from collections.abc import Callable
from typing import Any

from lamplighter.errors import SerializationError

SCHEMA = 2

_UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: lambda document: {**document, "schema": 2, "allowed_run_types": None},
}


def upgrade(document: dict[str, Any]) -> dict[str, Any]:
    """Return `document` in the present version, or refuse it."""
    version = document.get("schema") if isinstance(document, dict) else None
    while version != SCHEMA:
        if not isinstance(version, int) or version not in _UPGRADES:
            raise SerializationError(
                f"document of schema version {version!r}: this library reads version {SCHEMA};"
                " upgrade lamplighter, or push the bundle again"
            )
        document = _UPGRADES[version](document)
        version = document.get("schema")
    return document
