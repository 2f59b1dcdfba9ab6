"""Counts what was rejected on one day, by table and reason.

It judges the raw records of the day again, with the rules of the other jobs, instead of reading
their `rejected` folders: so it does not matter whether the day's last hourly runs are through.
"""

from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.fx import judged_rates
from jobs.orders import judged_orders, judged_refunds
from jobs.shop import lake
from jobs.shop.rows import REASON
from jobs.shop.run_facts import data_root, interval_of
from lamplighter_job import Context

JUDGES = {"orders": judged_orders, "refunds": judged_refunds, "fx": judged_rates}


def reasons(judged_tables: dict[str, DataFrame]) -> DataFrame:
    """Return how many records of each table were rejected for each reason."""
    named = [
        judged.where(F.col(REASON).isNotNull()).select(F.lit(table).alias("table"), REASON)
        for table, judged in judged_tables.items()
    ]
    counts = reduce(DataFrame.unionByName, named).groupBy("table", REASON)
    return counts.agg(F.count("*").alias("records")).orderBy("table", REASON)


def report(spark: SparkSession, context: Context) -> None:
    """Write the counts of the day that the interval is."""
    root = data_root(context)
    start, end = interval_of(context)
    hours = lake.hours_between(start, end)
    tables = {
        table: judge(lake.arrived(spark, root, table, hours)) for table, judge in JUDGES.items()
    }
    day = start.astimezone(lake.UTC).date()
    lake.replace_folder(reasons(tables).coalesce(1), f"{root}/quality/day={day}")
