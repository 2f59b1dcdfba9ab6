"""The one moto that all deployments of this process share; it ends with the last of them.

Owns: which names are taken, the environment that leads to no account, and whose random numbers moto
draws, so that the history of a deployment does not depend on what others do beside it.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from random import Random
from typing import Any
from unittest.mock import patch

from botocore import session
from moto import mock_aws
from moto.moto_api._internal import mock_random

from lamplighter.errors import RefusedError
from lamplighter_local.emulator.moto_clock import objects_on_our_clock, queues_on_our_clock
from lamplighter_local.emulator.moto_guard import guard
from lamplighter_local.emulator.moto_memory import REGION

_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": REGION,
    "POWERTOOLS_TRACE_DISABLED": "true",
    "POWERTOOLS_LOG_LEVEL": "WARNING",
}

# Every deployment has sessions of its own; what they load of botocore's files is read once.
_LOADER = cache(session.create_loader)


class _Shared:
    """What is open now."""

    def __init__(self) -> None:
        self.changing = threading.RLock()
        self.names: set[str] = set()
        self.until_the_last = ExitStack()
        self.moto_lock = threading.RLock()
        self.random: MotoRandom | None = None


_shared = _Shared()


@contextmanager
def shared_moto(name: str) -> Iterator[threading.RLock]:
    """Emulate AWS for the deployment of a name until the block ends.

    Yields the lock that whoever reads the emulator's memory must hold.
    """
    with _shared.changing:
        require_free(name)
        if not _shared.names:
            _start()
        _shared.names.add(name)
    try:
        yield _shared.moto_lock
    finally:
        with _shared.changing:
            _shared.names.remove(name)
            if not _shared.names:
                _shared.until_the_last.close()


def require_free(name: str) -> None:
    """Refuse a name that an open deployment has."""
    if name in _shared.names:
        raise RefusedError(
            f"a LocalDeployment named {name!r} is open in this process: close it first, or give"
            " this one another name="
        )


def _start() -> None:
    with ExitStack() as making:
        making.enter_context(_only_moto())
        making.enter_context(mock_aws())
        _shared.moto_lock = making.enter_context(guard())
        making.enter_context(queues_on_our_clock())
        making.enter_context(objects_on_our_clock())
        _shared.until_the_last = making.pop_all()


@contextmanager
def _only_moto() -> Iterator[None]:
    """Let nothing in the environment lead to an account, a profile or an endpoint."""
    with patch.dict(os.environ, _ENVIRONMENT), patch.object(session, "create_loader", _LOADER):
        for name in list(os.environ):
            if name.startswith("AWS_") and name not in _ENVIRONMENT:
                del os.environ[name]
        yield


class MotoRandom:
    """The random numbers of which moto makes ids for one deployment."""

    def __init__(self, seed: int) -> None:
        self._state: Any = Random(seed).getstate()  # noqa: S311 - it must be repeatable

    def use(self) -> None:
        """Let moto draw from these until another deployment's are used."""
        with _shared.changing:
            if _shared.random is self:
                return
            if _shared.random is not None:
                _shared.random._state = mock_random.getstate()  # noqa: SLF001 - one of our own
            mock_random.setstate(self._state)
            _shared.random = self
