"""A trigger on the files of a folder, such as one of a file system that is mounted.

A file fires when it appears, and again whenever it is written to. So a producer writes under a
hidden name, or one that the pattern leaves out, and renames the file when it is complete.
"""

import asyncio
import logging
import os
from collections.abc import Hashable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any

import pendulum

from lamplighter.errors import DefinitionError
from lamplighter.loading import class_path
from lamplighter.triggers.sources import PollingTrigger, SourceItem
from lamplighter.zones import iso

log = logging.getLogger(__name__)


class DirectoryTrigger(PollingTrigger):
    """Fires for each file of a folder that is new or has changed, within a minute or two.

    `pattern` is matched with the name of the file, as a shell does; files whose names begin with a
    dot are skipped, and so are subfolders. The payload has the `path`, the `size`
    and when the file was `modified`.
    """

    def __init__(self, path: str | PurePath, pattern: str = "*") -> None:
        super().__init__()
        if not isinstance(path, str | PurePath) or not PurePath(path).is_absolute():
            raise DefinitionError(
                f"DirectoryTrigger: path {str(path)!r} must be absolute: the poll runs in any"
                " working directory"
            )
        if not isinstance(pattern, str) or not pattern or "/" in pattern:
            raise DefinitionError(
                f"DirectoryTrigger: pattern {pattern!r} must match names of files, as in"
                " '*.csv'; a subfolder needs a watcher of its own"
            )
        # In its normal form, so that two spellings of a folder share one poll.
        self.path = os.path.normpath(path)
        self.pattern = pattern

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return class_path(type(self)), {"path": self.path, "pattern": self.pattern}

    @classmethod
    async def poll(cls, kwargs: dict[str, Any]) -> Sequence[SourceItem]:
        # In a thread, because a file system on a network can be slow.
        return await asyncio.to_thread(_files_in, kwargs["path"])

    def payloads(self, item: SourceItem) -> Iterable[Any]:
        if fnmatchcase(item.name, self.pattern):
            yield item.payload

    def shared_stream_key(self) -> Hashable | None:
        return ("directory", self.path)


def _files_in(folder: str) -> list[SourceItem]:
    try:
        with os.scandir(folder) as entries:
            return [item for entry in entries for item in _item(entry)]
    except FileNotFoundError:
        log.warning("folder does not exist: it counts as empty", extra={"folder": folder})
        return []


def _item(entry: "os.DirEntry[str]") -> Iterator[SourceItem]:
    """Yield a file as it is now, unless it is hidden, or gone since the folder was read."""
    try:
        if entry.name.startswith(".") or not entry.is_file():
            return
        found = entry.stat()
        entry.name.encode()
    except FileNotFoundError:
        return
    except UnicodeEncodeError:
        path = repr(entry.path)
        log.warning("file is skipped: events can only name files in UTF-8", extra={"path": path})
        return
    modified = pendulum.from_timestamp(found.st_mtime)
    yield SourceItem(
        name=entry.name,
        version=f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}",
        payload={"path": entry.path, "size": found.st_size, "modified": iso(modified)},
        modified_at=modified,
    )
