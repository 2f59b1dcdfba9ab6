"""Makes moto quick where it takes its time: sorting, sizes, and what it reads over and over.

A query sorts a whole table, a condition and a plain update are taken through ten passes over trees
of their words, and every attribute that is set has the whole item measured. A month of runs has a
hundred thousand such updates.

Owns: shorter ways to the same. Refuses: changing any answer of moto's; what is not plain goes the
way that it always went.
"""

import inspect
import re
import string
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import moto.dynamodb.models as dynamodb
import moto.dynamodb.responses as dynamodb_responses
import moto.sqs.models as sqs
from moto.core.utils import camelcase_to_underscores
from moto.dynamodb.comparisons import AttributeValue, ConditionExpressionParser
from moto.dynamodb.models.dynamo_type import DynamoType, Item, LimitedSizeDict
from moto.dynamodb.models.table import Table
from moto.dynamodb.parsing.executors import UpdateExpressionExecutor
from moto.dynamodb.parsing.validators import UpdateExpressionValidator
from moto.moto_api._internal import mock_random

_PARSER: Any = vars(dynamodb)["UpdateExpressionParser"]
_PARSE: Any = ConditionExpressionParser.parse
_MAKE_OPERAND: Any = vars(ConditionExpressionParser)["_make_operand"]
_PROJECT: Any = vars(Item)["project"]


@contextmanager
def quick_moto() -> Iterator[None]:
    """Let moto take the shorter ways until the block ends."""
    changes: tuple[tuple[Any, str, Any], ...] = (
        (Table, "all_items", _in_order),
        (Table, "query", _within_partition(Table.query)),
        (DynamoType, "cast_value", _strings_at_once(DynamoType.cast_value)),
        (dynamodb, "UpdateExpressionParser", _KnownExpressions),
        (dynamodb_responses, "UpdateExpressionParser", _KnownClauses),
        (dynamodb, "UpdateExpressionValidator", _validator),
        (dynamodb, "UpdateExpressionExecutor", _executor),
        (ConditionExpressionParser, "parse", _parse_condition),
        (ConditionExpressionParser, "_make_operand", _make_operand),
        (Item, "__init__", _make_item),
        (Item, "project", _project),
        (sqs, "camelcase_to_underscores", cache(camelcase_to_underscores)),
        (sqs, "generate_receipt_handle", _receipt_handle),
    )
    with ExitStack() as patches:
        for place, name, quicker in changes:
            patches.enter_context(patch.object(place, name, quicker))
        yield


# Reading.


def _within_partition(query: Any) -> Any:
    """Return a query that sorts the items with its hash key, not all there are."""
    signature = inspect.signature(query)

    def query_one(table: Any, *more: Any, **options: Any) -> Any:
        given = signature.bind(table, *more, **options).arguments
        index_name, hash_key = given.get("index_name"), given["hash_key"]
        if index_name and hash_key is not None:
            table.index_key_asked_for = _index_key(table, index_name, hash_key)
        elif table.range_key_attr:
            table.partition_asked_for = hash_key
        try:
            return query(table, *more, **options)
        finally:
            table.partition_asked_for = table.index_key_asked_for = None

    return query_one


def _index_key(table: Any, index_name: str, value: DynamoType) -> tuple[str, DynamoType] | None:
    """Return the attribute that is the hash key of an index, and its value; None if it has many."""
    names = [
        key["AttributeName"]
        for index in table.all_indexes()
        if index.name == index_name
        for key in index.schema
        if key["KeyType"] == "HASH"
    ]
    return (names[0], value) if len(names) == 1 else None


def _in_order(table: Any) -> list[Item]:
    """Return items by key, having looked at each key once and not at every comparison."""
    asked_for = getattr(table, "partition_asked_for", None)
    partitions: Any = table.items.values()
    if asked_for is not None:
        partitions = [table.items.get(asked_for, {})]
    if table.range_key_attr is None:
        return sorted(partitions, key=lambda item: item.hash_key.cast_value)
    items = [item for partition in partitions for item in partition.values()]
    index_key = getattr(table, "index_key_asked_for", None)
    if index_key is not None:
        # Those of an index lie wherever they are, and most items have no place in it.
        name, value = index_key
        items = [item for item in items if name in item.attrs and item.attrs[name] == value]
    return sorted(items, key=lambda item: (item.hash_key.cast_value, item.range_key.cast_value))


def _project(item: Item, wanted: list[list[str]]) -> Item:
    """Return an item with whole attributes: no need to make JSON of all of it for each of them."""
    if any(len(each) != 1 or "[" in each[0] for each in wanted):
        projected: Item = _PROJECT(item, wanted)
        return projected
    found = Item(item.hash_key, item.range_key, {})
    found.attrs = LimitedSizeDict({n: item.attrs[n] for (n,) in wanted if n in item.attrs})
    return found


def _strings_at_once(cast_value: Any) -> property:
    """Return the property that gives a string without asking whether it is anything else first."""

    def cast(value: DynamoType) -> Any:
        return value.value if value.type == "S" else cast_value.__get__(value)

    return property(cast)


# Conditions.


class _Names(dict[str, Any]):
    """Values of an expression that are not known yet: each is its own name."""

    def __missing__(self, name: str) -> str:
        return name


class _Tree(ConditionExpressionParser):
    """Reads the tree of an expression, and makes nothing of it."""

    def _make_op_condition(self, node: Any) -> Any:
        return node


class _Known(NamedTuple):
    """What an expression says, whatever its values are."""

    tree: Any
    names: tuple[str, ...]
    values: frozenset[str]
    values_in_order: tuple[str, ...]


@lru_cache(maxsize=4096)
def _known_condition(expression: str, names: frozenset[tuple[str, str]]) -> _Known | None:
    """Return what an expression says; None if moto has something against it."""
    reader = _Tree(expression, dict(names), _Names())
    try:
        tree = _PARSE(reader)
    except Exception:  # noqa: BLE001 - it is read again, for its error
        return None
    values = reader.expr_attr_values_found
    return _Known(tree, tuple(reader.expr_attr_names_found), frozenset(values), tuple(values))


def _parse_condition(parser: Any) -> Any:
    """Read a condition once, however often it comes with other values."""
    if not parser.condition_expression:
        return _PARSE(parser)
    names = frozenset((parser.expression_attribute_names or {}).items())
    known = _known_condition(parser.condition_expression, names)
    if known is None or not known.values <= (parser.expression_attribute_values or {}).keys():
        return _PARSE(parser)
    parser.expr_attr_names_found.extend(known.names)
    parser.expr_attr_values_found.extend(known.values_in_order)
    return parser._make_op_condition(known.tree)  # noqa: SLF001 - moto's own way


def _make_operand(parser: Any, node: Any) -> Any:
    if node.kind == parser.Kind.EXPRESSION_ATTRIBUTE_VALUE:
        return AttributeValue(parser.expression_attribute_values[node.text])
    return _MAKE_OPERAND(parser, node)


# Writing.


def _make_item(
    item: Item, hash_key: DynamoType, range_key: DynamoType | None, attrs: Mapping[str, Any]
) -> None:
    item.hash_key, item.range_key = hash_key, range_key
    item.attrs = LimitedSizeDict({name: DynamoType(value) for name, value in attrs.items()})
    _measure(item.attrs)


def _measure(attributes: LimitedSizeDict) -> None:
    """Let moto refuse too large an item: it measures all of it whenever an attribute is set."""
    for name in list(attributes)[-1:]:
        attributes[name] = attributes.pop(name)


def _receipt_handle() -> str:
    return "".join(mock_random.choices(string.ascii_lowercase, k=185))


# Updates.


class _KnownExpressions:
    """Reads an update expression once, however often it comes."""

    @staticmethod
    @lru_cache(maxsize=4096)
    def make(expression: str) -> Any:
        """Return what moto reads out of it, of which others make copies."""
        tree = _PARSER.make(expression)
        tree.expression = expression
        return tree


class _KnownClauses:
    """The same for those who only look for the names in an expression."""

    @staticmethod
    @lru_cache(maxsize=4096)
    def make(expression: str) -> Any:
        """Return something that finds parts of the expression, each kind once."""
        tree = _PARSER.make(expression)
        find = cache(lambda *kinds: tree.find_clauses(list(kinds)))
        return SimpleNamespace(find_clauses=lambda kinds: find(*kinds))


class _Plain(NamedTuple):
    """An expression that sets attributes to values and removes others, and nothing else."""

    sets: tuple[tuple[str, str], ...]
    removes: tuple[str, ...]


_PLAIN = re.compile(
    r"\s*(?:SET\s+(?P<sets>#\w+\s*=\s*:\w+(?:\s*,\s*#\w+\s*=\s*:\w+)*))?\s*(?:REMOVE\s+(?P<removes>#\w+(?:\s*,\s*#\w+)*))?\s*"
)


@lru_cache(maxsize=4096)
def _plain(expression: str) -> _Plain | None:
    found = _PLAIN.fullmatch(expression)
    if found is None:
        return None
    sets = re.findall(r"(#\w+)\s*=\s*(:\w+)", found["sets"] or "")
    return _Plain(tuple(sets), tuple(re.findall(r"#\w+", found["removes"] or "")))


class _PlainUpdate(NamedTuple):
    """What a plain update does to an item."""

    values: Mapping[str, DynamoType]
    removed: tuple[str, ...]

    def validate(self) -> "_PlainUpdate":
        """Return itself: there is nothing that could be wrong with it."""
        return self

    def normalize(self) -> None:
        """Leave it as it is."""

    def execute(self, item: Item) -> None:
        """Change the item."""
        attributes = LimitedSizeDict(item.attrs)
        for name in self.removed:
            attributes.pop(name, None)
        attributes.update(self.values)
        if self.values:
            _measure(attributes)
        item.attrs = attributes


def _validator(
    tree: Any,
    *,
    expression_attribute_names: Any,
    expression_attribute_values: Any,
    item: Item,
    table: Table,
) -> Any:
    """Return what moto asks whether an update is right."""
    names, values = expression_attribute_names or {}, expression_attribute_values or {}
    update = _as_plain(tree.expression, names, values, table)
    if update is not None:
        return update
    return UpdateExpressionValidator(
        tree,
        expression_attribute_names=expression_attribute_names,
        expression_attribute_values=expression_attribute_values,
        item=item,
        table=table,
    )


def _as_plain(
    expression: str, names: Mapping[str, str], values: Mapping[str, Any], table: Table
) -> _PlainUpdate | None:
    plain = _plain(expression)
    if plain is None or not set(plain.removes) | {name for name, _ in plain.sets} <= names.keys():
        return None
    touched = [names[name] for name, _ in plain.sets] + [names[name] for name in plain.removes]
    # Keys, of the table and of its indexes, have rules of their own; so have names that come twice.
    if len(set(touched)) < len(touched) or not {value for _, value in plain.sets} <= values.keys():
        return None
    ruled = {attribute["AttributeName"]: attribute["AttributeType"] for attribute in table.attr}
    if not {table.hash_key_attr, table.range_key_attr}.isdisjoint(touched):
        return None
    new = {names[name]: values[value] for name, value in plain.sets}
    for name in ruled.keys() & new.keys():
        ((kind, value),) = new[name].items()
        if kind != ruled[name] or value == "":
            return None
    removed = tuple(names[name] for name in plain.removes)
    return _PlainUpdate({name: DynamoType(value) for name, value in new.items()}, removed)


def _executor(tree: Any, item: Item, expression_attribute_names: dict[str, str]) -> Any:
    """Return what carries an update out."""
    if isinstance(tree, _PlainUpdate):
        return _Execution(tree, item)
    return UpdateExpressionExecutor(tree, item, expression_attribute_names)


class _Execution(NamedTuple):
    update: _PlainUpdate
    item: Item

    def execute(self) -> None:
        """Carry it out."""
        self.update.execute(self.item)
