"""The few operations that the generator needs, on plain numbers and on columns of Spark.

The rules in `records.py` are written once, against these operations. Both kinds work on whole
numbers below 2**63 and on texts only, so a record is the same to the letter, whoever makes it.
"""

import datetime
import zlib
from collections.abc import Sequence
from typing import Any, Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F

# Primes below 2**31, so that no product leaves 63 bits.
PRIME, OTHER_PRIME = 2_147_483_647, 1_500_450_271

# A whole number, a truth or a text in Python; in Spark, a column of them.
Value = Any


def draw(number: Value, *, seed: int, purpose: str) -> Value:
    """Return a number below 2**31 that looks random and is the same for the same arguments."""
    factor, summand, last = (zlib.crc32(f"{seed} {purpose} {n}".encode()) for n in range(3))
    mixed = (number % PRIME * (factor % PRIME) + summand) % PRIME
    # The square is what makes the draws for two purposes unlike each other.
    mixed = (mixed * mixed + summand) % PRIME
    return (mixed * (last % PRIME) + factor) % OTHER_PRIME


class Arithmetic(Protocol):
    """What Python and Spark write differently."""

    def keep(self, name: str, value: Value) -> Value:
        """Return a value that will be used several times; the same name means the same value."""
        ...

    def quotient(self, dividend: Value, divisor: int) -> Value:
        """Return the whole part of a division of numbers that are not negative."""
        ...

    def pick(self, table: Sequence[Any], index: Value) -> Value:
        """Return the entry of a table at an index, counted from zero."""
        ...

    def either(self, condition: Value, yes: Value, no: Value) -> Value:
        """Return one of two values."""
        ...

    def instant(self, start: datetime.date, seconds: Value) -> Value:
        """Return the text of the instant that many seconds after midnight of a day, in UTC."""
        ...


class Numbers:
    """Plain Python."""

    def keep(self, name: str, value: Any) -> Any:  # noqa: ARG002 - Python keeps its own
        return value

    def quotient(self, dividend: int, divisor: int) -> int:
        return dividend // divisor

    def pick(self, table: Sequence[Any], index: int) -> Any:
        return table[index]

    def either(self, condition: bool, yes: Any, no: Any) -> Any:
        return yes if condition else no

    def instant(self, start: datetime.date, seconds: int) -> str:
        midnight = datetime.datetime.combine(start, datetime.time())
        return (midnight + datetime.timedelta(seconds=seconds)).isoformat()


class Columns:
    """Spark's built-in functions.

    An expression that is used twice is written out twice, and soon too large for Spark to compile.
    So what is kept becomes a column of its own: add `kept` to a table, in order, before the rest.
    """

    def __init__(self) -> None:
        self.kept: dict[str, Column] = {}

    def keep(self, name: str, value: Column) -> Column:
        self.kept.setdefault(name, value)
        return F.col(name)

    def quotient(self, dividend: Column, divisor: int) -> Column:
        # Without a remainder the division of doubles is exact.
        return ((dividend - dividend % divisor) / divisor).cast("long")

    def pick(self, table: Sequence[Any], index: Column) -> Column:
        # As text, because each literal of its own would be a call to Spark.
        entries = F.expr(f"array({', '.join(map(repr, table))})")
        return F.element_at(entries, (index + 1).cast("int"))

    def either(self, condition: Column, yes: Value, no: Value) -> Column:
        return F.when(condition, yes).otherwise(no)

    def instant(self, start: datetime.date, seconds: Column) -> Column:
        # A timestamp without a zone: the session's zone must not shift it.
        midnight = F.lit(f"{start} 00:00:00").cast("timestamp_ntz")
        text = (midnight + F.make_dt_interval(secs=seconds)).cast("string")
        return F.translate(text, " ", "T")
