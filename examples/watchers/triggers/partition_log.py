"""A log in partitions, read the way Kafka's consumers do: in order, with cumulative commits.

A partition is a file of JSON lines, `<partition>.log`; who has something to tell appends a line.
Beside it `<partition>.committed` says how many lines are done with. A partition is a lane: its
lines are committed in their order, and one that is not done with holds back those behind it, but no
other partition.

To read a real Kafka, replace what `PartitionLog` does with files: `_uncommitted` by a consumer that
is assigned partitions and does not commit by itself, `_commit` by a commit of offsets.
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
    AdvanceOutcome,
    SharedStreamProducer,
    reject_shared_stream_event,
)

log = logging.getLogger(__name__)

# Fewer than may wait for one watcher.
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
        # How many records are with the triggers, and the partitions in which one was not taken.
        self._out = 0
        self._held: set[str] = set()
        self._is_settled = asyncio.Event()

    async def open_stream(self) -> AsyncIterator[tuple[Record, Record]]:
        while not self._held:
            records = list(self._uncommitted())
            self._out = len(records)
            self._is_settled.clear()
            # Without a pause, so that all triggers get all of them, and nothing new before these
            # are settled: a trigger that fails at one misses none.
            for record in records:
                yield record, record
            if records:
                await self._is_settled.wait()
            else:
                await asyncio.sleep(PAUSE_SECONDS)
        # Whoever opens the stream next reads again what was not taken. It must not end by itself,
        # because that would take from its readers what they have not read.
        await asyncio.Event().wait()

    def get_advance_lane(self, broker_payload: Record) -> Hashable:
        return broker_payload.partition

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        partition = batch[0].broker_payload.partition
        done = []
        for record, outcome in batch:
            if not is_done_with(outcome):
                self._held.add(partition)
            if partition in self._held:
                break
            if outcome.rejected:
                log.warning("%s is of no use to anyone: %s", record.message_id, record.text)
            done.append(record)
        if done:
            self._commit(partition, done[-1].offset + 1)
        self._out -= len(batch)
        if not self._out:
            self._is_settled.set()

    def _uncommitted(self) -> Iterator[Record]:
        """Yield the next records, of each partition its share."""
        paths = sorted(self._folder.glob("*.log"))
        for path in paths:
            partition = path.stem
            start = self.committed(partition)
            end = start + max(1, AT_ONCE // len(paths))
            with path.open(encoding="utf-8", errors="replace") as lines:
                for offset, line in enumerate(islice(lines, start, end), start):
                    if line.endswith("\n"):  # else someone is still writing it
                        yield Record(partition, offset, line.rstrip("\n"))

    def committed(self, partition: str) -> int:
        """Return how many records of a partition are done with."""
        path = self._folder / f"{partition}.committed"
        return int(path.read_text(encoding="utf-8")) if path.exists() else 0

    def _commit(self, partition: str, offset: int) -> None:
        """Note that everything before an offset is done with; a crash leaves the old note."""
        path = self._folder / f"{partition}.committed"
        written = path.with_suffix(".new")
        written.write_text(str(offset), encoding="utf-8")
        written.replace(path)


def is_done_with(outcome: AdvanceOutcome) -> bool:
    """Whether a record can be committed: there was someone, and all have taken or refused it."""
    return not outcome.failed and bool(outcome.acked or outcome.rejected)
