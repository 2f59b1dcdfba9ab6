"""A trigger on the files of a folder, such as one of a file system that is mounted.

A file fires when it appears, and again whenever it is written to. So a producer writes under a
hidden name, or one that the pattern leaves out, and renames the file when it is complete.
"""

import asyncio
import os
from collections.abc import Hashable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import pendulum

from lamplighter.triggers.sources import PollingTrigger, SourceItem


class DirectoryTrigger(PollingTrigger):
    """Fires for each file of a folder that is new or has changed, within a minute or two.

    `pattern` is matched with the name of the file, as a shell does. Hidden files and subfolders are
    left out. The payload has the `path`, the `size` and when the file was `modified`.
    """

    def __init__(self, path: str, pattern: str = "*") -> None:
        super().__init__()
        self.path = path
        self.pattern = pattern

    def serialize(self) -> tuple[str, dict[str, Any]]:
        arguments = {"path": self.path, "pattern": self.pattern}
        return "triggers.directory.DirectoryTrigger", arguments

    def shared_stream_key(self) -> Hashable | None:
        return ("directory", self.path)

    @classmethod
    async def poll(cls, kwargs: dict[str, Any]) -> Sequence[SourceItem]:
        # In a thread, because a file system on a network can be slow.
        return await asyncio.to_thread(_files_in, kwargs["path"])

    def payloads(self, item: SourceItem) -> Iterable[Any]:
        if fnmatchcase(item.name, self.pattern):
            yield item.payload


def _files_in(folder: str) -> list[SourceItem]:
    if not os.path.isdir(folder):  # noqa: PTH112 - `scandir` tells more of a file than `Path` does
        return []  # nobody has delivered anything yet
    with os.scandir(folder) as entries:
        return [_item(entry) for entry in entries if _is_complete(entry)]


def _is_complete(entry: "os.DirEntry[str]") -> bool:
    return entry.is_file() and not entry.name.startswith(".")


def _item(entry: "os.DirEntry[str]") -> SourceItem:
    found = entry.stat()
    modified = pendulum.from_timestamp(found.st_mtime)
    return SourceItem(
        name=entry.name,
        # A file that is renamed over another one has another inode.
        version=f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}",
        payload={"path": entry.path, "size": found.st_size, "modified": modified.isoformat()},
        modified_at=modified,
    )
