"""Counts on Spark."""

from pyspark.sql import SparkSession

from lamplighter_job import Context

_NUMBERS = 1_000_000


def count(spark: SparkSession, context: Context) -> None:
    """Count, and tell how far; it travels with the event of the outlet."""
    context.outlet("numbers").extra["counted"] = spark.range(_NUMBERS).count()
