"""Shows what watchers have told: one row for each event that the run consumes."""

import json

from pyspark.sql import SparkSession

from lamplighter_job import Context


def count(spark: SparkSession, context: Context) -> None:
    """Show the payload of each triggering event, and how many there are of each asset."""
    rows = [
        (asset, json.dumps(event.extra.get("payload")))
        for asset, events in context.triggering_asset_events.items()
        for event in events
    ]
    told = spark.createDataFrame(rows, "asset STRING, payload STRING")
    told.show(truncate=False)
    told.groupBy("asset").count().show()
