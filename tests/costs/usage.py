"""Counts what a deployment asks of AWS: calls by service and operation, and the units of the bill.

Owns: what is counted. `prices` has what is assumed beside it.
"""

import io
import json
import logging
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from typing import Any
from unittest.mock import patch

from botocore.client import BaseClient

from lamplighter import PythonTask
from lamplighter_local.emulator.method_override import api_calls
from lamplighter_local.handlers import LambdaContext, handler_of
from lamplighter_local.stack import LocalStack
from tests.costs.capacity import read_units, stored, write_units, written_by
from tests.costs.prices import (
    LOG_LINE_OVERHEAD_BYTES,
    MEMORY_MB,
    PLATFORM_LOG_BYTES,
    PYTHON_LOG_BYTES,
    SQS_CHUNK_BYTES,
    SQS_REQUESTS_PER_BATCH,
    WALL_TIME,
)

# By whom calls are made that no function makes: producers, jobs, EventBridge.
OUTSIDE = "outside"
_TRANSACTIONS = ("TransactWriteItems", "TransactGetItems")
_PUTS = ("PutObject", "ListObjectsV2", "CopyObject")


@dataclass
class Usage:
    """What was used: calls by function, service and operation, and units by the names of prices."""

    calls: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    invocations: Counter[str] = field(default_factory=Counter)
    units: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def clear(self) -> None:
        """Forget what was counted, because it was preparation."""
        self.calls.clear()
        self.invocations.clear()
        self.units.clear()


@contextmanager
def counting(stack: LocalStack) -> Iterator[Usage]:
    """Count what a deployment uses until the block ends.

    Functions are warm, and each remembers only what it has asked for itself.
    """
    meter = _Meter(stack)
    before, stack.call = stack.call, meter.invoke
    assert stack.execution is not None
    task = stack.execution.fakes[PythonTask.kind]
    try:
        with (
            api_calls.wrapped(stack.runtime.name, meter.metered),
            patch.object(task, "emit", partial(meter.run_tasks, task.emit)),
        ):
            yield meter.usage
    finally:
        stack.call = before


@contextmanager
def _logging_as_deployed(function: str) -> Iterator[None]:
    """Let a function and the library log what they log on AWS, until the block ends."""
    library = logging.getLogger("lamplighter")
    logger = sys.modules[handler_of(function).__module__].logger
    with (
        patch.object(library, "handlers", list(logger.handlers)),
        patch.object(library, "propagate", new=False),
    ):
        levels = library.level, logger.log_level
        library.setLevel(logging.INFO)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            library.setLevel(levels[0])
            logger.setLevel(levels[1])


class _Meter:
    """Counts the calls of each function, and how long it would wait for them."""

    def __init__(self, stack: LocalStack) -> None:
        self.usage = Usage()
        self._stack = stack
        self._caches: dict[str, dict[Any, Any]] = {}
        self._function = OUTSIDE
        self._milliseconds = 0.0
        self._lock = RLock()

    def invoke(self, function: str, event: dict[str, Any]) -> Any:
        """Call a handler as Lambda does, and count what Lambda bills."""
        records = event.get("Records", [])
        self._stack.runtime.caches = self._caches.setdefault(function, {})
        self._function = function
        self._milliseconds = WALL_TIME.invocation + WALL_TIME.message * len(records)
        logged = io.StringIO()
        try:
            with _logging_as_deployed(function), redirect_stderr(logged), redirect_stdout(logged):
                answer = handler_of(function)(json.loads(json.dumps(event)), LambdaContext())
        finally:
            self._function = OUTSIDE
        self.usage.invocations[function] += 1
        self._count_invocation(logged.getvalue(), is_batch=bool(records))
        return answer

    def run_tasks(self, emit: Callable[[], int]) -> int:
        """Let time pass for invocations of `task`, and count what they ask for."""
        self._function, self._milliseconds = "task", 0.0
        try:
            return emit()
        finally:
            self._function = OUTSIDE
            self._add_seconds(self._milliseconds)

    def _begin_task(self) -> None:
        """Count an invocation of `task` but for its calls."""
        self.usage.invocations["task"] += 1
        self._add("Lambda requests", 1)
        self._add_seconds(WALL_TIME.invocation + WALL_TIME.python_step)
        self._add("CloudWatch Logs bytes", PLATFORM_LOG_BYTES + PYTHON_LOG_BYTES)

    def _add_seconds(self, milliseconds: float) -> None:
        self._add("Lambda GB-seconds", MEMORY_MB / 1_024 * milliseconds / 1_000)

    def _count_invocation(self, logged: str, *, is_batch: bool) -> None:
        lines = LOG_LINE_OVERHEAD_BYTES * len(logged.splitlines())
        self._add("Lambda requests", 1)
        self._add_seconds(self._milliseconds)
        self._add("CloudWatch Logs bytes", PLATFORM_LOG_BYTES + len(logged.encode()) + lines)
        self._add("SQS requests", SQS_REQUESTS_PER_BATCH if is_batch else 0)

    def metered(self, send: Callable[..., Any]) -> Callable[..., Any]:
        """Return what counts a call and sends it."""

        def call(client: BaseClient, operation: str, arguments: dict[str, Any]) -> Any:
            service = client.meta.service_model.service_name
            if self._function == OUTSIDE and not _is_foreign(service, operation):
                return send(client, operation, arguments)
            with self._lock:  # functions make several calls at a time
                self.usage.calls[self._function, service, operation] += 1
                self._milliseconds += _wait(service, operation)
                if service == "dynamodb":
                    sending = partial(send, client, operation, arguments)
                    return self._count_dynamodb(sending, operation, arguments)
                self._count(service, operation, arguments)
                return send(client, operation, arguments)

        return call

    def _count_dynamodb(
        self, send: Callable[[], Any], operation: str, arguments: Mapping[str, Any]
    ) -> Any:
        written = [(each, stored(each)) for each in written_by(operation, arguments)]
        try:
            answer = send()
            self._add("DynamoDB read units", read_units(operation, arguments, answer))
            return answer
        finally:  # a write that is refused is billed too
            for each, before in written:
                is_transaction = operation in _TRANSACTIONS
                units = write_units(each, before, stored(each), is_transaction=is_transaction)
                self._add("DynamoDB write units", units)

    def _count(self, service: str, operation: str, arguments: Mapping[str, Any]) -> None:
        if service == "sqs":
            self._add("SQS requests", -(-_message_bytes(arguments) // SQS_CHUNK_BYTES) or 1)
        elif service == "s3":
            kind = "PUT" if operation in _PUTS else "GET"
            self._add(f"S3 {kind} requests", 1)
        elif service == "events":
            self._add("EventBridge events", len(arguments["Entries"]))
        elif service == "lambda":
            self._begin_task()

    def _add(self, name: str, count: float) -> None:
        self.usage.units[name] += count


def _is_foreign(service: str, operation: str) -> bool:
    """Return whether a call stands for one that a producer, a job or EventBridge makes."""
    # Receiving and deleting is Lambda's part, which is counted by batches.
    return service == "sqs" and operation.startswith("SendMessage")


def _message_bytes(arguments: Mapping[str, Any]) -> int:
    entries = arguments.get("Entries", [arguments])
    return sum(len(each.get("MessageBody", "").encode()) for each in entries)


def _wait(service: str, operation: str) -> float:
    if operation in _TRANSACTIONS:
        return WALL_TIME.transaction
    return {
        "dynamodb": WALL_TIME.dynamodb,
        "sqs": WALL_TIME.sqs,
        "s3": WALL_TIME.s3,
        "events": WALL_TIME.events,
        "emr-serverless": WALL_TIME.emr,
        "lambda": WALL_TIME.invoke,
    }[service]
