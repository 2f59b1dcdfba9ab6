"""What the library logs, whoever has set up its logger before."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextmanager
def logged(level: int = logging.WARNING) -> Iterator[list[logging.LogRecord]]:
    """Yield the records that are logged until the block ends."""
    library, kept = logging.getLogger("lamplighter"), _Kept()
    before = library.level
    library.addHandler(kept)
    library.setLevel(level)
    try:
        yield kept.records
    finally:
        library.setLevel(before)
        library.removeHandler(kept)
