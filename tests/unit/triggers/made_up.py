"""Plays a source to triggers, through the real engine, as a deployment would."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.shared_stream import (
    AdvanceItem,
    AdvanceOutcome,
    SharedStreamManager,
    SharedStreamProducer,
    _PollTerminated,
)
from lamplighter.triggers.sources import (
    PollingTrigger,
    QueueMessage,
    SourceContext,
    SourceItem,
    source_context,
)


@dataclass
class Played:
    """What came of a play: payloads by trigger, outcomes by event, and what was opened."""

    payloads: list[list[Any]]
    outcomes: list[AdvanceOutcome] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)


class Once(SharedStreamProducer):
    """Yields what has come, and is over when everything of it is done with."""

    def __init__(self, raws: Sequence[Any], played: Played) -> None:
        self._raws = raws
        self._played = played
        self._waits_for = len(raws)
        self._is_done = asyncio.Event()

    async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        self._played.opened.append("stream")
        for raw in self._raws:
            yield raw, None
        if self._raws:
            await self._is_done.wait()

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        self._played.outcomes.extend(item.outcome for item in batch)
        self._waits_for -= len(batch)
        if not self._waits_for:
            self._is_done.set()


def play(
    *triggers: BaseEventTrigger,
    messages: Sequence[QueueMessage] = (),
    objects: Sequence[SourceItem] = (),
) -> Played:
    """Return what triggers make of messages, of objects in a bucket, or of what they see."""
    played = Played([[] for _ in triggers])

    def bucket(name: str, prefix: str) -> Sequence[SourceItem]:
        played.opened.append(f"bucket {name} {prefix}")
        return objects

    async def main() -> None:
        raws: Sequence[Any] = messages
        first = triggers[0]
        if isinstance(first, PollingTrigger):
            with source_context(SourceContext(list_objects=bucket)):
                raws = await first.poll(first.serialize()[1])
        with source_context(SourceContext(producer=Once(raws, played))):
            await _all_read(triggers, played)

    asyncio.run(main())
    return played


async def _all_read(triggers: Sequence[BaseEventTrigger], played: Played) -> None:
    manager = SharedStreamManager()
    streams = [
        manager.subscribe(trigger_id=number, trigger=trigger, key=trigger.shared_stream_key())
        for number, trigger in enumerate(triggers)
    ]

    async def read(number: int) -> None:
        trigger = triggers[number]
        try:
            async for event in trigger.filter_shared_stream(streams[number]):
                bound = manager.bind_pending_event(
                    trigger_id=number, key=trigger.shared_stream_key()
                )
                played.payloads[number].append(event.payload)
                manager.confirm_persisted([] if bound is None else [bound])
        except _PollTerminated:
            return  # the source is over

    await asyncio.gather(*map(read, range(len(triggers))))
    await manager.stop_all()


def message(content: Any = None, **facts: Any) -> QueueMessage:
    """Return a message as a deployment hands it to triggers."""
    return QueueMessage(message_id="m-1", body=facts.pop("body", ""), content=content, **facts)
