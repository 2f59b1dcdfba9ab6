"""Cleans orders: a function that the runner calls with a Spark session and the run's context."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def without_duplicates(orders: DataFrame) -> DataFrame:
    """Return orders with a positive amount, each id once."""
    return orders.where(F.col("amount") > 0).dropDuplicates(["order_id"])


def clean(spark: SparkSession, context: Any) -> None:  # noqa: ARG001 - the runner passes both
    """Rewrite the staged orders without duplicates."""
    staged = spark.read.parquet("s3://lake/staged/orders")
    without_duplicates(staged).write.mode("overwrite").parquet("s3://lake/orders")
