"""Lets other processes reach the emulator of this one: over HTTP, on 127.0.0.1 only.

Owns: the socket and its threads. Refuses: other addresses, requests that are not signed with the
session's access key, and answering while someone else has the emulator: requests are served one at
a time, also those of services that `moto_guard` does not know. The sandbox is invoked beside them,
because author code may take long.
"""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from moto.sqs.models import SQSBackend
from werkzeug import Request, Response
from werkzeug.serving import make_server

from lamplighter import aws
from lamplighter.errors import RefusedError
from lamplighter_local.emulator.guarded import AccessKey, guarded

LOOPBACK = "127.0.0.1"
_INVOKE = re.compile(r"/2015-03-31/functions/(?P<function>[^/]+)/invocations")
# Clients of this library give up after three seconds.
_WAIT_AT_MOST = 2.0


class Endpoint:
    """Where the emulator can be reached, with which key, and whether it has time."""

    def __init__(self, url: str, key: AccessKey) -> None:
        self.url = url
        self.key = key
        self._has_time = threading.Event()
        self._has_time.set()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Let requests wait for a while: who sends without pause would never be caught up with."""
        self._has_time.clear()
        try:
            yield
        finally:
            self._has_time.set()

    def wait(self) -> None:
        """Return when there is time, or after as long as a client can be kept waiting."""
        self._has_time.wait(_WAIT_AT_MOST)


class QuietHandler(MotoRequestHandler):
    """Serves like moto's, without a line for every request."""

    # Without it a connection would be opened for every request, at the client's expense.
    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""


@contextmanager
def serving(lock: threading.RLock, *, sandbox: str, port: int = 0) -> Iterator[Endpoint]:
    """Serve what moto has in this process until the block ends.

    Args:
        lock: The one of `moto_guard`.
        sandbox: The name of the function that others may invoke, as operators may on AWS.
        port: Where to listen; any free one by default.
    """
    listener = _listen(port)
    bound: int = listener.getsockname()[1]
    endpoint = Endpoint(f"http://{LOOPBACK}:{bound}", AccessKey.new())
    application = DomainDispatcherApplication(create_backend_app)

    def serve_alone(environ: dict[str, Any], start_response: Any) -> Any:
        endpoint.wait()
        invoked = _INVOKE.fullmatch(environ["PATH_INFO"])
        if invoked is not None and invoked["function"] == sandbox:
            return _invoke(sandbox, Request(environ).get_data())(environ, start_response)
        with lock:
            return application(environ, start_response)

    with listener, _nobody_waits():
        server = make_server(
            LOOPBACK,
            bound,
            guarded(serve_alone, port=bound, key=endpoint.key),
            threaded=True,
            request_handler=QuietHandler,
            fd=listener.fileno(),
        )
        thread = threading.Thread(target=server.serve_forever, name="endpoint", daemon=True)
        thread.start()
        try:
            yield endpoint
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def _invoke(function: str, payload: bytes) -> Response:
    """Return what Lambda would answer: the clients of this process reach the real handler."""
    result = aws.client("lambda").invoke(FunctionName=function, Payload=payload)
    failed = result.get("FunctionError")
    headers = {"X-Amz-Function-Error": failed} if failed else {}
    return Response(result["Payload"].read(), headers=headers, content_type="application/json")


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # Else the port stays taken for a minute after the last one who listened there.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise RefusedError(
            f"port {port} on {LOOPBACK} cannot be used: {error.strerror}; choose another --port, or"
            " leave it out"
        ) from error
    return listener


@contextmanager
def _nobody_waits() -> Iterator[None]:
    """Answer at once whoever would wait for a message: with the lock, the clock would wait too."""
    receive = SQSBackend.receive_message

    def receive_now(
        backend: SQSBackend, queue_name: str, count: int, _seconds: int, *more: Any
    ) -> Any:
        return receive(backend, queue_name, count, 0, *more)

    with patch.object(SQSBackend, "receive_message", receive_now):
        yield
