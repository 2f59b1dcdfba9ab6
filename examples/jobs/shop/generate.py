"""Lands the raw files of a made-up web shop, of any size, from a seed.

    python -m jobs.shop.generate --root DIR --orders 10000 --days 7 --seed 1 --start 2026-01-01

Below the root, `raw/<orders|refunds|fx>/arrived=YYYY-MM-DDTHH/` has JSON lines by the hour in
which they arrived, in UTC. Small shops in a folder are written by Python alone, large ones and
those in S3 with Spark; the lines are the same.
"""

import argparse
import datetime
from collections import defaultdict
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.shop.arithmetic import Columns, Numbers
from jobs.shop.records import BROKEN_AFTER, Delivery, Shop, deliveries, lines, publications

SMALL = 100_000
ORDERS_PER_FILE = 1_000_000
LONGEST = 10_000  # characters: longer than any line
TABLES = ("orders", "refunds")


def land_with_python(shop: Shop, root: Path) -> None:
    """Write all raw files into a folder, without Spark."""
    files: dict[Path, list[str]] = defaultdict(list)
    for table, hour, text in (*lines(shop, Numbers()), *publications(shop)):
        files[root / "raw" / table / f"arrived={hour}"].append(text + "\n")
    for folder, texts in files.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "part-00000.txt").write_text("".join(texts), encoding="utf-8")


def land_with_spark(spark: SparkSession, shop: Shop, root: str) -> None:
    """Write all raw files below any root that Spark can write to."""
    for table in TABLES:
        _land(raw_lines(spark, shop, table), root, table)
    # One literal for all: there are few rates, and no worker has to be started for them.
    texts = F.lit("\n".join(line.text for line in publications(shop)))
    rates = spark.range(1, numPartitions=1).select(F.explode(F.split(texts, "\n")).alias("value"))
    published_at = F.get_json_object("value", "$.published_at")
    _land(rates.withColumn("arrived", F.substring(published_at, 1, 13)), root, "fx")


def raw_lines(spark: SparkSession, shop: Shop, table: str) -> DataFrame:
    """Return every line of a table with the hour in which it arrives."""
    on = Columns()
    # One row for each order and not a union of tables, which would land in as many more files.
    possible = F.array(
        *(
            F.when(
                delivery.happens,
                F.struct(
                    _line(delivery).alias("value"), _hour(on, shop, delivery).alias("arrived")
                ),
            )
            for delivery in deliveries(on, shop, F.col("id"))
            if delivery.table == table
        )
    )
    orders = spark.range(shop.orders, numPartitions=2 + shop.orders // ORDERS_PER_FILE)
    # Later columns of a `select` may use earlier ones; a `withColumn` for each takes seconds.
    facts = orders.select("id", *(value.alias(name) for name, value in on.kept.items()))
    return facts.select(F.inline(possible)).where(F.col("value").isNotNull())


def _line(delivery: Delivery) -> Column:
    columns = [
        (value if isinstance(value, Column) else F.lit(value)).alias(name)
        for name, value in delivery.fields.items()
    ]
    length = F.when(delivery.is_broken, BROKEN_AFTER).otherwise(LONGEST)
    return F.substr(F.to_json(F.struct(*columns)), F.lit(1), length)


def _hour(on: Columns, shop: Shop, delivery: Delivery) -> Column:
    return F.substring(on.instant(shop.start, delivery.after), 1, 13)


def _land(arriving: DataFrame, root: str, table: str) -> None:
    arriving.write.mode("overwrite").partitionBy("arrived").text(f"{root}/raw/{table}")


def main() -> None:
    """Read the command line and write."""
    parser = argparse.ArgumentParser(prog="jobs.shop.generate", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--root", required=True, help="a folder, or s3://bucket/prefix")
    parser.add_argument("--orders", type=int, default=10_000)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--start", type=datetime.date.fromisoformat, default=datetime.date(2026, 1, 1)
    )
    options = parser.parse_args()
    shop = Shop(options.orders, options.days, options.seed, options.start)
    if shop.orders <= SMALL and "://" not in options.root:
        land_with_python(shop, Path(options.root))
        return
    spark = SparkSession.builder.appName("generate").getOrCreate()
    land_with_spark(spark, shop, options.root.rstrip("/"))
    spark.stop()


if __name__ == "__main__":
    main()
