"""Makes and compares small tables, whatever the order of their rows."""

import json
import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the custom of PySpark

Rows = Sequence[tuple[Any, ...]]


def frame(spark: SparkSession, schema: str, rows: Rows) -> DataFrame:
    """Return a table with these columns; a row may leave out the last of them.

    The rows go through JSON texts: `createDataFrame` would start Python workers, which takes long.
    """
    names = re.findall(r"(\w+) [A-Z]", schema)
    texts = [json.dumps(dict(zip(names, map(_plain, row), strict=False))) for row in rows]
    lines = spark.range(1).select(F.explode(F.array(*map(F.lit, texts))).alias("text"))
    return lines.select(F.from_json("text", schema).alias("row")).select("row.*")


def _plain(value: object) -> object:
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value


def assert_table(found: DataFrame, schema: str, rows: Rows) -> None:
    """Insist that a table has exactly these columns, types and rows, in any order."""
    expected = frame(found.sparkSession, schema, rows)
    assert types_of(found) == types_of(expected)
    assert texts_of(found) == texts_of(expected)


def types_of(table: DataFrame) -> list[tuple[str, str]]:
    """Return the names and types of the columns."""
    return [(field.name, field.dataType.simpleString()) for field in table.schema]


def texts_of(table: DataFrame) -> list[str]:
    """Return the rows as texts, sorted: rows with nulls have no order of their own."""
    return sorted(str(tuple(row)) for row in table.collect())
