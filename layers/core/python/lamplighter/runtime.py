"""What one deployment holds in a process: settings, clock, clients, executor and caches.

Owns: the current runtime, the only state of the core. A process starts with one that is filled from
the environment as it is used, which is all that a Lambda needs; a local deployment and tests
activate their own, and everything that was cached under it vanishes with it. Other modules keep
nothing: `settings.current()`, `clock.now()` and `aws.client(...)` read from here.
"""

import functools
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from lamplighter.clock import Clock
    from lamplighter.executors.base import Executor
    from lamplighter.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")

_making_clients = threading.RLock()


@dataclass(eq=False)
class Runtime:
    """Settings, clock, executor, randomness, clients and caches of one deployment.

    `name` tells several of them in one process apart; a changed copy keeps it.
    """

    name: str = ""
    settings: "Settings | None" = None  # None: those of the environment, read when first needed
    clock: "Clock | None" = None  # None: the machine's
    executor: "Executor | None" = None  # None: the one that settings name
    # Not one that is seeded when a module is loaded: functions that begin from one snapshot of
    # memory would all wait for the same time.
    random: Random = field(default_factory=SystemRandom)
    # Whether author code of watchers gets a process per bundle. Not in a local deployment: author
    # code is its user's own there, and AWS is emulated in this process.
    isolates_watchers: bool = True
    clients: dict[Hashable, Any] = field(default_factory=dict)
    caches: dict[Callable[..., Any], Callable[..., Any]] = field(default_factory=dict)

    def client(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the client that is known by a key, made when it is first asked for."""
        found = self.clients.get(key)
        if found is None:
            with _making_clients:  # boto3's session is not safe for threads
                found = self.clients.get(key)
                if found is None:
                    found = self.clients[key] = make()
        return found


# The last one is current. One per process and not per thread: all threads of a function, or of a
# local deployment, work for the same deployment.
_active: list[Runtime] = [Runtime()]


def current() -> Runtime:
    """Return the runtime in force."""
    return _active[-1]


@contextmanager
def activate(runtime: Runtime) -> Iterator[Runtime]:
    """Make a runtime current for the whole process until the block ends.

    Blocks need not end in the order in which they began: the newest that is still open counts.
    """
    _active.append(runtime)
    try:
        yield runtime
    finally:
        newest = max(at for at, each in enumerate(_active) if each is runtime)
        del _active[newest]


@contextmanager
def using(
    *,
    settings: "Settings | None" = None,
    clock: "Clock | None" = None,
    executor: "Executor | None" = None,
    new_clients: bool = False,
) -> Iterator[Runtime]:
    """Activate a copy of the current runtime in which some things are different.

    Other settings may name other tables, so they start with empty caches. Clients are shared unless
    the environment that they were made from has changed.
    """
    changed = replace(current())
    if settings is not None:
        changed.settings = settings
    if clock is not None:
        changed.clock = clock
    if executor is not None:
        changed.executor = executor
    if new_clients:
        changed.clients = {}
    if new_clients or settings is not None:
        changed.caches = {}
    with activate(changed):
        yield changed


def cached(*, maxsize: int | None = None) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Cache what a function returns as `lru_cache` does, but in the current runtime."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            caches = _active[-1].caches
            kept = caches.get(function)
            if kept is None:
                kept = caches.setdefault(function, functools.lru_cache(maxsize)(function))
            found: T = kept(*args, **kwargs)
            return found

        return call

    return decorate
