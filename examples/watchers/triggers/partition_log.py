"""A log in partitions, read the way Kafka's consumers do: in order, with cumulative commits.

A partition is a file of JSON lines, `<partition>.log`; who has something to tell appends a line.
Beside it `<partition>.committed` says how many lines are done with, and `<partition>.failed` keeps
the lines that a watcher did not finish. A partition is a lane: its lines are committed in their
order, and one that is not done with holds back those behind it.

To read a real Kafka, replace what `PartitionLog` does with files: `_next_records` by a consumer
that is assigned partitions and does not commit by itself, `_commit` by a commit of offsets, and
`_keep` by a topic for what has failed.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from lamplighter.triggers.base import BaseEventTrigger, TriggerEvent
from lamplighter.triggers.shared_stream import (
    AdvanceItem,
    SharedStreamProducer,
    reject_shared_stream_event,
)

log = logging.getLogger(__name__)

# Records that are read and not committed: fewer than may wait for one watcher, and no more than the
# slowest watcher can take in half a session.
AT_ONCE = 500
PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Record:
    """A line of a partition."""

    partition: str
    offset: int
    text: str

    @property
    def message_id(self) -> str:
        """By which Lamplighter knows it: a line that is read again makes no second event."""
        return f"{self.partition}:{self.offset}"


class PartitionLogTrigger(BaseEventTrigger):
    """Fires for the records of one kind; triggers on one folder share its reading."""

    def __init__(self, *, folder: str, kind: str) -> None:
        super().__init__()
        self.folder = folder
        self.kind = kind

    def serialize(self) -> tuple[str, dict[str, Any]]:
        arguments = {"folder": self.folder, "kind": self.kind}
        return "triggers.partition_log.PartitionLogTrigger", arguments

    def shared_stream_key(self) -> Hashable | None:
        return ("partition-log", self.folder)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        return PartitionLog(Path(kwargs["folder"]))

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[Record]
    ) -> AsyncIterator[TriggerEvent]:
        async for record in shared_stream:
            try:
                value = json.loads(record.text)
            except ValueError:
                value = None
            if not isinstance(value, dict):
                reject_shared_stream_event("a line must be a JSON object")
            elif value.get("kind") == self.kind:
                place = {"partition": record.partition, "offset": record.offset}
                yield TriggerEvent({**value, **place})


class PartitionLog(SharedStreamProducer):
    """One reading of all partitions, for everyone who watches the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # The next offset to read, by partition, and how many records are with the triggers.
        self._position: dict[str, int] = {}
        self._out = 0
        self._has_room = asyncio.Event()

    async def open_stream(self) -> AsyncIterator[tuple[Record, Record]]:
        # It must not end by itself, because that would take from its readers what they have not
        # read.
        while True:
            records = list(self._next_records())
            for record in records:
                self._out += 1
                self._position[record.partition] = record.offset + 1
                yield record, record
            if not records:
                await asyncio.sleep(PAUSE_SECONDS)
            while self._out >= AT_ONCE:
                self._has_room.clear()
                await self._has_room.wait()

    def get_advance_lane(self, broker_payload: Record) -> Hashable:
        return broker_payload.partition

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        for record, outcome in batch:
            if outcome.rejected:
                log.warning("%s is of no use to anyone: %s", record.message_id, record.text)
            if outcome.failed or not (outcome.acked or outcome.rejected):
                self._keep(record)
        last: Record = batch[-1].broker_payload
        self._commit(last.partition, last.offset + 1)
        self._out -= len(batch)
        self._has_room.set()

    def _next_records(self) -> Iterator[Record]:
        """Yield the records that were not read yet, of each partition its share."""
        paths = sorted(self._folder.glob("*.log"))
        for path in paths:
            partition = path.stem
            start = self._position.setdefault(partition, self._committed(partition))
            end = start + max(1, (AT_ONCE - self._out) // len(paths))
            with path.open(encoding="utf-8", errors="replace") as lines:
                for offset, line in enumerate(islice(lines, start, end), start):
                    if line.endswith("\n"):  # else someone is still writing it
                        yield Record(partition, offset, line.rstrip("\n"))

    def _committed(self, partition: str) -> int:
        """Return how many records of a partition are done with."""
        path = self._folder / f"{partition}.committed"
        return int(path.read_text(encoding="utf-8")) if path.exists() else 0

    def _commit(self, partition: str, offset: int) -> None:
        """Note that everything before an offset is done with; a crash leaves the old note."""
        path = self._folder / f"{partition}.committed"
        written = path.with_suffix(".new")
        written.write_text(str(offset), encoding="utf-8")
        written.replace(path)

    def _keep(self, record: Record) -> None:
        """Keep a record that a watcher did not finish; before the commit, so that none is lost."""
        path = self._folder / f"{record.partition}.failed"
        with path.open("a", encoding="utf-8") as kept:
            kept.write(f"{record.offset} {record.text}\n")
