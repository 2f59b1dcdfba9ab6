"""What is logged in a job, as JSON: one line per message, each saying which step it belongs to.

Owns: one handler on the root logger. Refuses: changing handlers that a program sets up itself.
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lamplighter_job.secrets import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lamplighter_job.context import Context


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON with fields that are the same on every line."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__()
        self._fields = dict(fields)

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "timestamp": _instant(record.created),
            "level": record.levelname,
            **self._fields,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(without_secrets(line), default=lambda value: without_secrets(str(value)))


def _instant(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03}Z"


def fields_of(context: Context) -> dict[str, Any]:
    """Return what every line of a step says."""
    names = ("dag_id", "run_id", "task_id", "try_number")
    return {name: getattr(context, name) for name in names}


@contextmanager
def json_logs(fields: Mapping[str, Any]) -> Iterator[None]:
    """Write all that is logged at INFO and above to stderr until the block ends."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(fields))
    root, bridge = logging.getLogger(), logging.getLogger("py4j")
    levels = root.level, bridge.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    # The bridge to the JVM tells of each connection at INFO, which says nothing about the step.
    bridge.setLevel(max(bridge.level, logging.WARNING))
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        bridge.setLevel(levels[1])
