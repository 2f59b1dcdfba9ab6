"""Notes which calls each function makes to AWS: what its rights have to allow, and no more.

Owns: whose call it is. A function that is invoked by another makes its own calls.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from botocore.client import BaseClient

from lamplighter import runtime
from lamplighter_local import handlers


class FunctionCall(NamedTuple):
    """One call that a function made."""

    function: str
    service: str
    operation: str
    arguments: Mapping[str, Any]


Note = Callable[[FunctionCall], None]


@contextmanager
def noted_calls(note: Note) -> Iterator[None]:
    """Tell `note` of every call that a handler makes, before it is made, until the block ends.

    Deployments that are made inside the block are heard.
    """
    call = handlers.call
    running: list[str] = []

    def noting(function: str, event: dict[str, Any], *rest: Any) -> Any:
        # On AWS it has a memory of its own, and would have to ask.
        runtime.current().caches.clear()
        running.append(function)

        def note_own(made: FunctionCall) -> None:
            # Of one that was invoked by another, both are here: it is the inner one's call.
            if running[-1] == function:
                note(made)

        try:
            with noted_calls_of(function, note_own):
                return call(function, event, *rest)
        finally:
            running.pop()

    with patch.object(handlers, "call", noting):
        yield


@contextmanager
def noted_calls_of(name: str, note: Note) -> Iterator[None]:
    """Tell `note` of every call of this process, under a name, until the block ends."""
    send: Callable[..., Any] = BaseClient._make_api_call

    def tell(client: BaseClient, operation: str, arguments: dict[str, Any]) -> Any:
        note(FunctionCall(name, client.meta.service_model.service_name, operation, arguments))
        return send(client, operation, arguments)

    with patch.object(BaseClient, "_make_api_call", tell):
        yield
