"""Watches the files of a bundle for changes.

Owns: the thread that watches the file system. Refuses: deciding whether a change matters; that
depends on the bundle's archive.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from watchfiles import watch

from lamplighter.errors import RefusedError

# Editors write a file in several steps, which count as one change.
_DEBOUNCE_MILLISECONDS = 200
# How soon the thread notices that it should end.
_TIMEOUT_MILLISECONDS = 200


class FileWatch:
    """Knows whether files have changed since it was last asked."""

    def __init__(self) -> None:
        self._is_changed = threading.Event()
        self._failure: Exception | None = None

    def note(self) -> None:
        """Note that a file has changed."""
        self._is_changed.set()

    def fail(self, error: Exception) -> None:
        """Note that files can no longer be watched."""
        self._failure = error

    def take(self) -> bool:
        """Return whether a file has changed since the last call."""
        if self._failure is not None:
            raise RefusedError(
                f"the directory cannot be watched: {self._failure}; set WATCHFILES_FORCE_POLLING=1"
                " to poll it instead"
            )
        if not self._is_changed.is_set():
            return False
        self._is_changed.clear()
        return True


@contextmanager
def watching_files(root: Path) -> Iterator[FileWatch]:
    """Watch all files below a directory until the block ends."""
    found, is_over = FileWatch(), threading.Event()

    def listen() -> None:
        changes = watch(
            root,
            stop_event=is_over,
            debounce=_DEBOUNCE_MILLISECONDS,
            step=50,
            rust_timeout=_TIMEOUT_MILLISECONDS,
            yield_on_timeout=False,
            raise_interrupt=False,
        )
        try:
            for _ in changes:
                found.note()
        except (OSError, RuntimeError) as error:  # such as no inotify watches left
            found.fail(error)

    thread = threading.Thread(target=listen, name="watch", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()
