"""What all rows have in common: their table, how instants are written, what changed since reading.

Owns: the connection. All models share one client, so that a cold start pays for one.
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

# What reading or writing a row raises when AWS does not do it.
StoreError = PynamoDBException

# DynamoDB's limit for BatchGetItem, and how often it may leave some of the keys out.
_KEYS_PER_CALL = 100
_MAX_CALLS_PER_PAGE = 10

_adding_tables = Lock()


def connection() -> Connection:
    """Return the connection that all tables of the current runtime share."""
    found: Connection = runtime.current().client(Connection, _connect)
    return found


def _connect() -> Connection:
    return Connection(
        connect_timeout_seconds=aws.CONNECT_SECONDS,
        read_timeout_seconds=aws.READ_SECONDS,
        max_retry_attempts=aws.ATTEMPTS - 1,
        max_pool_connections=50,
    )


class Instant(Attribute[DateTime]):
    """An instant as ISO text in UTC, always with microseconds: texts sort as instants do."""

    attr_type = STRING

    def serialize(self, value: DateTime) -> str:
        return instant_text(value)

    def deserialize(self, value: str) -> DateTime:
        # Cut by hand: a row has a dozen of these, and parsing was most of the cost of reading one.
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
    """Return the written form: `2026-01-31T06:00:00.000000Z`."""
    at = as_utc(value)
    # By hand, like reading: `isoformat` asks the zone for its offset, which takes longer than this.
    return (
        f"{at.year:04}-{at.month:02}-{at.day:02}"
        f"T{at.hour:02}:{at.minute:02}:{at.second:02}.{at.microsecond:06}Z"
    )


class Malformed(NamedTuple):
    """A row that cannot be read, by its key, and why."""

    key: tuple[Any, ...]
    problem: str


class Row(Model):
    """A row that knows what was stored, so that a write carries the differences only."""

    class Meta:
        table_name = "named by the settings when it is first used"

    # The values that were read; a set or a document is replaced when it changes, never altered.
    stored: Mapping[str, Any] = MappingProxyType({})

    @classmethod
    def _get_connection(cls) -> TableConnection:
        # PynamoDB fixes names when a class is made; here a process learns them when it runs.
        table = _table(cls)
        # Its own batches look for the name here, after they have asked for the connection.
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
        """Yield the rows that exist, decoded one by one.

        A malformed one is added to the list, if there is one, and the others go on. Without a list
        it is an error: that a row cannot be read must not be taken for its absence.
        """
        keys = [cls._key(item) for item in set(items)]
        for at in range(0, len(keys), _KEYS_PER_CALL):
            for data in cls._pages(keys[at : at + _KEYS_PER_CALL], consistent_read):
                try:
                    yield cls._complete(data)
                except MalformedRowError as error:
                    if malformed is None:
                        raise
                    log.exception("malformed row was skipped", extra={"table": cls.__name__})
                    key = tuple(next(iter(data[name].values())) for name in cls.key_names())
                    malformed.append(Malformed(key, str(error)))

    @classmethod
    def scan(  # type: ignore[override] # as above
        cls, *arguments: Any, malformed: list[MalformedRowError] | None = None, **options: Any
    ) -> Iterator[Self]:
        """Yield all rows, or those that fulfil a condition. For listings: nothing depends on it.

        A malformed row is logged and, if there is a list, added to it.
        """
        rows = iter(super().scan(*arguments, **options))
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except MalformedRowError as error:
                log.exception("malformed row was skipped", extra={"table": cls.__name__})
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
        raise TransientError(f"rows of {cls.__name__} could not all be read now")

    @classmethod
    def _complete(cls, data: dict[str, Any]) -> Self:
        """Return a whole row; one that lacks a required attribute is malformed, too."""
        row = cls.from_raw_data(data)
        if missing := _required(cls) - row.attribute_values.keys():
            raise MalformedRowError(f"{_describe(cls, data)}: it has no {min(missing)}")
        return row

    @property
    def is_stored(self) -> bool:
        """Whether the row was read from its table."""
        return bool(self.stored)

    def as_stored(self) -> Self:
        """Return the row as it was when it was read, whatever was assigned since."""
        row = copy(self)
        row.attribute_values = dict(self.stored)
        return row

    @property
    def is_changed(self) -> bool:
        """Whether something was assigned that was not stored."""
        return any(self.stored.get(name) != now for name, now in self.attribute_values.items())


@runtime.cached()
def _table(model: type[Row]) -> TableConnection:
    """Return the table of a model in the current deployment."""
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
    """Return the attributes that every whole row has."""
    return frozenset(name for name, each in model.get_attributes().items() if not each.null)


def _describe(model: type[Row], data: Mapping[str, Mapping[str, Any]]) -> str:
    key = "/".join(str(value) for name in model.key_names() for value in data[name].values())
    return f"row {key!r} of {model.__name__} is malformed"
