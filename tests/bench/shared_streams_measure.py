"""Measures one library's shared streams: `python shared_streams_measure.py airflow`, by rounds.

Owns: what is timed, which is the whole way of an acknowledged event: yielded by a producer in
bursts as a queue delivers them, handed to every subscriber, skipped or made something of,
confirmed, advanced. It runs under two interpreters, so it imports nothing from its neighbours.
"""

import asyncio
import gc
import importlib
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

_BURST = 10
_TIMES = 3
_EVENTS = {1: 20_000, 20: 2_000}
_KEY = "queue"


class Bench:
    """A stream of one library, and the time that it takes to go through it."""

    def __init__(self, root: str) -> None:
        self._base = importlib.import_module(f"{root}.triggers.base")
        self._streams = importlib.import_module(f"{root}.triggers.shared_stream")

    def round(self) -> dict[str, float]:
        """Return the CPU seconds per event of every measurement, each the best of a few times."""
        return {
            f"shared stream, {subscribers} subscribed, {what}": min(
                asyncio.run(self._measure(subscribers, events, derives=what == "derived"))
                for _ in range(_TIMES)
            )
            for subscribers, events in _EVENTS.items()
            for what in ("skipped", "derived")
        }

    async def _measure(self, subscribers: int, events: int, *, derives: bool) -> float:
        done = Done(events, asyncio.Event())
        manager = self._streams.SharedStreamManager()
        outbox: list[int] = []

        def persist() -> None:
            if outbox:
                manager.confirm_persisted(outbox)
                outbox.clear()

        producer = _producer(self._streams, done, persist)
        trigger = _trigger(self._base, producer, derives=derives)
        gc.collect()
        started_at = time.process_time()
        tasks = [
            asyncio.ensure_future(_run(manager, number, trigger(), outbox))
            for number in range(subscribers)
        ]
        await done.all_advanced.wait()
        seconds = time.process_time() - started_at
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if done.acked != events * subscribers:
            raise AssertionError(f"{done.acked} of {events * subscribers} were taken")
        return seconds / events


class Done:
    """What is advanced, and how often it was taken."""

    def __init__(self, events: int, all_advanced: asyncio.Event) -> None:
        self.events = events
        self.all_advanced = all_advanced
        self.acked = self._advanced = 0

    def add(self, batch: Sequence[Any]) -> None:
        """Count a batch."""
        self._advanced += len(batch)
        self.acked += sum(item.outcome.acked for item in batch)
        if self._advanced == self.events:
            self.all_advanced.set()


def _producer(streams: Any, done: Done, persist: Callable[[], None]) -> Any:
    """Return a producer whose every burst comes when what was made of the last is persisted."""

    class Producer(streams.SharedStreamProducer):  # type: ignore[misc] # whichever library's it is
        async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
            for number in range(done.events):
                if number % _BURST == 0:
                    await asyncio.sleep(0)
                    persist()
                yield number, number
            while True:
                await asyncio.sleep(0)
                persist()

        async def advance(self, batch: Sequence[Any]) -> None:
            done.add(batch)

    return Producer


def _trigger(base: Any, producer: Any, *, derives: bool) -> Any:
    # One for all: making it is no part of the stream.
    event = base.TriggerEvent("seen")

    class Trigger(base.BaseEventTrigger):  # type: ignore[misc] # as above
        def serialize(self) -> tuple[str, dict[str, Any]]:
            return "bench.Trigger", {}

        async def run(self) -> AsyncIterator[Any]:
            yield event

        @classmethod
        def create_shared_stream_producer(
            cls,
            kwargs: dict[str, Any],  # noqa: ARG003 - it has none
        ) -> Any:
            return producer()

        async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> Any:
            async for _ in shared_stream:
                if derives:
                    yield event

    return Trigger


async def _run(manager: Any, number: int, trigger: Any, outbox: list[int]) -> None:
    """Run one trigger, as a runner does: what it yields is bound, and kept to be persisted."""
    stream = manager.subscribe(trigger_id=number, trigger=trigger, key=_KEY)
    try:
        async for _ in trigger.filter_shared_stream(stream):
            seq = manager.bind_pending_event(trigger_id=number, key=_KEY)
            outbox.append(seq)
    finally:
        await manager.unsubscribe(number, _KEY)


def main() -> None:
    """Answer each line of input, the number of a round, with one line of JSON."""
    bench = Bench(sys.argv[1])
    for _ in sys.stdin:
        print(json.dumps(bench.round()), flush=True)


if __name__ == "__main__":
    main()
