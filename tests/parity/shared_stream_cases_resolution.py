"""Case 6: when an event is taken, refused or failed by one of those who were to see it."""

import asyncio
from typing import Any

from tests.parity.shared_stream_case import Cases
from tests.parity.shared_stream_kit import WAITING, Kit, fed
from tests.parity.shared_stream_source import settle

resolution = Cases("6")


@resolution([[], ["a:1/0/0"]])
async def filtered_out(kit: Kit) -> list[Any]:
    """An event of which nothing is made is taken at the next pull."""
    _, [one] = await fed(kit, "a", "b")
    await one.pull()
    before = kit.advances()
    await one.pull()
    return [before, kit.advances()]


@resolution([WAITING, ["a:1/0/0"]])
async def closed_before_waiting(kit: Kit) -> list[Any]:
    """It is closed before the pull begins to wait."""
    _, [one] = await fed(kit, "a")
    await one.pull()
    return [await one.pull(), kit.advances()]


@resolution([0, 1, 2, ["a:1/0/0"]])
async def bound_while_open(kit: Kit) -> list[Any]:
    """What is made of it is bound while it is open, and to it alone."""
    manager, [one] = await fed(kit, "a", "b")
    await one.pull()
    numbers = [one.bind(), one.bind()]
    await one.pull()
    numbers.append(one.bind())
    manager.confirm_persisted([0, 1])
    await settle()
    return [*numbers, kit.advances()]


@resolution([[], ["a:1/0/0"]])
async def confirmed_in_any_order(kit: Kit) -> list[Any]:
    """It is taken when everything made of it is confirmed, in any order."""
    manager, [one] = await fed(kit, "a")
    await one.pull()
    for _ in range(3):
        one.bind()
    await one.pull()
    manager.confirm_persisted([2])
    manager.confirm_persisted([0])
    await settle()
    before = kit.advances()
    manager.confirm_persisted([1])
    await settle()
    return [before, kit.advances()]


@resolution([[], ["a:1/0/0"]])
async def confirmed_while_open(kit: Kit) -> list[Any]:
    """Being confirmed is not enough while it is open."""
    manager, [one] = await fed(kit, "a")
    await one.pull()
    one.bind()
    manager.confirm_persisted([0])
    await settle()
    before = kit.advances()
    await one.pull()
    return [before, kit.advances()]


@resolution([[], [], ["a:1/0/0"]])
async def bound_after_confirmation(kit: Kit) -> list[Any]:
    """Something may be made of it after all else was confirmed."""
    manager, [one] = await fed(kit, "a")
    await one.pull()
    manager.confirm_persisted([one.bind()])
    second = one.bind()
    before = kit.advances()
    await one.pull()
    closed = kit.advances()
    manager.confirm_persisted([second])
    await settle()
    return [before, closed, kit.advances()]


@resolution([[], ["a:1/0/0 b:1/0/0"]])
async def events_confirmed_backwards(kit: Kit) -> list[Any]:
    """Events may be confirmed in another order than they came."""
    manager, [one] = await fed(kit, "a", "b")
    for _ in range(2):
        await one.pull()
        one.bind()
    await one.pull()
    manager.confirm_persisted([1])
    await settle()
    before = kit.advances()
    manager.confirm_persisted([0])
    await settle()
    return [before, kit.advances()]


@resolution([[], [], ["a:3/0/0"]])
async def everyone_must_resolve(kit: Kit) -> list[Any]:
    """Everyone in the snapshot must resolve it."""
    _, readers = await fed(kit, "a", readers=3)
    answers = []
    for reader in readers:
        await reader.pulled(2)
        answers.append(kit.advances())
    return answers


@resolution([["a:0/0/1!"]])
async def rejection_counts(kit: Kit) -> list[Any]:
    """A rejection counts at once, and waits for nothing."""
    _, [one] = await fed(kit, "a")
    await one.pull()
    one.bind()
    await one.call(kit.reject)
    return [kit.advances()]


@resolution([None, ["a:0/0/1!"]])
async def late_confirmation(kit: Kit) -> list[Any]:
    """After it nothing is bound, and what is confirmed late changes nothing."""
    manager, [one] = await fed(kit, "a")
    await one.pull()
    seq = one.bind()
    await one.call(kit.reject)
    number = one.bind()
    await one.pull()
    manager.confirm_persisted([seq])
    await settle()
    return [number, kit.advances()]


@resolution(["a:1/0/1!"])
async def rejecting_twice(kit: Kit) -> list[Any]:
    """Rejecting twice counts once; the others are not touched."""
    _, [one, two] = await fed(kit, "a", readers=2)
    await one.pull()
    await one.call(kit.reject)
    await one.call(kit.reject)
    await one.pull()
    await two.pulled(2)
    return kit.advances()


@resolution(["a:0/0/1!", "b:1/0/0"])
async def next_after_rejection(kit: Kit) -> list[Any]:
    """The next event may be rejected or taken as if nothing had been."""
    _, [one] = await fed(kit, "a", "b")
    await one.pull()
    await one.call(kit.reject)
    await one.pulled(2)
    return kit.advances()


@resolution(["a:0/0/1!"])
async def rejected_in_child_task(kit: Kit) -> list[Any]:
    """A task that the filter starts may reject for it."""
    _, [one] = await fed(kit, "a")
    await one.pull()

    async def child() -> None:
        kit.reject()

    await one.do(lambda: asyncio.ensure_future(child()))
    return kit.advances()


@resolution([["a", "b"], 1])
async def plain_rejection(kit: Kit) -> list[Any]:
    """Without acknowledgement rejecting does nothing but warn."""
    reader = kit.reader(kit.manager(), 1, kit.plain())
    kit.source.feed("a", "b")
    first = await reader.pull()
    warned = await _warned(kit, reader.call)
    return [[first, await reader.pull()], warned]


async def _warned(kit: Kit, call: Any) -> int:
    lines = kit.captured_warnings()
    await call(kit.reject)
    return sum(level == "warning" for level, _ in lines)


@resolution([1, ["a:1/0/0"]])
async def rejection_before_events(kit: Kit) -> list[Any]:
    """Before the first event, too."""
    _, [one] = await fed(kit, "a")
    warned = await _warned(kit, one.call)
    await one.pulled(2)
    return [warned, kit.advances()]


@resolution(["ValueError: gone", 1])
async def rejection_after_end(kit: Kit) -> list[Any]:
    """And after the stream has ended."""
    _, [one] = await fed(kit, "a")
    await one.pull()
    kit.source.feed(ValueError("gone"))
    return [await one.pull(), await _warned(kit, one.call)]


@resolution([1, ["a:1/0/0"]])
async def rejection_elsewhere(kit: Kit) -> list[Any]:
    """And in a task that has not pulled the event."""
    _, [one] = await fed(kit, "a")
    await one.pull()

    async def elsewhere(function: Any) -> None:
        function()

    warned = await _warned(kit, elsewhere)
    await one.pull()
    return [warned, kit.advances()]
