"""What DynamoDB bills for a call: read and write units, by the sizes of the items.

Owns: the arithmetic. Sizes of items are those in the emulator's memory before and after a write.
Entries of indexes are written once, also for a transaction, which writes its items twice.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType

from lamplighter_local.emulator.moto_memory import REGION, items_of

Item = Mapping[str, Any]

_WRITE_UNIT, _READ_UNIT = 1_024, 4_096
# DynamoDB stores so much more with each item.
_ENTRY_OVERHEAD = 100
_ACTIONS = ("Put", "Update", "Delete", "ConditionCheck")


class Written(NamedTuple):
    """An item that a call writes, or tries to."""

    table: str
    key: Item


def size_of(item: Item) -> int:
    """Return the bytes of an item, names included."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _value_size(value: Mapping[str, Any]) -> int:
    ((kind, found),) = value.items()
    match kind:
        case "S":
            return len(found.encode())
        case "N":
            return math.ceil(len(found.lstrip("-0.")) / 2) + 1
        case "B":
            return len(found) * 3 // 4 if isinstance(found, str) else len(found)
        case "M":
            return 3 + sum(len(name.encode()) + _value_size(each) for name, each in found.items())
        case "L":
            return 3 + sum(1 + _value_size(each) for each in found)
        case "SS" | "NS" | "BS":
            return sum(len(each) for each in found)
    return 1


def written_by(operation: str, arguments: Mapping[str, Any]) -> list[Written]:
    """Return the items that a call writes."""
    if operation == "TransactWriteItems":
        actions = [
            action[kind]
            for action in arguments["TransactItems"]
            for kind in _ACTIONS
            if kind in action
        ]
    elif operation in ("PutItem", "UpdateItem", "DeleteItem"):
        actions = [arguments]
    elif operation == "BatchWriteItem":
        actions = list(_batch_writes(arguments))
    else:
        return []
    return [Written(each["TableName"], _key(each)) for each in actions]


def _batch_writes(arguments: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for table, requests in arguments["RequestItems"].items():
        for request in requests:
            (action,) = request.values()
            yield {"TableName": table, **action}


def _key(action: Mapping[str, Any]) -> Item:
    if "Key" in action:
        found: Item = action["Key"]
        return found
    names = [each["AttributeName"] for each in _table(action["TableName"]).schema]
    return {name: action["Item"][name] for name in names}


def stored(written: Written) -> Item | None:
    """Return an item as it is now, if there is one."""
    table = _table(written.table)
    keys = [DynamoType(written.key[each["AttributeName"]]) for each in table.schema]
    item = table.get_item(*keys)
    # The emulator changes items in place.
    return None if item is None else json.loads(json.dumps(item.to_json()["Attributes"]))


def _table(name: str) -> Any:
    return dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].tables[name]


def write_units(
    written: Written, before: Item | None, after: Item | None, *, is_transaction: bool
) -> int:
    """Return the units of one write, with the entries of indexes that it changes."""
    size = max(size_of(each) if each else 0 for each in (before, after))
    units = max(1, math.ceil(size / _WRITE_UNIT)) * (2 if is_transaction else 1)
    return units + sum(
        _index_units(_entry(index, before), _entry(index, after), _keys(index))
        for index in _table(written.table).global_indexes
    )


def _keys(index: Any) -> list[str]:
    return [each["AttributeName"] for each in index.schema]


def _entry(index: Any, item: Item | None) -> Item | None:
    """Return the entry of an item in an index, if it has all the keys of the index."""
    if item is None or not all(name in item for name in _keys(index)):
        return None
    projection = index.projection
    if projection["ProjectionType"] == "ALL":
        return item
    names = {*_keys(index), *index.table_key_attrs, *projection.get("NonKeyAttributes", ())}
    return {name: value for name, value in item.items() if name in names}


def _index_units(before: Item | None, after: Item | None, keys: Iterable[str]) -> int:
    if before == after:
        return 0
    if before and after and all(before[name] == after[name] for name in keys):
        return _units(max(before, after, key=size_of))
    # Under another key it is deleted and put.
    return sum(_units(each) for each in (before, after) if each)


def _units(item: Item) -> int:
    return max(1, math.ceil(size_of(item) / _WRITE_UNIT))


def stored_bytes(tables: Iterable[str]) -> int:
    """Return what items of tables, and their entries in indexes, take to be stored."""
    return sum(
        _ENTRY_OVERHEAD + size_of(each)
        for name in tables
        for item in items_of(name)
        for each in _with_entries(_table(name), item.to_json()["Attributes"])
    )


def _with_entries(table: Any, item: Item) -> Iterator[Item]:
    yield item
    for index in table.global_indexes:
        if (entry := _entry(index, item)) is not None:
            yield entry


def read_units(operation: str, arguments: Mapping[str, Any], answer: Mapping[str, Any]) -> float:
    """Return the units of a call that reads."""
    if operation == "GetItem":
        return _read([answer.get("Item")], is_consistent=arguments.get("ConsistentRead", False))
    if operation in ("Query", "Scan"):
        size = sum(size_of(item) for item in answer["Items"])
        units = max(1, math.ceil(size / _READ_UNIT))
        return units if arguments.get("ConsistentRead") else units / 2
    if operation == "TransactGetItems":
        found = [each.get("Item") for each in answer["Responses"]]
        return 2 * _read(found, is_consistent=True)
    if operation == "BatchGetItem":
        return sum(
            _read(
                _with_missing(asked["Keys"], answer["Responses"].get(table, [])),
                is_consistent=asked.get("ConsistentRead", False),
            )
            for table, asked in arguments["RequestItems"].items()
        )
    return 0


def _with_missing(keys: list[Any], found: list[Any]) -> list[Item | None]:
    return [*found, *([None] * (len(keys) - len(found)))]


def _read(items: Iterable[Item | None], *, is_consistent: bool) -> float:
    units = sum(max(1, math.ceil(size_of(each or {}) / _READ_UNIT)) for each in items)
    return units if is_consistent else units / 2
