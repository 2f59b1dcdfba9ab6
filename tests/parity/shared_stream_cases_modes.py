"""Cases 2 and 3: the two modes, and what a runner may rely on."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from tests.parity.shared_stream_case import Cases
from tests.parity.shared_stream_kit import WAITING, Kit
from tests.parity.shared_stream_source import settle

modes = Cases("2")
runners = Cases("3")


@modes([["a", "b"], ["a", "b"], None, []])
async def fast_path(kit: Kit) -> list[Any]:
    """Without a producer raw events go straight to everyone."""
    manager = kit.manager()
    one, two = (kit.reader(manager, number, kit.plain()) for number in (1, 2))
    kit.source.feed("a", "b")
    pulled = await one.pulled(2)
    return [pulled, await two.pulled(2), one.bind(), kit.advances()]


@modes([["a", WAITING], ["a:1/0/0"]])
async def ack_mode(kit: Kit) -> list[Any]:
    """A class that makes a producer is acknowledged."""
    reader = kit.reader(kit.manager(), 1)
    kit.source.feed("a")
    return [await reader.pulled(2), kit.advances()]


@modes([["a:1/0/0"], ["b:1/0/0"]])
async def inherited_producer(kit: Kit) -> list[Any]:
    """So is one that inherits the making, from a parent or a mixin."""

    class Child(kit.acked):  # type: ignore[misc,name-defined] # whichever library's it is
        pass

    class Mixin:
        create_shared_stream_producer = kit.acked.create_shared_stream_producer

    class Mixed(Mixin, kit.plain):  # type: ignore[misc,name-defined] # as above
        pass

    manager = kit.manager()
    answers = []
    for number, (kind, event) in enumerate([(Child, "a"), (Mixed, "b")]):
        kit.trace.clear()
        reader = kit.reader(manager, number, kind(), key=number)
        kit.source.feed(event)
        await reader.pulled(2)
        answers.append(kit.advances())
        await reader.leave()
    return answers


@modes([["a", {"b": 1}], ["a", {"b": 1}]])
async def same_raw_events(kit: Kit) -> list[Any]:
    """Readers see the same raw events in both modes."""
    manager = kit.manager()
    events: list[Any] = ["a", {"b": 1}]
    kit.source.lane_of = lambda _: None
    answers = []
    for number, kind in enumerate([kit.plain, kit.acked]):
        reader = kit.reader(manager, number, kind(), key=number)
        await settle()
        kit.source.feed(*events)
        answers.append(await reader.pulled(2))
        await reader.leave()
    return answers


@modes([["a", WAITING], 0])
async def plain_stream_stays_shut(kit: Kit) -> list[Any]:
    """An acknowledged stream does not open the plain one."""
    opened: list[str] = []

    class Both(kit.acked):  # type: ignore[misc,name-defined] # whichever library's it is
        @classmethod
        async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Any]:
            opened.append(kwargs["member"])
            yield "never"

    reader = kit.reader(kit.manager(), 1, Both())
    kit.source.feed("a")
    return [await reader.pulled(2), len(opened)]


@runners([[["a", 0], ["b", 1]], ["skip-x:1/0/0"], ["a:1/0/0", "b:1/0/0"]])
async def runner(kit: Kit) -> list[Any]:
    """A runner binds what a filter yields before it keeps it, and unsubscribes at the end."""
    manager = kit.manager()
    trigger = kit.acked()
    outbox: list[list[Any]] = []

    async def run() -> None:
        stream = manager.subscribe(trigger_id=1, trigger=trigger, key="k")
        try:
            async for event in trigger.filter_shared_stream(stream):
                seq = manager.bind_pending_event(trigger_id=1, key="k")
                outbox.append([event.payload, seq])
        finally:
            await manager.unsubscribe(1, "k")
            await trigger.cleanup()

    task = asyncio.ensure_future(run())
    await settle()
    kit.source.feed("skip-x", "a", "b")
    await settle()
    before = kit.advances()
    manager.confirm_persisted(seq for _, seq in outbox)
    await settle()
    after = " ".join(kit.advances()[len(before) :]).split()
    task.cancel()
    await asyncio.wait([task])
    return [outbox, before, after]


@runners([["a"], [], ["a:1/0/0"]])
async def restart(kit: Kit) -> list[Any]:
    """A new manager remembers nothing: what was not advanced comes again."""
    first = kit.manager()
    reader = kit.reader(first, 1)
    kit.source.feed("a")
    pulled = [await reader.pull()]
    reader.bind()
    await first.stop_all()
    before = kit.advances()
    again = kit.reader(kit.manager(), 1)
    kit.source.feed("a")
    await again.pulled(2)
    return [pulled, before, kit.advances()]
