"""Undoes a failed transaction in moto's DynamoDB by putting back the items that it touched.

moto begins a transaction by copying every table that it touches, whole, so that each costs as much
as its tables are long.

Owns: the undoing of a transaction. Refuses: changing any answer of moto's.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest.mock import patch

import moto.dynamodb.models as dynamodb
from moto.dynamodb.exceptions import ResourceNotFoundException
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import Table

Transact = Callable[[DynamoDBBackend, list[dict[str, Any]]], None]
Value = TypeVar("Value")


@contextmanager
def undo_by_item() -> Iterator[None]:
    """Let failed transactions be undone item by item until the block ends."""
    quicker = _undone_item_by_item(DynamoDBBackend.transact_write_items)
    with (
        patch.object(DynamoDBBackend, "transact_write_items", quicker),
        # This module of moto's copies two things: the items that it updates, and whole tables
        # at the start of a transaction. `_Before` takes the place of the latter.
        patch.object(dynamodb, "copy", SimpleNamespace(deepcopy=_copy_of_all_but_tables)),
    ):
        yield


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
