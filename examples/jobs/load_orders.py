"""Stages what arrived in one interval: a plain PySpark script with arguments.

Orders and refunds go from JSON lines in the hours of their arrival to one Parquet folder for the
interval, with explicit types. A repeated run replaces that folder and no other.
"""

import argparse
import datetime

from pyspark.sql import SparkSession

from jobs.shop import lake

TABLES = ("orders", "refunds")


def load(spark: SparkSession, root: str, start: datetime.datetime, end: datetime.datetime) -> None:
    """Write what arrived from `start` until just before `end`."""
    if (start.minute, end.minute) != (0, 0):
        raise ValueError(f"files arrive by the hour; {start} to {end} is not made of whole hours")
    for table in TABLES:
        records = lake.arrived(spark, root, table, lake.hours_between(start, end))
        lake.replace_folder(records, f"{root}/staged/{table}/interval={lake.interval_name(start)}")


def main() -> None:
    """Read the arguments and load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="start", required=True, type=datetime.datetime.fromisoformat)
    parser.add_argument("--to", dest="end", required=True, type=datetime.datetime.fromisoformat)
    parser.add_argument("--root", required=True, help="the data root")
    options = parser.parse_args()
    spark = SparkSession.builder.appName("load_orders").getOrCreate()
    load(spark, options.root.rstrip("/"), options.start, options.end)


if __name__ == "__main__":
    main()
