"""Case 5: who is to see an event, and what happens to those who fall behind."""

from typing import Any

from tests.parity.shared_stream_case import Cases
from tests.parity.shared_stream_kit import WAITING, Kit
from tests.parity.shared_stream_source import settle

fan_out = Cases("5")


@fan_out(["b", ["a:1/0/0"], ["b:2/0/0"]])
async def latecomer(kit: Kit) -> list[Any]:
    """A latecomer does not see what was handed out before."""
    manager = kit.manager()
    one = kit.reader(manager, 1)
    await settle()
    kit.source.feed("a")
    await settle()
    two = kit.reader(manager, 2)
    kit.source.feed("b")
    pulled = await two.pull()
    await one.pulled(2)
    first = kit.advances()
    await one.pull()
    await two.pull()
    return [pulled, first, kit.advances()[1:]]


@fan_out(["a:1/1/0!"])
async def frozen_snapshot(kit: Kit) -> list[Any]:
    """The snapshot is frozen: counts add up to it, whoever leaves or comes."""
    manager = kit.manager()
    one, two = (kit.reader(manager, number) for number in (1, 2))
    await settle()
    kit.source.feed("a")
    await settle()
    kit.reader(manager, 3)
    await two.leave()
    await one.pulled(2)
    return kit.advances()


@fan_out(["a:0/1/0! b:0/1/0!", "c:0/0/0!"])
async def empty_snapshot(kit: Kit) -> list[Any]:
    """With nobody left to see it an event is resolved by none, advanced, and not clean."""
    manager = kit.manager(max_subscriber_queue=1)
    kit.reader(manager, 1)
    await settle()
    kit.source.feed("a", "b")
    await settle()
    kit.source.feed("c")
    await settle()
    return kit.advances()


@fan_out([[], ["a:1/1/0! b:0/1/0! c:0/1/0! d:0/0/0!"]])
async def empty_snapshot_in_order(kit: Kit) -> list[Any]:
    """Even then it waits for its turn in the lane."""
    manager = kit.manager(max_subscriber_queue=1)
    one, two = (kit.reader(manager, number) for number in (1, 2))
    await settle()
    kit.source.feed("a")
    await one.pull()
    await two.pull()
    seq = one.bind()
    await one.leave()
    kit.source.feed("b", "c", "d")
    await settle()
    before = kit.advances()
    manager.confirm_persisted([seq])
    await settle()
    return [before, kit.advances()]


@fan_out([0, [], "e0"])
async def poll_does_not_wait(kit: Kit) -> list[Any]:
    """Polling goes on while nobody resolves anything."""
    manager = kit.manager()
    one = kit.reader(manager, 1)
    kit.source.feed(*(f"e{number}" for number in range(1024)))
    await settle()
    return [kit.source.left, kit.advances(), await one.pull()]


@fan_out([["a", "b", "c", WAITING], "SubscriberOverflow", ["a:1/1/0! b:1/1/0!", "c:1/1/0!"]])
async def overflow(kit: Kit) -> list[Any]:
    """Whoever is behind by a full queue fails alone, in every event that it has not resolved."""
    manager = kit.manager(max_subscriber_queue=2)
    slow, quick = (kit.reader(manager, number) for number in (1, 2))
    await settle()
    kit.source.feed("a", "b")
    pulled = await quick.pulled(3)
    kit.source.feed("c")
    await settle()
    pulled[2] = quick.answer
    pulled.append(await quick.pull())
    return [pulled, await slow.pull(), kit.advances()]


@fan_out([[], ["a:0/1/0! b:0/1/0! c:0/1/0! d:0/1/0!"], None])
async def overflow_with_open_events(kit: Kit) -> list[Any]:
    """What it had open or unconfirmed fails too."""
    manager = kit.manager(max_subscriber_queue=1)
    reader = kit.reader(manager, 1)
    await settle()
    kit.source.feed("a")
    await reader.pull()
    seq = reader.bind()
    kit.source.feed("b")
    await reader.pull()
    before = kit.advances()
    kit.source.feed("c", "d")
    await settle()
    manager.confirm_persisted([seq])
    await settle()
    return [before, kit.advances(), reader.bind()]


@fan_out(
    [
        ["a:1/1/0!", "b:1/1/0!", "c:1/0/0", "d:1/0/0"],
        ["SubscriberOverflow", "StopAsyncIteration: "],
    ]
)
async def failed_is_left_out(kit: Kit) -> list[Any]:
    """Who failed is left out of later events, and the others go on."""
    manager = kit.manager(max_subscriber_queue=1)
    slow, quick = (kit.reader(manager, number) for number in (1, 2))
    await settle()
    kit.source.feed("a")
    await quick.pulled(2)
    kit.source.feed("b")
    await settle()
    for event in ("c", "d"):
        await quick.pull()
        kit.source.feed(event)
        await settle()
    await quick.pull()
    return [kit.advances(), await slow.pulled(2)]


@fan_out([["a", "b", "c"], ["SubscriberOverflow", "StopAsyncIteration: "]])
async def plain_overflow(kit: Kit) -> list[Any]:
    """Without acknowledgement a full queue ends its reader in the same way."""
    manager = kit.manager(max_subscriber_queue=2)
    slow, quick = (kit.reader(manager, number, kit.plain()) for number in (1, 2))
    await settle()
    kit.source.feed("a", "b")
    pulled = await quick.pulled(2)
    kit.source.feed("c")
    pulled.append(await quick.pull())
    return [pulled, await slow.pulled(2)]


@fan_out(["a"])
async def endless_queue(kit: Kit) -> list[Any]:
    """A queue of 0 has no end."""
    reader = kit.reader(kit.manager(max_subscriber_queue=0), 1)
    await settle()
    kit.source.feed("a", *("b" for _ in range(5000)))
    return [await reader.pull()]
