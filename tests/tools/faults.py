"""Faults on the clients of a test, and what can come between two of their calls."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lamplighter.errors import RefusedError
from lamplighter_local.faults.call_faults import (
    SINGLE_WRITES,
    TRANSACTIONS,
    CallFaults,
    Crash,
    Kind,
    Send,
)
from lamplighter_local.faults.earlier_pages import Answer

__all__ = ["POLLING", "Crash", "Faults", "Kind", "crash_points", "overtaken"]

# Lambda's calls and not ours.
POLLING = frozenset({"DeleteMessage", "ReceiveMessage"})


def crash_points(calls: Iterable[str]) -> Iterator[tuple[Kind, int]]:
    """Yield each fault that each of some calls can have, with the number of the call."""
    kinds: tuple[Kind, ...] = ("crash-before", "crash-after", "lost-answer", "throttle", "conflict")
    for number, operation in enumerate(calls, start=1):
        if operation in POLLING:
            if operation == "DeleteMessage":  # a function may die when its work is done
                yield "crash-before", number
            continue
        for kind in kinds:
            if kind != "conflict" or operation in SINGLE_WRITES | TRANSACTIONS:
                yield kind, number


class Faults(CallFaults):
    """Faults that strike all calls of some clients, in force inside `on`."""

    @contextmanager
    def on(self, *clients: Any) -> Iterator[None]:
        """Put the faults in the way of these botocore or boto3 clients until the block ends.

        The client of a PynamoDB connection is its `.client`; every model has its own connection.
        """
        for client in clients:
            if "_make_api_call" in vars(client):
                raise RefusedError("a client can have only one set of faults")
        for client in clients:
            client._make_api_call = self._round(client)
        try:
            yield
        finally:
            for client in clients:
                del client._make_api_call

    def _round(self, client: Any) -> Send:
        send: Send = client._make_api_call

        def send_or_fail(operation: str, request: Mapping[str, Any]) -> Answer:
            return self.pass_on(client, send, operation, request)

        return send_or_fail


@contextmanager
def overtaken(
    clients: Sequence[Any], number: int, meanwhile: Callable[[], object]
) -> Iterator[list[str]]:
    """Let something else happen before a call; yield the operations that were called.

    Calls of all clients are counted together, from 1 on; what happens meanwhile is not counted.
    """
    calls: list[str] = []

    def wrap(send: Send) -> Send:
        def send_later(operation: str, request: Mapping[str, Any]) -> Answer:
            if operation in POLLING:
                return send(operation, request)
            calls.append(operation)
            if len(calls) == number:
                stop()
                try:
                    meanwhile()
                finally:
                    start()
            return send(operation, request)

        return send_later

    def start() -> None:
        for client in clients:
            client._make_api_call = wrap(type(client)._make_api_call.__get__(client))

    def stop() -> None:
        for client in clients:
            del client._make_api_call

    start()
    try:
        yield calls
    finally:
        stop()
