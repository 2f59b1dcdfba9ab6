"""Notes which calls each function makes to AWS: what its rights have to allow, and no more.

Owns: whose call it is. A function that is invoked by another makes its own calls.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from botocore.client import BaseClient

from lamplighter.events.fan_out import forget_consumers
from lamplighter.runs.definitions import forget_definitions
from lamplighter_local import handlers


class FunctionCall(NamedTuple):
    """One call that a function made."""

    function: str
    service: str
    operation: str
    arguments: Mapping[str, Any]


@contextmanager
def noted_calls(note: Callable[[FunctionCall], None]) -> Iterator[None]:
    """Tell `note` of every call that a handler makes, before it is made, until the block ends.

    Deployments that are made inside the block are heard.
    """
    call = handlers.call
    running: list[str] = []

    def noting(function: str, event: dict[str, Any], *rest: Any) -> Any:
        # On AWS it has a memory of its own, and would have to ask.
        forget_definitions()
        forget_consumers()
        running.append(function)
        send: Callable[..., Any] = BaseClient._make_api_call  # noqa: SLF001 - all clients use it

        def tell(client: BaseClient, operation: str, arguments: dict[str, Any]) -> Any:
            # Of one that was invoked by another, both are here: it is the inner one's call.
            if running[-1] == function:
                service = client.meta.service_model.service_name
                note(FunctionCall(function, service, operation, arguments))
            return send(client, operation, arguments)

        try:
            with patch.object(BaseClient, "_make_api_call", tell):
                return call(function, event, *rest)
        finally:
            running.pop()

    with patch.object(handlers, "call", noting):
        yield
