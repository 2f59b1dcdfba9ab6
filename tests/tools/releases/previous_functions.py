"""Handlers of the previous release in a process of their own, beside today's in this one.

Owns: how a call gets there, and how its calls of AWS come back: each is made here, so that both
releases share one deployment with all its fakes. Everything goes through two pipes, as JSON.
"""

import base64
import datetime
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from random import Random
from typing import IO, Any

from botocore.exceptions import ClientError

from lamplighter import aws
from lamplighter.zones import iso
from lamplighter_local import LocalDeployment, handlers
from tests.tools.previous_release import PreviousRelease

# What the other process runs, with the code of the other release.
_PROGRAM = """
import base64, datetime, io, json, sys
from botocore.client import BaseClient
from botocore.exceptions import ClientError

said, sys.stdout = sys.stdout, sys.stderr

def encode(value):
    if isinstance(value, (bytes, bytearray)):
        return {"bytes!": base64.b64encode(value).decode()}
    if isinstance(value, datetime.datetime):
        return {"instant!": value.isoformat()}
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    raise TypeError(repr(value))

def decode(value):
    if value.keys() == {"bytes!"}:
        return base64.b64decode(value["bytes!"])
    if value.keys() == {"instant!"}:
        return datetime.datetime.fromisoformat(value["instant!"])
    if value.keys() == {"body!"}:
        return io.BytesIO(base64.b64decode(value["body!"]))
    return value

def tell(value):
    said.write(json.dumps(value, default=encode) + "\\n")
    said.flush()

def hear():
    line = sys.stdin.readline()
    if not line:
        sys.exit()
    return json.loads(line, object_hook=decode)

def call_aws(client, operation, arguments):
    tell({"service": client.meta.service_model.service_name, "operation": operation,
          "arguments": arguments})
    answer = hear()
    if "error" in answer:
        kind = client.exceptions.from_code(answer["error"]["Error"]["Code"])
        raise kind(answer["error"], operation)
    return answer["answer"]

BaseClient._make_api_call = call_aws

import logging
from lamplighter import runtime
from lamplighter.runtime import Runtime
from lamplighter.settings import Settings
from lamplighter.zones import parse_instant
from lamplighter_local import handlers
from lamplighter_local.movable_clock import MovableClock

while True:
    asked = hear()
    clock = MovableClock(parse_instant(asked["at"]))
    with runtime.activate(Runtime("local", clock=clock, isolates_watchers=False)) as here:
        here.settings = Settings(**asked["settings"])
        tell({"result": handlers.call(asked["function"], asked["event"])})
"""


class PreviousFunctions:
    """The process; it makes one call at a time."""

    def __init__(self, process: "subprocess.Popen[str]", lamp: LocalDeployment) -> None:
        self._process, self._lamp = process, lamp

    def call(self, function: str, event: dict[str, Any]) -> Any:
        """Return what a function of the previous release answers."""
        own = asdict(self._lamp.stack.settings)
        self._tell(
            {"function": function, "event": event, "at": iso(self._lamp.now), "settings": own}
        )
        while "result" not in (said := self._hear()):
            self._tell(_answer(said))
        return said["result"]

    def _tell(self, value: Any) -> None:
        pipe: IO[str] | None = self._process.stdin
        assert pipe is not None
        pipe.write(json.dumps(value, default=_encode) + "\n")
        pipe.flush()

    def _hear(self) -> dict[str, Any]:
        pipe: IO[str] | None = self._process.stdout
        assert pipe is not None
        line = pipe.readline()
        assert line, "the process of the previous release has ended: see its standard error"
        heard: dict[str, Any] = json.loads(line, object_hook=_decode)
        return heard


def _answer(said: dict[str, Any]) -> dict[str, Any]:
    client = aws.client(said["service"])
    try:
        answer = client._make_api_call(said["operation"], said["arguments"])
    except ClientError as error:
        return {"error": {**error.response, "ResponseMetadata": {}}}
    return {"answer": {**answer, "ResponseMetadata": {"HTTPStatusCode": 200}}}


def _encode(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return {"bytes!": base64.b64encode(value).decode()}
    if isinstance(value, datetime.datetime):
        return {"instant!": value.isoformat()}
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    if hasattr(value, "read"):
        return {"body!": base64.b64encode(value.read()).decode()}
    raise TypeError(f"{value!r} cannot be sent to the other process")


def _decode(value: dict[str, Any]) -> Any:
    if value.keys() == {"bytes!"}:
        return base64.b64decode(value["bytes!"])
    if value.keys() == {"instant!"}:
        return datetime.datetime.fromisoformat(value["instant!"])
    return value


@contextmanager
def side_by_side(lamp: LocalDeployment, release: PreviousRelease, *, seed: int) -> Iterator[None]:
    """Let each call of a function meet one release or the other, until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        cwd=release.root,
        env={**release.environment(), "AWS_DEFAULT_REGION": "us-east-1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    previous, chance = PreviousFunctions(process, lamp), Random(seed)
    before: Callable[..., Any] = lamp.stack.call

    def call(function: str, event: dict[str, Any]) -> Any:
        # Author's code stays in this process: it runs in children of its own anyway.
        is_previous = chance.random() < 0.5 and function not in {"watch", "sandbox"}
        return previous.call(function, event) if is_previous else handlers.call(function, event)

    lamp.stack.call = call
    try:
        yield
    finally:
        lamp.stack.call = before
        process.kill()
        process.communicate()
