"""Case 8: what is advanced when, and how advancing ends."""

import asyncio
from typing import Any

from tests.parity.shared_stream_case import Cases
from tests.parity.shared_stream_kit import Kit, Reader
from tests.parity.shared_stream_source import settle

pump = Cases("8")


async def _all_bound(kit: Kit, *events: str) -> tuple[Any, Reader]:
    """Return a reader that has made something of each event: number n of the n-th, from 0."""
    manager = kit.manager()
    reader = kit.reader(manager, 1)
    await settle()
    kit.source.feed(*events)
    for _ in events:
        await reader.pull()
        reader.bind()
    await reader.pull()
    return manager, reader


async def _confirm(manager: Any, *numbers: int) -> None:
    manager.confirm_persisted(numbers)
    await settle()


@pump(["a:1/0/0", "b:1/0/0"])
async def one_at_a_time(kit: Kit) -> list[Any]:
    """Events that resolve one at a time are advanced one at a time."""
    manager, _ = await _all_bound(kit, "a", "b")
    await _confirm(manager, 0)
    await _confirm(manager, 1)
    return kit.advances()


@pump(["a:1/0/0 b:1/0/0 c:1/0/0"])
async def together(kit: Kit) -> list[Any]:
    """Those that resolve together are advanced together."""
    manager, _ = await _all_bound(kit, "a", "b", "c")
    await _confirm(manager, 0, 1, 2)
    return kit.advances()


@pump([[], ["a:1/0/0 b:1/0/0"], ["d:1/0/0 e:1/0/0"]])
async def resolved_prefix(kit: Kit) -> list[Any]:
    """A resolved event waits behind an unresolved one, and goes with it."""
    manager, _ = await _all_bound(kit, "a", "b", "d", "e")
    await _confirm(manager, 1, 3)
    before = kit.advances()
    await _confirm(manager, 0)
    first = kit.advances()
    await _confirm(manager, 2)
    return [before, first, kit.advances()[1:]]


@pump([["B-1:1/0/0 B-2:1/0/0"], ["A-1:1/0/0"]])
async def lanes_are_apart(kit: Kit) -> list[Any]:
    """Lanes do not wait for each other."""
    manager, _ = await _all_bound(kit, "A-1", "B-1", "B-2")
    await _confirm(manager, 1, 2)
    first = kit.advances()
    await _confirm(manager, 0)
    return [first, kit.advances()[1:]]


@pump(["B-1:1/0/0 B-2:1/0/0", "A-1:1/0/0 A-2:1/0/0", "C-1:1/0/0"])
async def batches_are_of_one_lane(kit: Kit) -> list[Any]:
    """A batch is of one lane; lanes are served as they appeared."""
    manager, _ = await _all_bound(kit, "B-1", "A-1", "B-2", "C-1", "A-2")
    await _confirm(manager, 4, 3, 2, 1, 0)
    return kit.advances()


@pump([["A-1:1/0/0"], 1, 3])
async def one_advance_at_a_time(kit: Kit) -> list[Any]:
    """One advance is awaited at a time, lanes or not."""
    kit.source.hold()
    manager, _ = await _all_bound(kit, "A-1", "B-1", "C-1")
    await _confirm(manager, 0, 1, 2)
    first = kit.advances()
    await kit.source.allow(3)
    return [first, kit.source.most_at_once, len(kit.advances())]


@pump([["a:1/0/0"], ["b:1/0/0 c:1/0/0"]])
async def resolved_during_advance(kit: Kit) -> list[Any]:
    """What resolves during an advance is in no batch yet, and makes the next one."""
    kit.source.hold()
    manager, _ = await _all_bound(kit, "a", "b", "c")
    await _confirm(manager, 0)
    await _confirm(manager, 1)
    await _confirm(manager, 2)
    first = kit.advances()
    await kit.source.allow()
    return [first, kit.advances()[1:]]


@pump(["A-1:1/0/0", "B-1:1/0/0", "A-2:1/0/0", "C-1:1/0/0"])
async def passes(kit: Kit) -> list[Any]:
    """A lane further on in the pass is served in it, a new or earlier one in the next."""
    kit.source.hold()
    manager, reader = await _all_bound(kit, "A-1", "A-2", "B-1")
    await _confirm(manager, 0)
    kit.source.feed("C-1")
    await settle()
    await reader.pull()
    await _confirm(manager, 2)
    await _confirm(manager, 1)
    await kit.source.allow(5)
    return kit.advances()


@pump(["A-1:1/0/0", "B-1:1/0/0", "B-2:1/0/0", "A-2:1/0/0"])
async def emptied_lanes(kit: Kit) -> list[Any]:
    """A lane that is emptied is gone, and comes back behind the others."""
    kit.source.hold()
    manager, reader = await _all_bound(kit, "A-1", "B-1", "B-2")
    await _confirm(manager, 0, 1)
    kit.source.feed("A-2")
    await settle()
    await reader.pull()
    await kit.source.allow()
    await _confirm(manager, 2)
    await kit.source.allow(4)
    return kit.advances()


@pump([["OSError: refused"] * 2, 0, ["open by m1", "advance a:2/0/0", "aclose"], True])
async def advance_raises(kit: Kit) -> list[Any]:
    """An advance that raises ends the group for all, and nothing is advanced after it."""
    manager = kit.manager()
    readers = [kit.reader(manager, number) for number in (1, 2)]
    kit.source.advance_errors.append(OSError("refused"))
    kit.source.hold()
    kit.source.feed("a", "b", "c")
    for reader in readers:
        await reader.pulled(3)
    await kit.source.allow(3)
    errors = [await reader.pull() for reader in readers]
    kit.source.feed("d")
    await settle()
    logged = kit.log.count("error", "exception") > 0
    return [errors, len(manager._groups), kit.trace, logged]


@pump([False, True, ["A-1:1/0/0", "B-1:1/0/0", "A-2:1/0/0"], ["aclose"]])
async def stop_finishes(kit: Kit) -> list[Any]:
    """Stopping finishes the advance under way, advances what is resolved, then closes, once."""
    kit.source.hold()
    manager, reader = await _all_bound(kit, "A-1", "A-2", "B-1", "B-2")
    await _confirm(manager, 0)
    await _confirm(manager, 1, 2)
    leaving = asyncio.ensure_future(reader.leave())
    await settle()
    is_done = leaving.done()
    await kit.source.allow(5)
    closed = [line for line in kit.trace if line == "aclose"]
    return [is_done, leaving.done(), kit.advances(), closed]


@pump([["open by m1", "advance A-1:1/0/0", "advance B-1:1/0/0", "aclose"]])
async def stop_all_finishes(kit: Kit) -> list[Any]:
    """Stopping all does the same."""
    kit.source.hold()
    manager, _ = await _all_bound(kit, "A-1", "B-1", "C-1")
    await _confirm(manager, 0, 1)
    stopping = asyncio.ensure_future(manager.stop_all())
    await settle()
    await kit.source.allow(5)
    await stopping
    return [kit.trace]


@pump([["open by m1", "advance a:1/0/0", "advance b:1/0/0", "aclose"], "ValueError: gone"])
async def poll_failure_finishes(kit: Kit) -> list[Any]:
    """When a source raises, what is resolved is still advanced, and the producer closed."""
    kit.source.hold()
    manager, reader = await _all_bound(kit, "a", "b", "c")
    await _confirm(manager, 0)
    await _confirm(manager, 1)
    kit.source.feed(ValueError("gone"))
    await settle()
    await kit.source.allow(5)
    return [kit.trace, reader.answer]


@pump([["open by m1", "advance A-1:1/0/0", "aclose"], True])
async def advance_raises_at_the_end(kit: Kit) -> list[Any]:
    """An advance that raises while the group stops is logged, and the producer closed."""
    kit.source.hold()
    manager, reader = await _all_bound(kit, "A-1", "B-1")
    await _confirm(manager, 0, 1)
    leaving = asyncio.ensure_future(reader.leave())
    await settle()
    kit.source.advance_errors.append(OSError("refused"))
    await kit.source.allow(3)
    await leaving
    return [kit.trace, kit.log.count("error", "exception") > 0]


@pump([["open by m1", "aclose"], True, "a"])
async def close_raises(kit: Kit) -> list[Any]:
    """A producer that does not close is logged, and nothing else."""
    manager = kit.manager()
    reader = kit.reader(manager, 1)
    await settle()
    kit.source.close_error = OSError("busy")
    await reader.leave()
    trace = list(kit.trace)
    kit.source.close_error = None
    again = kit.reader(manager, 1)
    await settle()
    kit.source.feed("a")
    return [trace, kit.log.count("error", "exception", "warning") > 0, await again.pull()]
