"""The logs of the functions while `dev` runs, as activity instead of JSON on stderr.

Owns: where the logs of the functions and of the library go. Refuses: the bundle's own prints.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from lamplighter import clock
from lamplighter_local import handlers
from lamplighter_local.dev.activity import Activity

_FUNCTIONS = (
    "sandbox",
    "register",
    "tick",
    "claim",
    "ingest",
    "watch",
    "submit",
    "settle",
    "sweep",
)
_LIBRARY = "lamplighter"


class LogCollector(logging.Handler):
    """Keeps activity until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._activity: list[Activity] = []
        self._has_errors = False
        # The streams that were opened, which most are every minute.
        self._streams: set[str] = set()
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
        elif record.levelno >= logging.WARNING:
            detail = _with_facts(record)
            if record.exc_info and record.exc_info[1] is not None:
                detail += f": {record.exc_info[1]}"
            self.add(record.name, record.levelname.lower(), " ".join(detail.split()))
        elif (
            record.name == handlers.SESSION_LOG
            and (detail := _with_facts(record)) not in self._streams
        ):
            self._streams.add(detail)
            self.add("watch", "shared", detail)

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
    for function in _FUNCTIONS:
        # Importing a function installs its own log handlers.
        handlers.handler_of(function)
    collector = LogCollector()
    with ExitStack() as until_the_end:
        for name in (_LIBRARY, *_FUNCTIONS):
            logger = logging.getLogger(name)
            until_the_end.enter_context(patch.object(logger, "handlers", [collector]))
            until_the_end.callback(logger.setLevel, logger.level)
            # `register` logs a report of each push.
            logger.setLevel(logging.INFO if name == "register" else logging.WARNING)
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


# What every record has, whoever logs it.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"asctime", "message"}


def _with_facts(record: logging.LogRecord) -> str:
    """Return what a record says, and what it says it about."""
    facts = [f"{name} {value}" for name, value in vars(record).items() if name not in _OWN]
    return record.getMessage() + (f" ({', '.join(facts)})" if facts else "")
