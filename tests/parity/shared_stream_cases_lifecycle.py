"""Case 4: how a group begins and how it ends."""

import asyncio
from typing import Any

from tests.parity.shared_stream_case import Cases
from tests.parity.shared_stream_kit import WAITING, Kit
from tests.parity.shared_stream_source import settle

lifecycle = Cases("4")


@lifecycle([["ValueError: gone", "ValueError: gone"], 0])
async def source_raises(kit: Kit) -> list[Any]:
    """A source that raises ends the group: queues are emptied, everyone's next pull raises it."""
    manager = kit.manager()
    readers = [kit.reader(manager, number) for number in (1, 2)]
    kit.source.feed("a", "b", ValueError("gone"))
    await settle()
    groups = len(manager._groups)
    return [[await reader.pull() for reader in readers], groups]


@lifecycle([["ValueError: gone", "StopAsyncIteration: "], 0])
async def plain_source_raises(kit: Kit) -> list[Any]:
    """The same holds without acknowledgement."""
    manager = kit.manager()
    reader = kit.reader(manager, 1, kit.plain())
    kit.source.feed("a", ValueError("gone"))
    await settle()
    return [await reader.pulled(2), len(manager._groups)]


@lifecycle([WAITING, "ValueError: gone"])
async def waiting_pull_is_woken(kit: Kit) -> list[Any]:
    """A pull that waits is woken by the error."""
    reader = kit.reader(kit.manager(), 1)
    first = await reader.pull()
    kit.source.feed(ValueError("gone"))
    await settle()
    return [first, reader.answer]


@lifecycle([["PollTerminated"] * 2, 0])
async def source_returns(kit: Kit) -> list[Any]:
    """A source that returns ends the group in the same way."""
    manager = kit.manager()
    readers = [kit.reader(manager, 1), kit.reader(manager, 2, kit.plain(), key="other")]
    kit.source.feed("a", None, None)
    await settle()
    return [[await reader.pull() for reader in readers], len(manager._groups)]


@lifecycle(["OSError: no", 0, []])
async def factory_fails(kit: Kit) -> list[Any]:
    """So does a producer that cannot be made; there is none to close."""
    manager = kit.manager()
    kit.source.factory_errors.append(OSError("no"))
    reader = kit.reader(manager, 1)
    return [await reader.pull(), len(manager._groups), kit.trace]


@lifecycle([["KeyError: 'lane'", 0, ["open by m1", "aclose"]]])
async def lane_fails(kit: Kit) -> list[Any]:
    """So does a lane that cannot be told; the producer is closed."""

    def no_lane(_: str) -> str:
        raise KeyError("lane")

    return [await _with_lane(kit, no_lane)]


@lifecycle([["TypeError: unhashable type: 'list'", 0, ["open by m1", "aclose"]]])
async def lane_is_no_key(kit: Kit) -> list[Any]:
    """So does a lane that is no key."""
    return [await _with_lane(kit, lambda _: [])]


async def _with_lane(kit: Kit, lane_of: Any) -> list[Any]:
    manager = kit.manager()
    kit.source.lane_of = lane_of
    reader = kit.reader(manager, 1)
    kit.source.feed("a")
    return [await reader.pull(), len(manager._groups), kit.trace]


@lifecycle([0, WAITING, ["open by m1", "aclose"]])
async def last_one_leaves(kit: Kit) -> list[Any]:
    """When the last one leaves the group is gone, and a pull that waits is not told."""
    manager = kit.manager()
    reader = kit.reader(manager, 1)
    await reader.pull()
    await reader.leave()
    return [len(manager._groups), reader.answer, kit.trace]


@lifecycle([0, False, "a", True, ["open by m1", "aclose", "open by m2"]])
async def comer_while_closing(kit: Kit) -> list[Any]:
    """Whoever comes while the old group closes gets a new one."""
    manager = kit.manager()
    first = kit.reader(manager, 1)
    await settle()
    kit.source.hold()
    leaving = asyncio.ensure_future(first.leave())
    await settle()
    groups, is_done = len(manager._groups), leaving.done()
    second = kit.reader(manager, 2)
    await settle()
    kit.source.feed("a")
    pulled = await second.pull()
    trace = list(kit.trace)
    await kit.source.allow()
    await leaving
    return [groups, is_done, pulled, leaving.done(), trace]


@lifecycle([0, ["open by m0", "aclose"]])
async def leaving_together(kit: Kit) -> list[Any]:
    """All may leave at the same time."""
    manager = kit.manager()
    readers = [kit.reader(manager, number) for number in range(5)]
    await settle()
    await asyncio.gather(*(reader.leave() for reader in readers))
    return [len(manager._groups), kit.trace]


@lifecycle([0, []])
async def leaving_at_once(kit: Kit) -> list[Any]:
    """Leaving before the source was opened opens nothing."""
    manager = kit.manager()
    reader = kit.reader(manager, 1)
    await manager.unsubscribe(1, reader.key)
    return [len(manager._groups), kit.trace]


@lifecycle([0, WAITING, ["open by m1", "aclose"]])
async def stopping_all(kit: Kit) -> list[Any]:
    """Stopping all empties the map before anything closes, and wakes no pull."""
    manager = kit.manager()
    reader = kit.reader(manager, 1)
    await reader.pull()
    kit.source.hold()
    stopping = asyncio.ensure_future(manager.stop_all())
    await settle()
    groups, answer = len(manager._groups), reader.answer
    await kit.source.allow()
    await stopping
    return [groups, answer, kit.trace]


@lifecycle(["ValueError: gone", "a", ["open by m1", "aclose", "open by m2"]])
async def comer_after_failure(kit: Kit) -> list[Any]:
    """Whoever comes after a failure starts a new poll."""
    manager = kit.manager()
    first = kit.reader(manager, 1)
    kit.source.feed(ValueError("gone"))
    error = await first.pull()
    second = kit.reader(manager, 2)
    await settle()
    kit.source.feed("a")
    return [error, await second.pull(), kit.trace]


@lifecycle(
    [["OSError: refused", "StopAsyncIteration: "], ["open by m1", "advance a:1/0/0", "aclose"]]
)
async def ends_once(kit: Kit) -> list[Any]:
    """A group ends once: readers get what ended it, and not what the end causes."""
    reader = kit.reader(kit.manager(), 1)
    kit.source.advance_errors.append(OSError("refused"))
    kit.source.feed("a")
    await reader.pull()
    return [await reader.pulled(2), kit.trace]


@lifecycle([[], ["open by m1"], ["a:2/0/0"]])
async def grace_period(kit: Kit) -> list[Any]:
    """A grace period lets early comers share the first snapshot."""
    manager = kit.manager(cohort_grace_period=5.0)
    kit.source.feed("a")
    one = kit.reader(manager, 1)
    await kit.pass_time(4.0)
    before = list(kit.trace)
    two = kit.reader(manager, 2)
    await kit.pass_time(2.0)
    opened = list(kit.trace)
    for reader in (one, two):
        await reader.pulled(2)
    return [before, opened, kit.advances()]


@lifecycle(["SubscriberOverflow", "c", ["a:0/2/0!", "b:0/2/0!", "c:1/0/0"]])
async def coming_again(kit: Kit) -> list[Any]:
    """An id that failed may leave and come again."""
    manager = kit.manager(max_subscriber_queue=1)
    one = kit.reader(manager, 1)
    two = kit.reader(manager, 2)
    await settle()
    kit.source.feed("a", "b")
    error = await one.pull()
    await one.leave()
    again = kit.reader(manager, 1)
    kit.source.feed("c")
    pulled = await again.pull()
    await two.leave()
    await again.pull()
    return [error, pulled, " ".join(kit.advances()).split()]
