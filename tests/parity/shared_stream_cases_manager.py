"""Case 1: the manager's calls."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator
from typing import Any

from tests.parity.shared_stream_case import Cases, refusal
from tests.parity.shared_stream_kit import Kit
from tests.parity.shared_stream_source import settle

calls = Cases("1")


@calls([1024, 300.0, 0.0, None])
async def options_of_the_manager(kit: Kit) -> list[Any]:
    """The manager's options have these names and defaults."""
    given = inspect.signature(kit.streams.SharedStreamManager).parameters
    names = ("max_subscriber_queue", "ack_timeout", "cohort_grace_period", "log")
    return [given[name].default for name in names]


@calls(["a", True])
async def subscribing_is_plain(kit: Kit) -> list[Any]:
    """Subscribing returns an async iterator at once, without an await."""
    manager = kit.manager()
    stream = manager.subscribe(trigger_id=1, trigger=kit.acked(), key="k")
    kit.source.feed("a")
    return [await anext(stream), isinstance(stream, AsyncIterator)]


@calls(["ValueError", 0])
async def none_is_no_key(kit: Kit) -> list[Any]:
    """None is no key."""
    manager = kit.manager()
    error = refusal(lambda: manager.subscribe(trigger_id=1, trigger=kit.acked(), key=None))
    return [error, len(manager._groups)]


@calls(["RuntimeError", 2])
async def an_id_subscribes_once(kit: Kit) -> list[Any]:
    """An id subscribes once in a group, and in other groups as well."""
    manager = kit.manager()
    kit.reader(manager, 1)
    error = refusal(lambda: manager.subscribe(trigger_id=1, trigger=kit.acked(), key="orders"))
    kit.reader(manager, 1, key="other")
    return [error, len(manager._groups)]


@calls(["LookupError", 0, "a"])
async def serialize_raises(kit: Kit) -> list[Any]:
    """A trigger that cannot be serialized leaves no group behind."""

    class Broken(kit.acked):  # type: ignore[misc,name-defined] # whichever library's it is
        def serialize(self) -> tuple[str, dict[str, Any]]:
            raise LookupError

    manager = kit.manager()
    error = refusal(lambda: manager.subscribe(trigger_id=1, trigger=Broken(), key="orders"))
    groups = len(manager._groups)
    reader = kit.reader(manager, 1)
    kit.source.feed("a")
    return [error, groups, await reader.pull()]


@calls(["open by first"])
async def first_opens(kit: Kit) -> list[Any]:
    """The first subscriber's class and arguments open the source."""
    manager = kit.manager()
    kit.reader(manager, 1, kit.plain(member="first"))
    kit.reader(manager, 2, kit.acked(member="second"))
    await settle()
    return kit.trace


@calls(["RuntimeError"])
async def needs_a_loop(kit: Kit) -> list[Any]:
    """Subscribing needs a running loop."""
    manager = kit.manager()

    def subscribe() -> Any:
        return manager.subscribe(trigger_id=1, trigger=kit.acked(), key="orders")

    errors: list[str] = []
    # A thread has no loop of its own.
    thread = threading.Thread(target=lambda: errors.append(refusal(subscribe)))
    thread.start()
    thread.join()
    return errors


@calls([1, ["shared-stream-poll['orders']"], 1])
async def one_poll(kit: Kit) -> list[Any]:
    """One key is polled once, however many share it."""
    manager = kit.manager()
    for number in range(25):
        kit.reader(manager, number)
    await settle()
    names = [task.get_name() for task in asyncio.all_tasks()]
    started = [text for _, text in kit.log.lines if text.startswith("Shared stream group started")]
    polls = [name for name in names if name.startswith("shared-stream-poll")]
    return [kit.source.opened, polls, len(started)]


@calls([2, 2])
async def keys_are_values(kit: Kit) -> list[Any]:
    """Equal keys share, other keys do not, whatever they are."""
    manager = kit.manager()
    kit.reader(manager, 1, key=("queue", 1))
    kit.reader(manager, 2, key=("queue", 1))
    kit.reader(manager, 3, key=frozenset({"queue"}))
    await settle()
    return [kit.source.opened, len(manager._groups)]


@calls([None, None, None, 0, None])
async def binding_needs_an_event(kit: Kit) -> list[Any]:
    """Binding needs a key, an id and an open event; otherwise there is no number."""
    manager = kit.manager()
    nothing = manager.bind_pending_event(trigger_id=1, key="orders")
    reader = kit.reader(manager, 1)
    stranger = manager.bind_pending_event(trigger_id=2, key="orders")
    before = reader.bind()
    kit.source.feed("a")
    await reader.pull()
    bound = reader.bind()
    await reader.pull()
    return [nothing, stranger, before, bound, reader.bind()]


@calls([0, None, 1, 2])
async def numbers_increase(kit: Kit) -> list[Any]:
    """Numbers increase, one counter for all groups, drawn only when binding."""
    manager = kit.manager()
    one = kit.reader(manager, 1, key="one")
    two = kit.reader(manager, 2, key="two")
    await _feed_in_turn(kit, "a", "b")
    await one.pull()
    await two.pull()
    idle = manager.bind_pending_event(trigger_id=3, key="one")
    return [one.bind(), idle, two.bind(), one.bind()]


async def _feed_in_turn(kit: Kit, *events: str) -> None:
    """Give each of several groups one event, in the order in which they were started."""
    for event in events:
        await settle()
        kit.source.feed(event)
    await settle()


@calls(["a:1/0/0", "b:1/0/0"])
async def confirming_reaches_all(kit: Kit) -> list[Any]:
    """One confirmation reaches all groups; unknown numbers are ignored."""
    manager = kit.manager()
    readers = [kit.reader(manager, number, key=number) for number in (1, 2)]
    await _feed_in_turn(kit, "a", "b")
    for reader in readers:
        await reader.pull()
        reader.bind()
        await reader.pull()
    manager.confirm_persisted([99, 1, 0, 1])
    await settle()
    return sorted(kit.advances())


@calls(["a"])
async def unknown_unsubscribe(kit: Kit) -> list[Any]:
    """Unsubscribing from an unknown key, or as an unknown id, does nothing."""
    manager = kit.manager()
    reader = kit.reader(manager, 1)
    await manager.unsubscribe(1, "unknown")
    await manager.unsubscribe(2, "orders")
    kit.source.feed("a")
    return [await reader.pull()]


@calls([["aclose", "aclose"], 0])
async def stop_all_closes(kit: Kit) -> list[Any]:
    """Stopping all closes every producer."""
    manager = kit.manager()
    for number in (1, 2):
        kit.reader(manager, number, key=number)
    await settle()
    await manager.stop_all()
    return [[line for line in kit.trace if line == "aclose"], len(manager._groups)]
