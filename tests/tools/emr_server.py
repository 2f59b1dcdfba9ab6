"""The fake EMR Serverless behind a socket: for functions that an emulator runs in other processes.

    python -m tests.tools.emr_server --port 5001

Owns: requests over HTTP, as botocore's model of the service says that they look, and telling
EventBridge what becomes of jobs. Refuses: other addresses than 127.0.0.1, and requests of web
pages; any access key is accepted, because the jobs are not executed.
"""

import argparse
import json
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from lamplighter import aws
from lamplighter.errors import RefusedError
from lamplighter.zones import parse_instant
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.emr.requests import service_model
from lamplighter_local.emulator.guarded import ERROR_CODE, Incoming, refusal_reason

# AWS's own name is refused by `PutEvents`, whoever says it.
SOURCE = "lamplighter.emr"
OPERATIONS = (
    "StartJobRun",
    "GetJobRun",
    "ListJobRuns",
    "CancelJobRun",
    "GetApplication",
    "GetDashboardForJobRun",
)
_TELL_EVERY = 0.2
_STATUS = {"ResourceNotFoundException": 404, "ConflictException": 409, "ThrottlingException": 429}
_REFUSED = 400


@contextmanager
def serving_emr(emr: FakeEmr, *, port: int = 0) -> Iterator[str]:
    """Serve a fake until the block ends; return its address.

    What becomes of jobs is told to EventBridge, and their reports are put, wherever the clients of
    this process lead.
    """
    server = _Server(("127.0.0.1", port), _Handler)
    server.emr = emr
    is_over = threading.Event()
    threads = [
        threading.Thread(target=server.serve_forever, args=(_TELL_EVERY,), daemon=True),
        threading.Thread(target=_tell, args=(emr, is_over), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        is_over.set()
        server.shutdown()
        for thread in threads:
            thread.join()
        server.server_close()


def _tell(emr: FakeEmr, is_over: threading.Event) -> None:
    """Put events on the bus as they come; a bus that has no time is told again later."""
    held: list[str] = []
    while not is_over.wait(_TELL_EVERY):
        try:
            held += emr.take_events()
            while held:
                _put(json.loads(held[0]))
                del held[0]
        except (BotoCoreError, ClientError) as error:
            print(f"emr: {error}", file=sys.stderr)  # noqa: T201 - a program


def _put(event: Mapping[str, Any]) -> None:
    entry = {
        "Source": SOURCE,
        "DetailType": event["detail-type"],
        "Detail": json.dumps(event["detail"]),
    }
    answer = aws.client("events").put_events(Entries=[entry])
    if answer["FailedEntryCount"]:
        raise RefusedError(f"EventBridge refuses an event: {answer['Entries'][0]}")


class _Server(ThreadingHTTPServer):
    emr: FakeEmr
    daemon_threads = True


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    # Without it a connection would be opened for every request.
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        assert isinstance(self.server, _Server)
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        reason = self._why_refused()
        if reason is not None:
            self._reply(403, {"message": reason}, code=ERROR_CODE)
            return
        found = read_request(self.command, self.path, body)
        if found is None:
            self._reply(404, {"message": f"nobody answers {self.command} {self.path}"})
            return
        try:
            self._reply(200, self.server.emr.call(*found))
        except ClientError as error:
            said = error.response["Error"]
            status = _STATUS.get(said["Code"], _REFUSED)
            self._reply(status, {"message": said["Message"]}, code=said["Code"])

    # The names that the base class looks for.
    do_GET = do_POST = do_PUT = do_DELETE = do_OPTIONS = _answer  # noqa: N815

    def _why_refused(self) -> str | None:
        assert isinstance(self.server, _Server)
        headers = {name.lower(): text for name, text in self.headers.items()}
        request = Incoming(self.command, self.path, headers)
        return refusal_reason(request, port=self.server.server_port, key=None)

    def _reply(self, status: int, answer: Mapping[str, Any], *, code: str = "") -> None:
        body = json.dumps(answer, default=_as_seconds).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if code:
            self.send_header("x-amzn-errortype", code)
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""


def _as_seconds(value: object) -> float:
    assert isinstance(value, datetime)
    return value.timestamp()


def read_request(method: str, target: str, body: bytes) -> tuple[str, dict[str, Any]] | None:
    """Return the operation that a request is for, and its arguments; None if there is none."""
    parts = urlsplit(target)
    for operation, verb, pattern in _routes():
        found = pattern.fullmatch(parts.path) if verb == method else None
        if found is not None:
            given: dict[str, Any] = json.loads(body) if body else {}
            given |= {name: unquote(text) for name, text in found.groupdict().items()}
            return operation, given | _from_query(operation, parse_qs(parts.query))
    return None


@cache
def _routes() -> list[tuple[str, str, re.Pattern[str]]]:
    found = []
    for name in OPERATIONS:
        http = service_model().operation_model(name).http
        pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", http["requestUri"])
        found.append((name, http["method"], re.compile(pattern)))
    return found


def _from_query(operation: str, query: Mapping[str, list[str]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, shape in service_model().operation_model(operation).input_shape.members.items():
        texts = query.get(shape.serialization.get("name", name))
        if shape.serialization.get("location") != "querystring" or texts is None:
            continue
        match shape.type_name:
            case "list":
                found[name] = texts
            case "integer":
                found[name] = int(texts[0])
            case "timestamp":
                found[name] = parse_instant(texts[0])
            case _:
                found[name] = texts[0]
    return found


def main() -> None:
    """Serve until told to end."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=0, help="any free one by default")
    options = parser.parse_args()
    with serving_emr(FakeEmr(), port=options.port) as address:
        print(address.rpartition(":")[2], flush=True)  # noqa: T201 - see `loopback_process`
        sys.stdin.read()


if __name__ == "__main__":
    main()
