"""Makes moto's DynamoDB safe under threads, and quick where our shortcuts fit its version.

A transaction of moto's puts whole tables back when it fails: what other threads committed in
between is gone. Here one request is served at a time, as if each were atomic.

Owns: the order of requests to the emulator. Refuses: changing any answer of moto's. What moto lacks
(throttles, conflicts, late indexes) is the business of `faults`.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

from moto import mock_aws
from moto.dynamodb.responses import DynamoHandler
from moto.dynamodbstreams.responses import DynamoDBStreamsHandler

from lamplighter import runtime
from lamplighter_local.emulator import shortcuts

Value = TypeVar("Value")


@contextmanager
def guarded_moto() -> Iterator[threading.RLock]:
    """Emulate AWS in this process until the block ends, with a DynamoDB that threads may share.

    Yields the lock of `guard`.
    """
    with mock_aws(), guard() as lock, shortcuts.calls(runtime.current().name, lock):
        yield lock


@contextmanager
def guard() -> Iterator[threading.RLock]:
    """Guard whatever moto serves in this process, a moto server included, until the block ends.

    Yields the lock that whoever reads the emulator's memory, or calls it directly, must hold.
    """
    lock = threading.RLock()
    with ExitStack() as patches:
        # Whole requests rather than the backend's methods: an update reads, writes and reads again,
        # and an answer is made from live items after the method that found them has returned.
        for handler in (DynamoHandler, DynamoDBStreamsHandler):
            patches.enter_context(
                patch.object(handler, "call_action", _one_at_a_time(handler.call_action, lock))
            )
        patches.enter_context(shortcuts.inside_moto())
        yield lock


def _one_at_a_time(serve: Callable[[Any], Value], lock: threading.RLock) -> Callable[[Any], Value]:
    def serve_alone(handler: Any) -> Value:
        with lock:
            return serve(handler)

    return serve_alone
