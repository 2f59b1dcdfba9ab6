"""Adds up the revenue of orders, on Spark."""

from pyspark.sql import SparkSession

from lamplighter_job import Context

_PRICE = 20


def add_up(spark: SparkSession, context: Context) -> None:
    """Add up what the orders brought that the triggering events tell of."""
    events = context.triggering_asset_events.get("sales", [])
    orders = sum(event.extra.get("orders", 0) for event in events)
    context.output["revenue"] = spark.range(orders).count() * _PRICE
