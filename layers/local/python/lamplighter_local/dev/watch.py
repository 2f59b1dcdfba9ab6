"""Notices when files of a bundle are saved.

Owns: the thread that listens to the file system. Refuses: deciding whether it matters; a bundle's
archive says that.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from watchfiles import watch

from lamplighter.errors import RefusedError

# Editors write a file in several steps; what comes within this time is one change.
_TOGETHER_MILLISECONDS = 200
# How soon the thread notices that it is not wanted any more.
_LOOK_MILLISECONDS = 200


class Watch:
    """What has been saved since it was last asked."""

    def __init__(self) -> None:
        self._is_changed = threading.Event()
        self._failure: Exception | None = None

    def note(self) -> None:
        """Remember that something was saved."""
        self._is_changed.set()

    def fail(self, error: Exception) -> None:
        """Remember that nobody listens any more."""
        self._failure = error

    def take(self) -> bool:
        """Return whether something was saved since the last time."""
        if self._failure is not None:
            raise RefusedError(
                f"the folder cannot be watched: {self._failure}; set WATCHFILES_FORCE_POLLING=1 to"
                " do without the system's help"
            )
        if not self._is_changed.is_set():
            return False
        self._is_changed.clear()
        return True


@contextmanager
def watching(root: Path) -> Iterator[Watch]:
    """Watch all below a folder until the block ends."""
    found, is_over = Watch(), threading.Event()

    def listen() -> None:
        changes = watch(
            root,
            stop_event=is_over,
            debounce=_TOGETHER_MILLISECONDS,
            step=50,
            rust_timeout=_LOOK_MILLISECONDS,
            yield_on_timeout=False,
            raise_interrupt=False,
        )
        try:
            for _ in changes:
                found.note()
        except (OSError, RuntimeError) as error:  # as where the system has no watches left
            found.fail(error)

    thread = threading.Thread(target=listen, name="watch", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        is_over.set()
        thread.join()
