"""The generator of the example shop: the same records from Python and Spark, as untidy as said."""

import json
import subprocess
import sys
from collections import Counter
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from jobs.shop.arithmetic import Numbers, draw
from jobs.shop.generate import land_with_python, land_with_spark, raw_lines
from jobs.shop.records import Line, Shop, lines, publications
from tests.spark.examples.shop_in_python import Line as RawLine
from tests.spark.examples.shop_in_python import reason

EXAMPLES = Path(__file__).parents[3] / "examples"
SHOP = Shop(orders=10_000, days=7, seed=1)


@pytest.fixture(scope="module", name="made")
def make_lines() -> list[Line]:
    """Return the lines of a shop of ten thousand orders."""
    return [*lines(SHOP, Numbers())]


def landed(root: Path) -> Counter[Line]:
    """Return every line below a root."""
    files = root.glob("raw/*/arrived=*/*.txt")
    return Counter(
        Line(file.parents[1].name, file.parent.name.removeprefix("arrived="), text)
        for file in files
        for text in file.read_text(encoding="utf-8").splitlines()
    )


def test_shop_made_twice_is_the_same() -> None:
    """The same seed gives the same records, and another seed gives others."""
    one, same, other = (list(lines(Shop(orders=50, seed=seed), Numbers())) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_shop_from_spark_equals_the_one_from_python(spark: SparkSession) -> None:
    """Spark and Python make the same lines for the same hours, whatever the session's zone."""
    shop = Shop(orders=2_000, days=3, seed=7, start=date(2026, 3, 7))  # clocks change in New York
    tables = {table: raw_lines(spark, shop, table) for table in ("orders", "refunds")}
    found = [
        Line(table, row["arrived"], row["value"])
        for table, frame in tables.items()
        for row in frame.collect()
    ]
    assert sorted(found) == sorted(lines(shop, Numbers()))


def test_shop_landed_by_spark_equals_the_one_from_python(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Both ways to write the files lead to the same folders with the same lines."""
    shop = Shop(orders=5, days=1)
    land_with_python(shop, tmp_path / "python")
    land_with_spark(spark, shop, str(tmp_path / "spark"))
    assert landed(tmp_path / "spark") == landed(tmp_path / "python")


def test_draws_for_large_numbers_are_the_same_in_spark(spark: SparkSession) -> None:
    """Far up in a shop of billions Spark draws what Python draws, without an overflow."""
    numbers = range(4_999_999_990, 5_000_000_000)
    frame = spark.range(numbers.start, numbers.stop, numPartitions=1)
    drawn = frame.select(draw(col("id"), seed=1, purpose="hour").alias("drawn")).collect()
    expected = [draw(number, seed=1, purpose="hour") for number in numbers]
    assert [row["drawn"] for row in drawn] == expected


def is_late(line: Line, record: dict[str, Any]) -> bool:
    """Say whether a line arrived later than the usual five minutes after the order."""
    hour = datetime.fromisoformat(f"{line.hour}:00:00")
    return hour - datetime.fromisoformat(record["placed_at"]) > timedelta(minutes=5)


def test_share_of_untidy_records_is_as_documented(made: list[Line]) -> None:
    """Duplicates, late orders, corrections and refunds are as frequent as the module says."""
    orders = [line for line in made if line.table == "orders" and reason(RawLine(*line)) is None]
    copies = Counter(line.text for line in orders)
    # Of each text the line that arrived first.
    firsts = [
        (line, json.loads(line.text))
        for line in {line.text: line for line in orders[::-1]}.values()
    ]
    shares = {
        "again": sum(number > 1 for number in copies.values()),
        "late": sum(is_late(line, record) for line, record in firsts if record["version"] == 1),
        "corrected": sum(record["version"] == 2 for _, record in firsts),
        "refunded": len({line.text for line in made if line.table == "refunds"}),
    }
    expected = {"again": 200, "late": 300, "corrected": 400, "refunded": 500}
    assert shares == pytest.approx(expected, rel=0.2)


def test_rejected_records_are_as_documented(made: list[Line]) -> None:
    """Each kind of bad record is there, and about as often as the module says."""
    reasons = Counter(reason(RawLine(*line)) for line in made if line.table == "orders")
    assert reasons["bad amount"] == pytest.approx(100, rel=0.3)
    assert reasons["unknown currency"] == pytest.approx(50, rel=0.3)
    assert reasons["unreadable"] == pytest.approx(30, rel=0.5)


def test_rates_are_published_at_their_local_times() -> None:
    """Both publications of a day carry its rates, an hour earlier in UTC when it is summer."""
    shop = Shop(orders=1, days=3, start=date(2026, 3, 28))
    instants = {json.loads(text)["published_at"] for _, _, text in publications(shop)}
    assert sorted(instants) == [
        "2026-03-28T05:00:00",
        "2026-03-28T15:30:00",
        "2026-03-29T04:00:00",
        "2026-03-29T14:30:00",
        "2026-03-30T04:00:00",
        "2026-03-30T14:30:00",
    ]


def test_shop_without_orders_is_refused() -> None:
    """A shop needs at least one order and one day."""
    with pytest.raises(ValueError, match="an order and a day"):
        Shop(orders=0)


def test_command_line_lands_files(tmp_path: Path) -> None:
    """The documented command writes the three raw tables, without Spark for a small shop."""
    command = [sys.executable, "-m", "jobs.shop.generate", "--root", str(tmp_path)]
    options = ["--orders", "20", "--days", "2", "--seed", "3", "--start", "2026-02-01"]
    subprocess.run([*command, *options], cwd=EXAMPLES, check=True)
    shop = Shop(orders=20, days=2, seed=3, start=date(2026, 2, 1))
    expected = Counter([*lines(shop, Numbers()), *publications(shop)])
    assert landed(tmp_path) == expected
