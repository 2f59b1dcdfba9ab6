"""Which values of an author's can be written as JSON and read back the same."""

import json
from collections.abc import Mapping
from typing import Any


def json_mapping(value: object) -> dict[str, Any]:
    """Return a copy of a mapping that survives being written as JSON, or say why it does not."""
    if not isinstance(value, Mapping):
        raise TypeError(f"must be a mapping, not {value!r}")
    try:
        copy: dict[str, Any] = json.loads(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(f"must hold JSON values only: {error}") from error
    if copy != dict(value):
        raise TypeError("must hold JSON values only: text keys, and lists instead of tuples")
    return copy
