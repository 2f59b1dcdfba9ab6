"""The base of all rows: table, encoding of instants, changes since reading.

Owns: the connection. All models share one client, so a cold start pays for one only.
"""

import datetime
import logging
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from functools import cache
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from pendulum import DateTime
from pynamodb.attributes import Attribute
from pynamodb.connection import Connection, TableConnection
from pynamodb.connection.base import MetaTable
from pynamodb.constants import STRING
from pynamodb.exceptions import PynamoDBException
from pynamodb.models import Model

from lamplighter import aws, runtime, settings
from lamplighter.errors import UNREADABLE, MalformedRowError, TransientError
from lamplighter.zones import UTC, as_utc

log = logging.getLogger(__name__)

# Raised by reads and writes that AWS does not complete.
StoreError = PynamoDBException

# DynamoDB's limit for BatchGetItem, and retries for unprocessed keys.
_KEYS_PER_CALL = 100
_MAX_CALLS_PER_PAGE = 10

_adding_tables = Lock()


def connection() -> Connection:
    """Return the connection shared by all tables of the current runtime."""
    found: Connection = runtime.current().client(Connection, _connect)
    return found


def _connect() -> Connection:
    held: dict[str, Any] = aws.held_credentials()
    return Connection(
        connect_timeout_seconds=aws.CONNECT_SECONDS,
        read_timeout_seconds=aws.READ_SECONDS,
        max_retry_attempts=aws.ATTEMPTS - 1,
        max_pool_connections=50,
        **held,
    )


class Instant(Attribute[DateTime]):
    """An instant as ISO text in UTC with microseconds, so that text sorts by time."""

    attr_type = STRING

    def serialize(self, value: DateTime) -> str:
        return instant_text(value)

    def deserialize(self, value: str) -> DateTime:
        # Sliced manually: a row has a dozen of these, and parsing dominated the cost of reading.
        return DateTime(
            int(value[:4]),
            int(value[5:7]),
            int(value[8:10]),
            int(value[11:13]),
            int(value[14:16]),
            int(value[17:19]),
            int(value[20:26]),
            tzinfo=UTC,
        )


def instant_text(value: datetime.datetime) -> str:
    """Return the stored form: `2026-01-31T06:00:00.000000Z`."""
    at = as_utc(value)
    # Formatted manually: `isoformat` is slower, as it asks the zone for its offset.
    return (
        f"{at.year:04}-{at.month:02}-{at.day:02}"
        f"T{at.hour:02}:{at.minute:02}:{at.second:02}.{at.microsecond:06}Z"
    )


class Malformed(NamedTuple):
    """The key of a row that cannot be read, and why."""

    key: tuple[Any, ...]
    problem: str


class Row(Model):
    """A row that knows its stored values, so that a write contains only the differences."""

    class Meta:
        table_name = "named by the settings when it is first used"

    # The values as read; sets and documents are replaced when they change, never mutated.
    stored: Mapping[str, Any] = MappingProxyType({})

    @classmethod
    def _get_connection(cls) -> TableConnection:
        # PynamoDB fixes names at class creation; here they are known at run time.
        table = _table(cls)
        # PynamoDB's batches read the name from here, after they have asked for the connection.
        cls.Meta.table_name = table.table_name
        return table

    @classmethod
    def table_name(cls) -> str:
        """Return the name of the table in the current deployment."""
        return _table(cls).table_name

    @classmethod
    def key_names(cls) -> tuple[str, ...]:
        """Return the names of the key's attributes."""
        return tuple(name for name in (cls._hash_keyname, cls._range_keyname) if name)

    def key_values(self) -> list[Any]:
        """Return the values of the key's attributes."""
        return [self.attribute_values[name] for name in self.key_names()]

    @classmethod
    def from_raw_data(cls, data: dict[str, Any]) -> Self:
        try:
            row = super().from_raw_data(data)
        except UNREADABLE as error:
            raise MalformedRowError(f"{_describe(cls, data)}: {error}") from error
        row.stored = dict(row.attribute_values)
        return row

    @classmethod
    def batch_get(  # type: ignore[override] # one more argument, and no choice of attributes
        cls,
        items: Iterable[Any],
        consistent_read: bool | None = None,
        *,
        malformed: list[Malformed] | None = None,
    ) -> Iterator[Self]:
        """Yield the rows that exist.

        A malformed row is added to `malformed`; without that list it is an error, because an
        unreadable row must not be taken for a missing one.
        """
        keys = [cls._key(item) for item in set(items)]
        for at in range(0, len(keys), _KEYS_PER_CALL):
            for data in cls._pages(keys[at : at + _KEYS_PER_CALL], consistent_read):
                try:
                    yield cls._complete(data)
                except MalformedRowError as error:
                    if malformed is None:
                        raise
                    log.exception("skipped a malformed row", extra={"table": cls.__name__})
                    key = tuple(next(iter(data[name].values())) for name in cls.key_names())
                    malformed.append(Malformed(key, str(error)))

    @classmethod
    def scan(  # type: ignore[override] # as above
        cls, *arguments: Any, malformed: list[MalformedRowError] | None = None, **options: Any
    ) -> Iterator[Self]:
        """Yield all rows, or those that match a condition; for listings only.

        A malformed row is logged and added to `malformed`, if given.
        """
        rows = iter(super().scan(*arguments, **options))
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except MalformedRowError as error:
                log.exception("skipped a malformed row", extra={"table": cls.__name__})
                if malformed is not None:
                    malformed.append(error)
            else:
                yield row

    @classmethod
    def _key(cls, item: Any) -> dict[str, Any]:
        values = item if isinstance(item, tuple) else (item,)
        return dict(zip(cls.key_names(), cls._serialize_keys(*values), strict=False))

    @classmethod
    def _pages(
        cls, keys: list[dict[str, Any]], consistent_read: bool | None
    ) -> Iterator[dict[str, Any]]:
        for _ in range(_MAX_CALLS_PER_PAGE):
            page, unprocessed = cls._batch_get_page(keys, consistent_read, None)  # type: ignore[no-untyped-call] # PynamoDB's
            yield from page
            if not unprocessed:
                return
            keys = unprocessed
        raise TransientError(f"not all rows of {cls.__name__} could be read; try again")

    @classmethod
    def _complete(cls, data: dict[str, Any]) -> Self:
        """Return a complete row; one without a required attribute is malformed."""
        row = cls.from_raw_data(data)
        if missing := _required(cls) - row.attribute_values.keys():
            raise MalformedRowError(f"{_describe(cls, data)}: it has no {min(missing)}")
        return row

    @property
    def is_stored(self) -> bool:
        """Whether the row was read from its table."""
        return bool(self.stored)

    def as_stored(self) -> Self:
        """Return a copy of the row as it was read."""
        row = copy(self)
        row.attribute_values = dict(self.stored)
        return row

    @property
    def is_changed(self) -> bool:
        """Whether it has changes that are not stored."""
        return any(self.stored.get(name) != now for name, now in self.attribute_values.items())


@runtime.cached()
def _table(model: type[Row]) -> TableConnection:
    name = f"{settings.current().table_prefix}{model.__name__}"
    shared = connection()
    table = TableConnection(name)
    table.connection = shared
    with _adding_tables:
        if name not in shared._tables:  # noqa: SLF001 - it has no other way
            shared.add_meta_table(_meta_table(model, name))
    return table


def _meta_table(model: type[Row], name: str) -> MetaTable:
    schema = model._get_schema()  # noqa: SLF001 - what PynamoDB itself makes it from
    indexes = [
        {"IndexName": index["index_name"], "KeySchema": index["key_schema"]}
        for index in schema["global_secondary_indexes"]
    ]
    return MetaTable(
        {
            "TableName": name,
            "KeySchema": schema["key_schema"],
            "AttributeDefinitions": schema["attribute_definitions"],
            "GlobalSecondaryIndexes": indexes,
        }
    )


@cache
def _required(model: type[Row]) -> frozenset[str]:
    return frozenset(name for name, each in model.get_attributes().items() if not each.null)


def _describe(model: type[Row], data: Mapping[str, Mapping[str, Any]]) -> str:
    key = "/".join(str(value) for name in model.key_names() for value in data[name].values())
    return f"row {key!r} of {model.__name__} is malformed"
