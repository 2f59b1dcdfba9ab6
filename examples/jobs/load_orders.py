"""Copies the raw orders of one interval into the lake: a plain PySpark script with arguments."""

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def placed_between(raw: DataFrame, start: str, end: str) -> DataFrame:
    """Return the orders placed from `start` until just before `end`."""
    placed_at = F.col("placed_at")
    return raw.where(
        (placed_at >= F.lit(start).cast("timestamp")) & (placed_at < F.lit(end).cast("timestamp"))
    )


def main() -> None:
    """Read, select and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="start", required=True)
    parser.add_argument("--to", dest="end", required=True)
    parser.add_argument("--source", default="s3://lake/raw/orders")
    parser.add_argument("--target", default="s3://lake/staged/orders")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("load_orders").getOrCreate()
    selected = placed_between(spark.read.parquet(options.source), options.start, options.end)
    # One folder per interval, so that a repeated run replaces its own result and no other.
    folder = options.start.replace(":", "")
    selected.write.mode("overwrite").parquet(f"{options.target}/interval={folder}")


if __name__ == "__main__":
    main()
