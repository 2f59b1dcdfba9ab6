"""Flags in a folder: a watcher fires when its file is there, and takes it away.

All watchers of a folder share one scan of it, without acknowledgements: taking the file away is
how a watcher says that it is done. Lamplighter resumes a trigger only when its event is stored, so
what stands behind `yield` never comes too early. If the process dies in between, the flag is found
again, and the event has the same `message_id` and is not recorded twice.

Raise a flag by creating the file only if it is not there (`open(path, "x")`): it then cannot be
taken away before it was seen.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lamplighter.triggers.base import BaseEventTrigger, TriggerEvent


@dataclass(frozen=True)
class Flag:
    """A file that is there now."""

    path: Path
    raised: int  # when, in nanoseconds

    @property
    def message_id(self) -> str:
        """By which Lamplighter knows it: a flag that is raised again is another one."""
        return f"{self.path}@{self.raised}"


class FlagFileTrigger(BaseEventTrigger):
    """Fires for one file of a folder; triggers on one folder and interval share its scan."""

    def __init__(self, *, folder: str, name: str, interval: float = 5.0) -> None:
        super().__init__()
        self.folder = folder
        self.name = name
        self.interval = interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        arguments = {"folder": self.folder, "name": self.name, "interval": self.interval}
        return "triggers.flag_files.FlagFileTrigger", arguments

    def shared_stream_key(self) -> Hashable | None:
        return ("flag-files", self.folder, self.interval)

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Flag]:
        while True:
            for flag in await asyncio.to_thread(_flags, Path(kwargs["folder"])):
                yield flag
            await asyncio.sleep(kwargs["interval"])

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[Flag]
    ) -> AsyncIterator[TriggerEvent]:
        async for flag in shared_stream:
            if flag.path.name == self.name:
                yield TriggerEvent({"flag": self.name, "folder": self.folder})
                flag.path.unlink(missing_ok=True)


def _flags(folder: Path) -> list[Flag]:
    """Return the flags that are raised; in a thread, because a mounted file system can be slow."""
    found = []
    for path in sorted(folder.glob("*")):
        try:
            found.append(Flag(path, path.stat().st_mtime_ns))
        except FileNotFoundError:
            continue  # its watcher was faster
    return found
