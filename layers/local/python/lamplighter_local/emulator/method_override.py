"""Replaces a method of a class differently for each deployment that is open in this process.

Owns: that deployments may be closed in any order. Patches that were nested as the deployments were
opened would put back, on closing, what another one still needs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from botocore.client import BaseClient

from lamplighter import runtime

Method = Callable[..., Any]


class MethodOverride:
    """A method that the current deployment answers; without one, or if it does not, the original.

    The class is patched while any deployment has something in the method's place.
    """

    def __init__(self, owner: type, name: str) -> None:
        self._owner = owner
        self._name = name
        self._original: Method | None = None
        self._by_deployment: dict[str, Method] = {}
        self._lock = RLock()

    @contextmanager
    def wrapped(self, deployment: str, wrap: Callable[[Method], Method]) -> Iterator[None]:
        """Let a deployment have `wrap(method)` in place of the method until the block ends."""
        with self._lock:
            original = self._install()
            before = self._by_deployment.get(deployment)
            self._by_deployment[deployment] = wrap(before or original)
        try:
            yield
        finally:
            with self._lock:
                if before is not None:
                    self._by_deployment[deployment] = before
                else:
                    del self._by_deployment[deployment]
                    self._uninstall_unless_used()

    def _install(self) -> Method:
        if self._original is not None:
            return self._original
        original: Method = getattr(self._owner, self._name)
        answers = self._by_deployment

        def dispatch(*args: Any, **kwargs: Any) -> Any:
            return answers.get(runtime.current().name, original)(*args, **kwargs)

        setattr(self._owner, self._name, dispatch)
        self._original = original
        return original

    def _uninstall_unless_used(self) -> None:
        if not self._by_deployment:
            setattr(self._owner, self._name, self._original)
            self._original = None


# All clients of botocore make their calls through this method.
api_calls = MethodOverride(BaseClient, "_make_api_call")
