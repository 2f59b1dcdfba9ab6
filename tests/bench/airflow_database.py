"""SQLite for Airflow with a meter on it: what the database itself costs, and what it is asked.

Owns: where the database begins, which is the `sqlite3` module: statements, rows, ends of
transactions. A database server would do this work in another process. What a driver spends to talk
to a server is thereby left out, which speaks for Airflow.
"""

import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, ParamSpec, Self, TypeVar

_PING = "SELECT 1"

P = ParamSpec("P")
R = TypeVar("R")


class Meter:
    """The CPU seconds inside the database, and the statements by their first word."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.statements: Counter[str] = Counter()

    def reset(self) -> None:
        """Forget everything so far."""
        self.seconds = 0.0
        self.statements.clear()

    def count(self, statement: str) -> None:
        """Count a statement, unless the pool only asks whether its connection still lives."""
        if statement != _PING:
            self.statements[statement.split(None, 1)[0].upper()] += 1

    def timed(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the answer of the database, and add the time it took."""
        started_at = time.process_time()
        try:
            return work(*args, **kwargs)
        finally:
            self.seconds += time.process_time() - started_at


METER = Meter()


class MeteredCursor(sqlite3.Cursor):
    """A cursor that reports to the meter."""

    def execute(self, sql: str, parameters: Any = (), /) -> Self:
        METER.count(sql)
        METER.timed(super().execute, sql, parameters)
        return self

    def executemany(self, sql: str, parameters: Any, /) -> Self:
        METER.count(sql)
        METER.timed(super().executemany, sql, parameters)
        return self

    def fetchone(self) -> Any:
        return METER.timed(super().fetchone)

    def fetchmany(self, *args: Any) -> list[Any]:
        return METER.timed(super().fetchmany, *args)

    def fetchall(self) -> list[Any]:
        return METER.timed(super().fetchall)

    def close(self) -> None:
        METER.timed(super().close)


class MeteredConnection(sqlite3.Connection):
    """A connection that reports to the meter."""

    def cursor(self, *_: Any) -> Any:
        return super().cursor(MeteredCursor)

    def commit(self) -> None:
        METER.timed(super().commit)

    def rollback(self) -> None:
        METER.timed(super().rollback)


# Airflow's setting `sql_alchemy_connect_args` names this.
CONNECT_ARGS = {"factory": MeteredConnection}
