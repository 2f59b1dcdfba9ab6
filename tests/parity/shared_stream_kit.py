"""What a shared-stream case is played with, by either library: a clock, a source, readers.

Owns: time that passes only when nothing else can happen, and the trace of what a producer was
told. It runs under two interpreters, so it needs only Python and the library named by its root.
"""

import asyncio
import importlib
import json
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, cast

from tests.parity.shared_stream_source import (
    Source,
    acked_trigger,
    plain_trigger,
    producer_class,
    settle,
)

WAITING = "waiting"
_KEY = "orders"


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer as soon as it would have to wait."""

    _instant = 0.0

    def time(self) -> float:
        """Return the seconds since the loop was made."""
        return self._instant

    def _run_once(self) -> None:
        inside = cast("Any", self)
        if not inside._ready:
            timers = [timer._when for timer in inside._scheduled if not timer._cancelled]
            if not timers:
                raise RuntimeError("everyone waits, and nothing will ever happen")
            self._instant = max(self._instant, min(timers))
        cast("Any", super())._run_once()


class Log:
    """Takes what either library logs; keeps the level and the event."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __getattr__(self, level: str) -> Callable[..., None]:
        return lambda text="", *_, **__: self.lines.append((level, str(text)))

    def count(self, *levels: str) -> int:
        """Return how many lines of these levels there are."""
        return sum(level in levels for level, _ in self.lines)


class _Handler(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._lines = log.lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append((record.levelname.lower(), record.getMessage()))


class Kit:
    """One library, a source of its own kind, and everything that happens to it."""

    def __init__(self, root: str) -> None:
        self.base: Any = importlib.import_module(f"{root}.triggers.base")
        self.streams: Any = importlib.import_module(f"{root}.triggers.shared_stream")
        self.trace: list[Any] = []
        self.log = Log()
        self.source = Source(self.trace)
        self.managers: list[Any] = []
        self.readers: list[Reader] = []
        self._afterwards: list[Callable[[], None]] = []
        self.plain = plain_trigger(self.base, self.source)
        producer = producer_class(self.streams, self.source)
        self.acked = acked_trigger(self.plain, producer, self.source)

    def manager(self, **options: Any) -> Any:
        """Return a manager that lives by the loop's clock."""
        clock = asyncio.get_running_loop().time
        manager = self.streams.SharedStreamManager(log=self.log, _now=clock, **options)
        self.managers.append(manager)
        return manager

    def reader(
        self, manager: Any, number: int, trigger: Any = None, *, key: Hashable = _KEY
    ) -> "Reader":
        """Subscribe, by default with a trigger that acknowledges; the reader is named by number."""
        trigger = trigger or self.acked(member=f"m{number}")
        stream = manager.subscribe(trigger_id=number, trigger=trigger, key=key)
        reader = Reader(manager, number, key, stream)
        self.readers.append(reader)
        return reader

    def reject(self) -> None:
        """Reject whatever is open in the calling context."""
        self.streams.reject_shared_stream_event()

    async def pass_time(self, seconds: float) -> None:
        """Let so much time pass, and everything that is due in it."""
        await asyncio.sleep(seconds)
        await settle()

    def advances(self) -> list[str]:
        """Return the batches so far, in their order."""
        return [line.removeprefix("advance ") for line in self.trace if line[:8] == "advance "]

    def captured_warnings(self) -> list[tuple[str, str]]:
        """Return the log of the library's own loggers, from now on."""
        log = Log()
        if hasattr(self.streams, "log"):
            self.streams.log = log
        else:
            logger, handler = logging.getLogger(self.streams.__name__), _Handler(log)
            logger.addHandler(handler)
            self._afterwards.append(lambda: logger.removeHandler(handler))
        return log.lines

    async def close(self) -> None:
        """Release everything, however far the case came."""
        self.source.release()
        for manager in self.managers:
            await manager.stop_all()
        for reader in self.readers:
            await reader.close()
        await settle()
        for undo in self._afterwards:
            undo()


def told(exc: BaseException) -> str:
    """Return an error as a case writes it: ours and Airflow's own by name, others with text."""
    name = type(exc).__name__.lstrip("_")
    return f"{name}: {exc}" if type(exc).__module__ == "builtins" else name


class Reader:
    """A subscriber whose every step is taken in one task of its own, when it is asked."""

    def __init__(self, manager: Any, number: int, key: Hashable, stream: Any) -> None:
        self._manager = manager
        self.number = number
        self.key = key
        self.stream = stream
        self._steps: asyncio.Queue[Callable[[], Awaitable[Any]] | None] = asyncio.Queue()
        self._answer: Any = WAITING
        self._is_busy = False
        self.task = asyncio.ensure_future(self._work())

    async def pull(self) -> Any:
        """Return the next event, what was raised instead, or that the pull waits."""
        return await self.do(lambda: anext(self.stream))

    async def pulled(self, count: int) -> list[Any]:
        """Return the answers of so many pulls."""
        return [await self.pull() for _ in range(count)]

    async def call(self, function: Callable[[], Any]) -> Any:
        """Return what a plain function answers where the filter would call it."""

        async def step() -> Any:
            return function()

        return await self.do(step)

    async def do(self, step: Callable[[], Awaitable[Any]]) -> Any:
        """Take a step in the reader's task."""
        self._answer = WAITING
        self._steps.put_nowait(step)
        await settle()
        return self.answer

    @property
    def answer(self) -> Any:
        """What the last step has come to."""
        return self._answer

    @property
    def is_busy(self) -> bool:
        """Whether the last step waits."""
        return self._is_busy

    def bind(self) -> Any:
        """Return the number that an event derived now would have."""
        return self._manager.bind_pending_event(trigger_id=self.number, key=self.key)

    async def leave(self) -> None:
        """Unsubscribe."""
        await self._manager.unsubscribe(self.number, self.key)
        await settle()

    async def close(self) -> None:
        """End the task."""
        self.task.cancel()
        await asyncio.wait([self.task])

    async def _work(self) -> None:
        while (step := await self._steps.get()) is not None:
            self._is_busy = True
            try:
                self._answer = await step()
            except Exception as exc:  # noqa: BLE001 - the answer, whatever it is
                self._answer = told(exc)
            self._is_busy = False


async def fed(kit: Kit, *events: str, readers: int = 1, **options: Any) -> tuple[Any, list[Reader]]:
    """Return a manager with so many readers, whose source has yielded these events."""
    manager = kit.manager(**options)
    made = [kit.reader(manager, number) for number in range(readers)]
    await settle()
    kit.source.feed(*events)
    await settle()
    return manager, made


async def play(root: str, case: Callable[[Kit], Awaitable[Any]]) -> Any:
    """Return what a case comes to with the library of that root."""
    kit = Kit(root)
    try:
        # Copied, because closing goes on to write in the trace.
        return json.loads(json.dumps(await case(kit)))
    finally:
        await kit.close()


def played(root: str, case: Callable[[Kit], Awaitable[Any]]) -> Any:
    """Return what a case comes to, in a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(play(root, case))
