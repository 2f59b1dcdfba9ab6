"""What all rows have in common: whose table they are in, and what has changed since they were read.

Owns: the connection. All models share one client, so that a cold start pays for one.
"""

from collections.abc import Mapping
from copy import copy
from threading import RLock
from types import MappingProxyType
from typing import Any, ClassVar, Self

from pynamodb.connection import Connection, TableConnection
from pynamodb.models import Model

from lamplighter import aws, settings
from lamplighter.settings import Settings

_lock = RLock()
_connection: tuple[Settings, Connection] | None = None


def connection() -> Connection:
    """Return the connection that all tables share under the settings in force."""
    global _connection  # noqa: PLW0603 - made on first use and kept for the life of the process
    now = settings.current()
    with _lock:
        if _connection is None or _connection[0] is not now:
            made = Connection(
                connect_timeout_seconds=aws.CONNECT_SECONDS,
                read_timeout_seconds=aws.READ_SECONDS,
                max_retry_attempts=aws.ATTEMPTS - 1,
                max_pool_connections=50,
            )
            _connection = (now, made)
        return _connection[1]


class Row(Model):
    """A row that knows what was stored, so that a write carries the differences only."""

    class Meta:
        table_name = "named by the settings when it is first used"

    # The values that were read; a set or a document is replaced when it changes, never altered.
    stored: Mapping[str, Any] = MappingProxyType({})
    _settings: ClassVar[Settings | None] = None

    @classmethod
    def _get_connection(cls) -> TableConnection:
        # PynamoDB fixes names when a class is made; here a process learns them when it runs.
        with _lock:
            if cls._settings is not settings.current():
                cls.Meta.table_name = f"{settings.current().table_prefix}{cls.__name__}"
                cls._connection = None
                table = super()._get_connection()
                shared = connection()
                if cls.Meta.table_name not in shared._tables:  # noqa: SLF001 - it has no other way
                    shared.add_meta_table(table.get_meta_table())
                table.connection = shared
                cls._settings = settings.current()
            return super()._get_connection()

    @classmethod
    def key_names(cls) -> tuple[str, ...]:
        """Return the names of the key's attributes."""
        return tuple(name for name in (cls._hash_keyname, cls._range_keyname) if name)

    def key_values(self) -> list[Any]:
        """Return the values of the key's attributes."""
        return [self.attribute_values[name] for name in self.key_names()]

    @classmethod
    def from_raw_data(cls, data: dict[str, Any]) -> Self:
        row = super().from_raw_data(data)
        row.stored = dict(row.attribute_values)
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
