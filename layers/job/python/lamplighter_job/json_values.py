"""JSON that a program reports: which values, and how much of them.

Owns: the limit of one extra, and of all outputs of a step. Refuses: writing it anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lamplighter_job.errors import ReportError

# As JSON. Extras travel in messages and are stored with events; outputs come with each context.
MAX_JSON = 32_000


def json_object(value: object, what: str) -> dict[str, Any]:
    """Return a copy of a dict as JSON has it, or say why there is none."""
    if not isinstance(value, Mapping):
        raise ReportError(f"{what} must be a dict, not {type(value).__name__}")
    try:
        written = json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ReportError(
            f"{what} must hold JSON values only ({error}): use texts and plain numbers"
        ) from error
    if len(written) > MAX_JSON:
        raise ReportError(
            f"{what} has {len(written):,} characters as JSON, at most {MAX_JSON:,} are"
            " allowed: write large results as data and report where they are"
        )
    copy: dict[str, Any] = json.loads(written)
    return copy
