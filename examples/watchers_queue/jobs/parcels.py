"""Shows the parcels of which the run was told."""

import json

from pyspark.sql import SparkSession

from lamplighter_job import Context


def show(spark: SparkSession, context: Context) -> None:
    """Show the payload of each triggering event."""
    rows = [
        (asset, json.dumps(event.extra.get("payload")))
        for asset, events in context.triggering_asset_events.items()
        for event in events
    ]
    spark.createDataFrame(rows, "asset STRING, parcel STRING").show(truncate=False)
