"""A source that is fed by hand, and the triggers that read it, as each library wants them.

Owns: how an event, a lane and an outcome are written in a case. It runs under two interpreters.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

_STEPS_TO_SETTLE = 40
_PERMITS_FOR_ALL = 1_000


async def settle() -> None:
    """Let everything happen that can happen now."""
    for _ in range(_STEPS_TO_SETTLE):
        await asyncio.sleep(0)


class Source:
    """A source that yields what it is fed, and records what it is told."""

    def __init__(self, trace: list[Any]) -> None:
        self._trace = trace
        self._items: asyncio.Queue[Any] = asyncio.Queue()
        self._is_held = False
        self._permits = asyncio.Semaphore(0)
        self.advance_errors: list[BaseException] = []
        self.factory_errors: list[BaseException] = []
        self.close_error: BaseException | None = None
        self.lane_of: Callable[[str], Any] = _lane_in_name
        self.opened = self.advancing = self.most_at_once = 0

    def hold(self) -> None:
        """Let every `advance` and `aclose` from now on wait until it is allowed."""
        self._is_held = True

    async def allow(self, count: int = 1) -> None:
        """Let so many of them return, and what follows from it happen."""
        for _ in range(count):
            self._permits.release()
            await settle()

    def release(self) -> None:
        """Hold nothing any more."""
        self._is_held = False
        for _ in range(_PERMITS_FOR_ALL):
            self._permits.release()

    async def _permission(self) -> None:
        if self._is_held:
            await self._permits.acquire()

    def feed(self, *names: str | BaseException | None) -> None:
        """Let the stream yield events of these names; raise an error; return at None."""
        for name in names:
            self._items.put_nowait(name)

    @property
    def left(self) -> int:
        """How many events were fed and not yielded."""
        return self._items.qsize()

    async def names(self, member: str) -> AsyncIterator[str]:
        """Yield what was fed, and wait for more."""
        self.opened += 1
        self._trace.append(f"open by {member}")
        while (name := await self._items.get()) is not None:
            if isinstance(name, BaseException):
                raise name
            yield name

    async def advance(self, batch: Sequence[Any]) -> None:
        """Record a batch, and wait for permission."""
        self.advancing += 1
        self.most_at_once = max(self.most_at_once, self.advancing)
        self._trace.append("advance " + " ".join(_written(item) for item in batch))
        try:
            await self._permission()
            if self.advance_errors:
                raise self.advance_errors.pop(0)
        finally:
            self.advancing -= 1

    async def aclose(self) -> None:
        """Record that the producer was closed, and wait for permission."""
        self._trace.append("aclose")
        await self._permission()
        if self.close_error is not None:
            raise self.close_error


def _lane_in_name(name: str) -> str | None:
    return name.partition("-")[0] if "-" in name else None


def _written(item: Any) -> str:
    outcome = item.outcome
    mark = "" if outcome.is_clean else "!"
    return f"{item.broker_payload}:{outcome.acked}/{outcome.failed}/{outcome.rejected}{mark}"


def plain_trigger(base: Any, source: Source) -> Any:
    """Return a trigger class on the source, which is not acknowledged."""

    class Plain(base.BaseEventTrigger):  # type: ignore[misc] # whichever library's
        def __init__(self, member: str = "m", **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.member = member

        def serialize(self) -> tuple[str, dict[str, Any]]:
            return f"cases.{type(self).__name__}", {"member": self.member}

        async def run(self) -> AsyncIterator[Any]:
            yield base.TriggerEvent("a run of its own")

        @classmethod
        async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Any]:
            async for name in source.names(kwargs["member"]):
                yield name

        async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> Any:
            async for name in shared_stream:
                if "skip" not in name:
                    yield base.TriggerEvent(name)

    return Plain


def acked_trigger(plain: Any, producer: Any, source: Source) -> Any:
    """Return a trigger class on the source, which is acknowledged."""

    class Acked(plain):  # type: ignore[misc] # as above
        @classmethod
        def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> Any:
            if source.factory_errors:
                raise source.factory_errors.pop(0)
            return producer(kwargs["member"])

    return Acked


def producer_class(streams: Any, source: Source) -> Any:
    """Return a producer class that reads the source and tells it what is advanced."""

    class Producer(streams.SharedStreamProducer):  # type: ignore[misc] # as above
        def __init__(self, member: str) -> None:
            self._member = member

        async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
            async for name in source.names(self._member):
                yield name, name

        async def advance(self, batch: Sequence[Any]) -> None:
            await source.advance(batch)

        def get_advance_lane(self, broker_payload: Any) -> Any:
            return source.lane_of(broker_payload)

        async def aclose(self) -> None:
            await source.aclose()

    return Producer
