"""The logs of the functions while `dev` runs, as activity instead of JSON on stderr.

Owns: what of them is activity. Refuses: the bundle's own prints.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lamplighter import clock
from lamplighter_local import handlers
from lamplighter_local.dev.activity import Activity
from lamplighter_local.text_logs import SourcesOnce, line_of, logging_to


class LogCollector(logging.Handler):
    """Keeps activity until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._activity: list[Activity] = []
        self._has_errors = False
        self._sources = SourcesOnce()
        self.addFilter(self._sources)
        # By DAG, how many runs were due when it was registered.
        self.owed: dict[str, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Turn a record into activity."""
        report = getattr(record, "report", None)
        if report is not None:
            self._activity += _registered(report)
            if self._has_errors and not report["errors"]:
                self.add(f"bundle {report['push']['bundle']}", "fixed", "no more errors")
            self._has_errors = bool(report["errors"])
            self.owed |= report["owed"]
            self._sources.forget()  # what was wrong may have been corrected
        elif record.levelno >= logging.WARNING:
            self.add(record.name, record.levelname.lower(), line_of(record))
        elif record.name == handlers.SESSION_LOG:
            self.add("watch", "shared", line_of(record))

    def add(self, about: str, state: str, detail: str = "") -> None:
        """Add an activity."""
        self._activity.append(Activity(clock.now(), about, state, detail))

    def take(self) -> list[Activity]:
        """Return the activity since the last call."""
        taken, self._activity = self._activity, []
        return taken


@contextmanager
def collected_logs() -> Iterator[LogCollector]:
    """Collect everything that is logged until the block ends."""
    collector = LogCollector()
    with logging_to(collector):
        # `register` logs a report of each push.
        logging.getLogger("register").setLevel(logging.INFO)
        yield collector


def _registered(report: Mapping[str, Any]) -> Iterator[Activity]:
    now = clock.now()
    for severity in ("error", "warning"):
        for problem in report[f"{severity}s"]:
            yield Activity(now, _location(problem), severity, " ".join(problem["message"].split()))
    counts = [
        (report["new"], "new"),
        (report["changed"], "changed"),
        (report["stale"], "gone"),
        (report["broken"], "broken"),
    ]
    parts = [f"{len(dags)} {word} ({_names(dags)})" for dags, word in counts if dags]
    if report["unchanged"]:
        parts.append(f"{report['unchanged']} unchanged")
    about = f"bundle {report['push']['bundle']}"
    yield Activity(now, about, "registered", ", ".join(parts) or "no DAGs")


def _location(problem: Mapping[str, Any]) -> str:
    line = problem["line"]
    return str(problem["file"]) if line is None else f"{problem['file']}:{line}"


_MAX_NAMED = 5


def _names(dags: Sequence[str]) -> str:
    more = f" and {len(dags) - _MAX_NAMED} more" if len(dags) > _MAX_NAMED else ""
    return ", ".join(dags[:_MAX_NAMED]) + more
