"""Streams that are interrupted: wherever a cancellation strikes, nothing is lost or left open."""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.shared_stream import SharedStreamManager, SharedStreamProducer
from tests.parity.shared_stream_kit import WAITING, Kit, Reader, play, played
from tests.parity.shared_stream_source import settle


def poll_task(manager: Any) -> asyncio.Task[None]:
    """Return the poll task of the only group."""
    [group] = manager._groups.values()
    task: asyncio.Task[None] = group.task
    return task


async def one_open_advance(kit: Kit) -> tuple[Any, Reader]:
    """Return a manager, and a reader of whose two events, on two lanes, one is being advanced."""
    kit.source.hold()
    manager = kit.manager()
    reader = kit.reader(manager, 1)
    await settle()
    kit.source.feed("A-1", "B-1")
    await reader.pulled(3)
    return manager, reader


def test_pull_that_times_out_loses_no_event() -> None:
    """A filter may give up waiting, and pull again: the event that came later is there."""

    async def case(kit: Kit) -> list[Any]:
        reader = kit.reader(kit.manager(), 1)
        timed_out = await reader.do(lambda: asyncio.wait_for(anext(reader.stream), 5.0))
        await kit.pass_time(5.0)
        answer = reader.answer
        kit.source.feed("a")
        return [timed_out, answer, await reader.pull(), await reader.pull(), kit.advances()]

    assert played("lamplighter", case) == [WAITING, "TimeoutError: ", "a", WAITING, ["a:1/0/0"]]


def test_pull_cancelled_while_event_arrives_loses_no_event() -> None:
    """An event that woke a pull stays in the queue if the pull is cancelled before it resumes."""

    async def case(kit: Kit) -> list[Any]:
        manager = kit.manager()
        stream = manager.subscribe(trigger_id=1, trigger=kit.acked(), key="k")
        pull = asyncio.ensure_future(anext(stream))
        await settle()
        [subscriber] = manager._groups["k"].subscribers.values()
        kit.source.feed("a")
        while not subscriber.queue:  # noqa: ASYNC110 - a later step would be too late
            await asyncio.sleep(0)
        pull.cancel()
        await asyncio.wait([pull])
        return [pull.cancelled(), await anext(stream)]

    assert played("lamplighter", case) == [True, "a"]


def test_stream_pulled_by_two_tasks_refuses_the_second() -> None:
    """One task reads a stream; another one is told so, and the first gets the event."""

    async def case(kit: Kit) -> list[Any]:
        reader = kit.reader(kit.manager(), 1)
        await reader.pull()
        with pytest.raises(RuntimeError, match="two tasks"):
            await anext(reader.stream)
        kit.source.feed("a")
        await settle()
        return [reader.answer]

    assert played("lamplighter", case) == ["a"]


@pytest.mark.parametrize("end", ["leave", "aclose"])
def test_stream_that_was_left_ends(end: str) -> None:
    """Who has left, or closed the iterator, pulls nothing more."""

    async def case(kit: Kit) -> list[Any]:
        manager = kit.manager()
        reader = kit.reader(manager, 1)
        kit.reader(manager, 2)
        await (reader.leave() if end == "leave" else reader.stream.aclose())
        return [await reader.pull()]

    assert played("lamplighter", case) == ["StopAsyncIteration: "]


def test_unsubscribe_that_is_cancelled_lets_the_group_end_by_itself() -> None:
    """Whoever gives up waiting for the end does not prevent it; stopping all still waits for it."""

    async def case(kit: Kit) -> list[Any]:
        manager, reader = await one_open_advance(kit)
        leaving = asyncio.ensure_future(reader.leave())
        await settle()
        leaving.cancel()
        await asyncio.wait([leaving])
        stopping = asyncio.ensure_future(manager.stop_all())
        await settle()
        before = [stopping.done(), list(kit.trace)]
        await kit.source.allow(3)
        return [before, stopping.done(), kit.trace[2:]]

    assert played("lamplighter", case) == [
        [False, ["open by m1", "advance A-1:1/0/0"]],
        True,
        ["advance B-1:1/0/0", "aclose"],
    ]


def test_poll_cancelled_by_someone_else_ends_the_group() -> None:
    """Readers are told, what is resolved is advanced, the producer is closed, the key is free."""

    async def case(kit: Kit) -> list[Any]:
        manager, reader = await one_open_advance(kit)
        poll_task(manager).cancel()
        await settle()
        groups = len(manager._groups)
        await kit.source.allow(3)
        return [groups, reader.answer, kit.trace[1:]]

    assert played("lamplighter", case) == [
        0,
        "PollTerminated",
        ["advance A-1:1/0/0", "advance B-1:1/0/0", "aclose"],
    ]


def test_poll_cancelled_twice_gives_up_the_advance_and_closes_once() -> None:
    """Whoever cannot wait for an advance interrupts it; the producer is closed all the same."""

    async def case(kit: Kit) -> list[Any]:
        manager, _ = await one_open_advance(kit)
        task = poll_task(manager)
        for _ in range(2):
            task.cancel()
            await settle()
        kit.source.release()
        await asyncio.wait([task])
        return [task.cancelled(), kit.source.advancing, kit.trace[1:]]

    assert played("lamplighter", case) == [True, 0, ["advance A-1:1/0/0", "aclose"]]


def test_advance_that_is_cancelled_tells_readers_otherwise() -> None:
    """A cancellation inside `advance` ends the group, but cancels no reader."""

    async def case(kit: Kit) -> list[Any]:
        manager, reader = await one_open_advance(kit)
        kit.source.advance_errors.append(asyncio.CancelledError())
        await kit.source.allow(3)
        return [reader.answer, len(manager._groups), kit.trace[1:]]

    expected = ["PollTerminated", 0, ["advance A-1:1/0/0", "aclose"]]
    assert played("lamplighter", case) == expected


def test_loop_that_ends_without_stopping_closes_producers() -> None:
    """A process that just ends its loop leaves no producer open and no task behind."""
    seen: list[list[Any]] = []

    async def gives_up() -> None:
        kit = Kit("lamplighter")
        seen.append(kit.trace)
        reader = kit.reader(kit.manager(), 1)
        kit.source.feed("a", "b")
        await reader.pulled(2)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        asyncio.run(gives_up())
    gc.collect()
    assert seen == [["open by m1", "advance a:1/0/0", "aclose"]]


def test_subscribe_without_loop_leaves_nothing_behind() -> None:
    """There is neither a group nor a coroutine that nobody awaits."""
    manager = SharedStreamManager()
    kit = asyncio.run(_made())
    with pytest.raises(RuntimeError, match="no running event loop"):
        manager.subscribe(trigger_id=1, trigger=kit.acked(), key="orders")
    gc.collect()
    assert manager._groups == {}


async def _made() -> Kit:
    return Kit("lamplighter")


def test_ended_group_awaits_no_confirmation() -> None:
    """What is confirmed after the end is unknown, and nothing of the group is kept."""

    async def case(kit: Kit) -> list[Any]:
        manager = kit.manager()
        readers = [kit.reader(manager, number, key=number) for number in (1, 2)]
        for reader in readers:
            await settle()
            kit.source.feed("a")
            await reader.pull()
            reader.bind()
        await readers[0].leave()
        return [sorted(manager._unconfirmed), len(manager._ending)]

    assert played("lamplighter", case) == [[1], 0]


def test_stream_that_cannot_be_handed_out_is_closed_before_its_producer() -> None:
    """A lane that cannot be told leaves neither the stream nor the producer open."""
    closed: list[str] = []

    class Producer(SharedStreamProducer):
        async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
            try:
                yield "a", "a"
            finally:
                closed.append("stream")

        async def advance(self, batch: Sequence[Any]) -> None:
            raise AssertionError(batch)

        def get_advance_lane(self, broker_payload: Any) -> Any:
            raise LookupError(broker_payload)

        async def aclose(self) -> None:
            closed.append("producer")

    class Trigger(BaseEventTrigger):
        def serialize(self) -> tuple[str, dict[str, Any]]:
            return "tests.Trigger", {}

        @classmethod
        def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
            assert kwargs == {}
            return Producer()

    async def case(kit: Kit) -> Any:
        return await kit.reader(kit.manager(), 1, Trigger()).pull()

    assert asyncio.run(play("lamplighter", case)) == "LookupError: a"
    assert closed == ["stream", "producer"]
