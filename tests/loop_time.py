"""Event loops whose time passes only when there is nothing else to do.

Limits of a few seconds are then reached in no time by whoever hangs, and never by whoever is merely
slow: a busy machine cannot change what a test sees.
"""

import asyncio
import selectors
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar, TypeVarTuple
from unittest.mock import patch

from lamplighter.streams import delivery_rounds, outbox, polling, session
from lamplighter.triggers.shared_stream import SharedStreamManager

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing but threads; where it would wait for a time, that time has passed."""

    def __init__(self, jump: Callable[[float], None], is_busy: Callable[[], bool]) -> None:
        super().__init__()
        self._jump = jump
        self._is_busy = is_busy

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Not while something is to be done at once: it may be what a thread that has ended left.
        if timeout is None or (timeout > 0 and self._is_busy()):
            return super().select(None)
        found = super().select(0)
        if not found and timeout > 0:
            self._jump(timeout)
        return found


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop that jumps to the next instant at which something happens."""

    def __init__(self) -> None:
        self._passed = 0.0
        self._threads: set[asyncio.Future[Any]] = set()
        super().__init__(_Jumping(self.let_pass, lambda: bool(self._threads)))

    def time(self) -> float:
        return self._passed

    def let_pass(self, seconds: float) -> None:
        """Let time pass, as it does for someone who waits."""
        self._passed += seconds

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._threads.add(future)
        future.add_done_callback(self._threads.discard)
        return future


def now() -> float:
    """Return the time of the running loop; outside of one, no time passes."""
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return 0.0


def let_pass(seconds: float) -> None:
    """Let time pass in the running loop, as a call does that takes so long."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    loop.let_pass(seconds)


@contextmanager
def jumping_time() -> Iterator[None]:
    """Let watchers work in such loops until the block ends."""
    manager = partial(SharedStreamManager, _now=now)
    with ExitStack() as patches:
        for module in (delivery_rounds, outbox, polling, session):
            patches.enter_context(patch.object(module, "monotonic", now))
        patches.enter_context(patch.object(session, "SharedStreamManager", manager))
        patches.enter_context(patch.object(asyncio, "new_event_loop", JumpingLoop))
        yield
