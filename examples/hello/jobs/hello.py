"""Counts on Spark, and greets whoever waits for it."""

from pyspark.sql import SparkSession

from lamplighter_job import Context

_NUMBERS = 1_000_000


def count(spark: SparkSession, context: Context) -> None:
    """Count, and tell how far; it travels with the event of the outlet."""
    context.outlet("numbers").extra["counted"] = spark.range(_NUMBERS).count()


def greet(spark: SparkSession, context: Context) -> None:
    """Show what was counted in the log of the job."""
    told = context.triggering_asset_events["numbers"]
    rows = [(event.event_id, event.extra.get("counted")) for event in told]
    spark.createDataFrame(rows, "event STRING, counted LONG").show(truncate=False)
