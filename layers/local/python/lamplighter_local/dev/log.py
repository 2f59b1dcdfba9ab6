"""What the functions log while they run here, as lines for people instead of JSON on stderr.

Owns: where the log of the functions and of the library goes. Refuses: the bundle's own prints.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from lamplighter import clock
from lamplighter_local import handlers
from lamplighter_local.dev.news import News

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


class Heard(logging.Handler):
    """Keeps what was said until someone takes it."""

    def __init__(self) -> None:
        super().__init__()
        self._news: list[News] = []
        self._has_errors = False
        # By DAG, the runs that the registrations since then left owing.
        self.owed: dict[str, int] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Make lines of a record."""
        report = getattr(record, "report", None)
        if report is not None:
            self._news += _registered(report)
            if self._has_errors and not report["errors"]:
                self.say(f"bundle {report['source']['bundle']}", "mended", "no errors any more")
            self._has_errors = bool(report["errors"])
            self.owed |= report["owed"]
        elif record.levelno >= logging.WARNING:
            detail = _with_facts(record)
            if record.exc_info and record.exc_info[1] is not None:
                detail += f": {record.exc_info[1]}"
            self.say(record.name, record.levelname.lower(), " ".join(detail.split()))

    def say(self, about: str, state: str, detail: str = "") -> None:
        """Add a line."""
        self._news.append(News(clock.now(), about, state, detail))

    def take(self) -> list[News]:
        """Return what was said since the last time."""
        taken, self._news = self._news, []
        return taken


@contextmanager
def listening() -> Iterator[Heard]:
    """Hear everything that is logged until the block ends."""
    for function in _FUNCTIONS:
        # An import puts handlers of its own in place of those of the library.
        handlers.handler_of(function)
    heard = Heard()
    with ExitStack() as until_the_end:
        for name in (_LIBRARY, *_FUNCTIONS):
            logger = logging.getLogger(name)
            until_the_end.enter_context(patch.object(logger, "handlers", [heard]))
            until_the_end.callback(logger.setLevel, logger.level)
            # That of `register` has a report of each push.
            logger.setLevel(logging.INFO if name == "register" else logging.WARNING)
        yield heard


def _registered(report: Mapping[str, Any]) -> Iterator[News]:
    now = clock.now()
    for severity in ("error", "warning"):
        for problem in report[f"{severity}s"]:
            yield News(now, _place(problem), severity, " ".join(problem["message"].split()))
    counts = [
        (report["new"], "new"),
        (report["changed"], "changed"),
        (report["stale"], "gone"),
        (report["broken"], "broken"),
    ]
    told = [f"{len(dags)} {word} ({_names(dags)})" for dags, word in counts if dags]
    if report["unchanged"]:
        told.append(f"{report['unchanged']} unchanged")
    about = f"bundle {report['source']['bundle']}"
    yield News(now, about, "registered", ", ".join(told) or "no DAGs")


def _place(problem: Mapping[str, Any]) -> str:
    line = problem["line"]
    return str(problem["file"]) if line is None else f"{problem['file']}:{line}"


_NAMED = 5


def _names(dags: Sequence[str]) -> str:
    more = f" and {len(dags) - _NAMED} more" if len(dags) > _NAMED else ""
    return ", ".join(dags[:_NAMED]) + more


# What every record has, whoever logs it.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"asctime", "message"}


def _with_facts(record: logging.LogRecord) -> str:
    """Return what a record says, and what it says it about."""
    facts = [f"{name} {value}" for name, value in vars(record).items() if name not in _OWN]
    return record.getMessage() + (f" ({', '.join(facts)})" if facts else "")
