"""Case 7: what becomes of the events of those who leave, or take too long."""

from typing import Any

from tests.parity.shared_stream_case import Cases
from tests.parity.shared_stream_kit import Kit, fed
from tests.parity.shared_stream_source import settle

giving_up = Cases("7")


@giving_up(["a:2/0/0"])
async def leaving_with_open_event(kit: Kit) -> list[Any]:
    """Who leaves has taken the event that is open."""
    _, [one, two] = await fed(kit, "a", readers=2)
    await one.pull()
    await one.leave()
    await two.pulled(2)
    return kit.advances()


@giving_up([[], ["a:2/0/0 b:2/0/0"]])
async def leaving_unconfirmed(kit: Kit) -> list[Any]:
    """What it made of events must still be confirmed."""
    manager, [one, two] = await fed(kit, "a", "b", readers=2)
    for _ in range(2):
        await one.pull()
        one.bind()
    await one.leave()
    await two.pulled(3)
    before = kit.advances()
    manager.confirm_persisted([0, 1])
    await settle()
    return [before, kit.advances()]


@giving_up(["a:2/0/0", "b:1/1/0!", "c:1/1/0!"])
async def leaving_never_pulled(kit: Kit) -> list[Any]:
    """Events that it never pulled have failed."""
    _, [one, two] = await fed(kit, "a", "b", "c", readers=2)
    await one.pull()
    await one.leave()
    await two.pulled(4)
    return kit.advances()


@giving_up([["open by m0", "aclose"]])
async def last_leaves_unconfirmed(kit: Kit) -> list[Any]:
    """When the last one leaves, what is unconfirmed is abandoned, in order."""
    manager, [one] = await fed(kit, "a", "b")
    await one.pull()
    seq = one.bind()
    await one.leave()
    manager.confirm_persisted([seq])
    await settle()
    return [kit.trace]


@giving_up([["open by m0", "advance a:1/0/0 b:0/1/0! c:0/1/0!", "aclose"]])
async def last_leaves_resolved(kit: Kit) -> list[Any]:
    """What is resolved by then is advanced."""
    _, [one] = await fed(kit, "a", "b", "c")
    await one.pull()
    await one.leave()
    return [kit.trace]


@giving_up([[], ["a:1/1/0!"], "AckTimeout"])
async def ack_timeout(kit: Kit) -> list[Any]:
    """Whoever has not resolved an event after the timeout fails, at that age and not before."""
    _, [one, two] = await fed(kit, "a", readers=2, ack_timeout=10.0)
    await two.pulled(2)
    await kit.pass_time(9.99)
    before = kit.advances()
    await kit.pass_time(0.01)
    return [before, kit.advances(), await one.pull()]


@giving_up([[], ["a:0/1/0!"]])
async def scans(kit: Kit) -> list[Any]:
    """The age is looked at ten times in a timeout."""
    manager = kit.manager(ack_timeout=10.0)
    kit.reader(manager, 1)
    await kit.pass_time(0.5)
    kit.source.feed("a")
    await kit.pass_time(10.0)
    before = kit.advances()
    await kit.pass_time(0.5)
    return [before, kit.advances()]


@giving_up([[], ["a:0/1/0!"]])
async def shortest_scan(kit: Kit) -> list[Any]:
    """And not more often than a hundred times a second."""
    manager = kit.manager(ack_timeout=0.001)
    kit.reader(manager, 1)
    await settle()
    kit.source.feed("a")
    await kit.pass_time(0.009)
    before = kit.advances()
    await kit.pass_time(0.002)
    return [before, kit.advances()]


@giving_up([["a:1/1/0! b:1/1/0!", "c:1/0/0"], ["AckTimeout", "StopAsyncIteration: "]])
async def timeout_fails_all(kit: Kit) -> list[Any]:
    """It fails in all that it has not resolved, younger events too, and gets no more."""
    _, [one, two] = await fed(kit, "a", readers=2, ack_timeout=10.0)
    await two.pulled(2)
    await kit.pass_time(5.0)
    kit.source.feed("b")
    await settle()
    await two.pull()
    await kit.pass_time(5.0)
    kit.source.feed("c")
    await settle()
    await two.pull()
    return [kit.advances(), await one.pulled(2)]


@giving_up(["AckTimeout", ["a:0/1/0!"], None])
async def unconfirmed_times_out(kit: Kit) -> list[Any]:
    """An unconfirmed event times out as well."""
    _, [one] = await fed(kit, "a", ack_timeout=10.0)
    await one.pull()
    one.bind()
    await one.pull()
    await kit.pass_time(10.0)
    return [one.answer, kit.advances(), one.bind()]


@giving_up([[], ["a:1/1/0!"], "b"])
async def departed_times_out(kit: Kit) -> list[Any]:
    """One who has left still fails by timeout."""
    _, [one, two] = await fed(kit, "a", readers=2, ack_timeout=10.0)
    await one.pull()
    one.bind()
    await one.leave()
    await two.pulled(2)
    before = kit.advances()
    await kit.pass_time(10.0)
    kit.source.feed("b")
    await settle()
    return [before, kit.advances(), two.answer]


@giving_up(["b", ["a:2/1/0!"]])
async def siblings_of_timeout(kit: Kit) -> list[Any]:
    """Those who resolved it in time go on."""
    _, [_, two, three] = await fed(kit, "a", readers=3, ack_timeout=10.0)
    await two.pulled(2)
    await three.pulled(2)
    await kit.pass_time(10.0)
    kit.source.feed("b")
    await settle()
    return [two.answer, kit.advances()]


@giving_up([True, False, False, False, False, 0])
async def clean_outcomes(kit: Kit) -> list[Any]:
    """An outcome is clean if someone took the event, and nobody failed or refused it."""
    outcome = kit.streams.AdvanceOutcome
    counts = [(1, 0, 0), (0, 0, 0), (1, 1, 0), (1, 0, 1), (0, 0, 1)]
    return [*(outcome(*count).is_clean for count in counts), outcome(1, 0).rejected]


@giving_up(["SubscriberOverflow", ["a:1/1/0!", "b:1/1/0!", "c:1/1/0!"]])
async def coming_again_and_failing(kit: Kit) -> list[Any]:
    """Who comes again and fails has failed in what it left unconfirmed as well."""
    manager, [one, two] = await fed(kit, "a", readers=2, max_subscriber_queue=1)
    await one.pull()
    one.bind()
    await one.leave()
    again = kit.reader(manager, 0)
    await two.pulled(2)
    for event in ("b", "c"):
        kit.source.feed(event)
        await settle()
        await two.pull()
    return [await again.pull(), " ".join(kit.advances()).split()]


@giving_up(["AckTimeout", ["a:1/1/0!", "b:1/1/0!"]])
async def coming_again_too_late(kit: Kit) -> list[Any]:
    """Who comes again is given up when what it left unconfirmed is too old."""
    manager, [one, two] = await fed(kit, "a", readers=2, ack_timeout=10.0)
    await one.pull()
    one.bind()
    await one.leave()
    again = kit.reader(manager, 0)
    await two.pulled(2)
    await kit.pass_time(5.0)
    kit.source.feed("b")
    await settle()
    await two.pull()
    await kit.pass_time(5.0)
    return [await again.pull(), " ".join(kit.advances()).split()]
