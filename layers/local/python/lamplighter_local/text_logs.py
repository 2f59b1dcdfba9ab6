"""The logs of the functions and of the library as lines of text, instead of the JSON of AWS.

Owns: where they go on this machine, and that what a source has to say is said once: it is polled
again every minute, or 1,440 times in a moment when a day is simulated.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from lamplighter.safe_text import masked_text, visible
from lamplighter.topology import FUNCTIONS
from lamplighter_local import handlers

_LIBRARY = "lamplighter"
# What every record has, whoever logs it.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"asctime", "message"}


def line_of(record: logging.LogRecord) -> str:
    """Return what a record says, what it says it about, and its error, in one safe line."""
    facts = [f"{name} {value}" for name, value in vars(record).items() if name not in _OWN]
    line = record.getMessage() + (f" ({', '.join(facts)})" if facts else "")
    if record.exc_info and record.exc_info[1] is not None:
        line += f": {record.exc_info[1]}"
    return visible(masked_text(" ".join(line.split())))


class SourcesOnce(logging.Filter):
    """Lets a line about a source pass when it is new."""

    def __init__(self) -> None:
        super().__init__()
        self._known: set[str] = set()

    def forget(self) -> None:
        """Let everything be new again."""
        self._known.clear()

    def filter(self, record: logging.LogRecord) -> bool:
        package = record.name.partition(".")[0]
        is_of_author = package != _LIBRARY and package not in FUNCTIONS
        if not is_of_author and not record.name.startswith(f"{_LIBRARY}.streams."):
            return True
        line = line_of(record)
        is_new = line not in self._known
        self._known.add(line)
        return is_new


@contextmanager
def logging_to(handler: logging.Handler) -> Iterator[None]:
    """Let a handler have all warnings, and those of authors' own loggers, until the block ends.

    Begun in an open deployment, whose environment says what functions log.
    """
    with ExitStack() as until_the_end:
        for name in FUNCTIONS:
            # Importing a function installs its own log handlers.
            handlers.handler_of(name)
        for name in (_LIBRARY, *FUNCTIONS):
            logger = logging.getLogger(name)
            until_the_end.enter_context(patch.object(logger, "handlers", [handler]))
            until_the_end.enter_context(patch.object(logger, "propagate", new=False))
            until_the_end.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.WARNING)
        root = logging.getLogger()
        root.addHandler(handler)
        until_the_end.callback(root.removeHandler, handler)
        yield


class _Lines(logging.Handler):
    """Writes warnings to stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        # Looked up here: a progress bar puts something else in its place.
        sys.stderr.write(f"{record.levelname.lower()}: {line_of(record)}\n")


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Write warnings to stderr, a line each, until the block ends."""
    lines = _Lines(logging.WARNING)
    lines.addFilter(SourcesOnce())
    with logging_to(lines):
        yield
