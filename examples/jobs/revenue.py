"""Builds revenue per day and currency from orders and exchange rates."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def revenue_per_day(orders: DataFrame, fx: DataFrame) -> DataFrame:
    """Return the revenue of each day in the base currency."""
    converted = orders.join(fx, on="currency", how="inner")
    return (
        converted.groupBy(F.to_date("placed_at").alias("day"))
        .agg(F.sum(F.col("amount") * F.col("rate")).alias("revenue"))
        .orderBy("day")
    )


def build(spark: SparkSession, context: Any) -> None:  # noqa: ARG001 - the runner passes both
    """Write the revenue table anew."""
    orders = spark.read.parquet("s3://lake/orders")
    fx = spark.read.parquet("s3://lake/fx")
    revenue_per_day(orders, fx).write.mode("overwrite").parquet("s3://lake/revenue")
