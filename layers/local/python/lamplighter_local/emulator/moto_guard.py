"""Makes moto's DynamoDB safe under threads.

moto begins a transaction by copying every table that it touches, whole, and ends a failed one by
putting the copies back: what other threads committed in between is gone, and each transaction costs
as much as its tables are long. Here one request is served at a time, as if each were atomic, and
a failed transaction puts back only the items that it touched.

Owns: the order of requests to the emulator and the undoing of a transaction. Refuses: changing any
answer of moto's. What moto lacks (throttles, conflicts, late indexes) is the business of `faults`.
"""

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest.mock import patch

import moto.dynamodb.models as dynamodb
from moto import mock_aws
from moto.dynamodb.exceptions import ResourceNotFoundException
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import Table
from moto.dynamodb.responses import DynamoHandler
from moto.dynamodbstreams.responses import DynamoDBStreamsHandler

from lamplighter import runtime
from lamplighter_local.emulator.direct_calls import direct_calls
from lamplighter_local.emulator.method_override import api_calls
from lamplighter_local.emulator.quick_moto import quick_moto

Transact = Callable[[DynamoDBBackend, list[dict[str, Any]]], None]
Value = TypeVar("Value")


@contextmanager
def guarded_moto() -> Iterator[threading.RLock]:
    """Emulate AWS in this process until the block ends, with a DynamoDB that threads may share.

    Yields the lock of `guard`.
    """
    with mock_aws(), guard() as lock, quick_calls(runtime.current().name, lock):
        yield lock


@contextmanager
def quick_calls(deployment: str, lock: threading.RLock) -> Iterator[None]:
    """Answer the calls of a deployment without requests over HTTP until the block ends."""
    with api_calls.wrapped(deployment, partial(direct_calls, lock=lock)):
        yield


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
        patches.enter_context(
            patch.object(
                DynamoDBBackend,
                "transact_write_items",
                _undone_item_by_item(DynamoDBBackend.transact_write_items),
            )
        )
        # This module of moto's copies two things: the items that it updates, and whole tables
        # at the start of a transaction. `_Before` takes the place of the latter.
        patches.enter_context(
            patch.object(dynamodb, "copy", SimpleNamespace(deepcopy=_copy_of_all_but_tables))
        )
        patches.enter_context(quick_moto())
        yield lock


def _one_at_a_time(serve: Callable[[Any], Value], lock: threading.RLock) -> Callable[[Any], Value]:
    def serve_alone(handler: Any) -> Value:
        with lock:
            return serve(handler)

    return serve_alone


def _undone_item_by_item(transact: Transact) -> Transact:
    def transact_or_undo(backend: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
        before = _Before(backend, transact_items)
        try:
            transact(backend, transact_items)
        except BaseException:
            before.put_back()
            raise

    return transact_or_undo


def _copy_of_all_but_tables(value: Value) -> Value:
    return value if isinstance(value, Table) else copy.deepcopy(value)


class _Before:
    """What a transaction is about to touch, as it was: its items, and the ends of their streams."""

    def __init__(
        self, backend: DynamoDBBackend, actions: Sequence[Mapping[str, Mapping[str, Any]]]
    ) -> None:
        self._items: list[tuple[Table, DynamoType, DynamoType | None, Item | None]] = []
        self._streams: dict[str, tuple[Table, int]] = {}
        for action in actions:
            for request in action.values():
                self._note(backend, request)

    def _note(self, backend: DynamoDBBackend, request: Mapping[str, Any]) -> None:
        try:
            table = backend.get_table(request["TableName"])
            attributes = request["Item"] if "Item" in request else request["Key"]
            hash_key = DynamoType(attributes[table.hash_key_attr])
            range_key = (
                DynamoType(attributes[table.range_key_attr]) if table.range_key_attr else None
            )
        except (KeyError, ResourceNotFoundException):
            # moto is about to refuse this action itself, and it cannot change anything.
            return
        # A copy, because an update changes the item in place.
        item = copy.deepcopy(table.get_item(hash_key, range_key))
        self._items.append((table, hash_key, range_key, item))
        if table.stream_shard is not None:
            self._streams[table.name] = (table, len(table.stream_shard.items))

    def put_back(self) -> None:
        """Undo whatever the transaction has done so far."""
        for table, hash_key, range_key, item in self._items:
            # A partition of a table with a range key is a dictionary, otherwise the item itself.
            place: dict[Any, Any] = table.items if range_key is None else table.items[hash_key]
            key = hash_key if range_key is None else range_key
            if item is None:
                place.pop(key, None)
            else:
                place[key] = item
        for table, length in self._streams.values():
            assert table.stream_shard is not None
            del table.stream_shard.items[length:]
