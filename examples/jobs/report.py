"""Reports the best-selling products of each country and week, and how they did the week before.

Weeks start on Monday and are named by it. A run at its time reports the week before it. A run that
new revenue triggered reports the weeks of the days in the events, and the weeks after them, because
a week is compared with the one before. Only these weeks are overwritten, as Parquet and as one
small CSV file each; a week without revenue has no report.
"""

import datetime
from collections.abc import Iterable

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from jobs.shop import lake
from jobs.shop.run_facts import data_root, days_named
from jobs.shop.schemas import REVENUE, REVENUE_MONEY
from lamplighter_job import Context, SkipStep

BEST = 10
ONE_WEEK = datetime.timedelta(weeks=1)


def monday(day: datetime.date) -> datetime.date:
    """Return the first day of the week of a day."""
    return day - datetime.timedelta(days=day.weekday())


def days_of(weeks: Iterable[datetime.date]) -> list[datetime.date]:
    """Return every day of some weeks."""
    return [week + datetime.timedelta(days=day) for week in weeks for day in range(7)]


def sales_per_week(revenue: DataFrame) -> DataFrame:
    """Return the net revenue of each week, country and product, with that of the week before.

    The week before must be among the given days; a product not sold then has null there.
    """
    weeks = revenue.groupBy(F.trunc("day", "week").alias("week"), "country", "product_id").agg(
        F.sum("net").cast(REVENUE_MONEY).alias("revenue")
    )
    by_product = Window.partitionBy("country", "product_id").orderBy("week")
    # The row before may be of an older week.
    is_week_before = F.lag("week").over(by_product) == F.date_sub("week", ONE_WEEK.days)
    return weeks.withColumn(
        "revenue_before", F.when(is_week_before, F.lag("revenue").over(by_product))
    )


def best_sellers(sales: DataFrame, weeks: Iterable[datetime.date]) -> DataFrame:
    """Return the first products of each country in these weeks, ranked by revenue."""
    by_revenue = Window.partitionBy("week", "country").orderBy(F.desc("revenue"), "product_id")
    before = F.col("revenue_before")
    change = F.when(before > 0, F.round((F.col("revenue") - before) * 100 / before, 1))
    ranked = sales.where(F.col("week").isin(*weeks)).withColumn(
        "rank", F.row_number().over(by_revenue)
    )
    return ranked.where(F.col("rank") <= BEST).select(
        "country",
        "rank",
        "product_id",
        "revenue",
        "revenue_before",
        change.cast("DECIMAL(12,1)").alias("change_percent"),
        "week",
    )


def weeks_wanted(context: Context) -> list[datetime.date]:
    """Return the weeks that a run has to report."""
    days = days_named(context)
    if days:
        return sorted({monday(day) + later for day in days for later in (0 * ONE_WEEK, ONE_WEEK)})
    if context.triggering_asset_events:
        raise SkipStep("no event names a day")
    moment = context.data_interval_end or context.run_after
    return [monday(moment.astimezone(lake.UTC).date()) - ONE_WEEK]


def build(spark: SparkSession, context: Context) -> None:
    """Write the reports of the weeks that changed, and name them."""
    root = data_root(context)
    weeks = weeks_wanted(context)
    days = days_of(sorted({*weeks, *(week - ONE_WEEK for week in weeks)}))
    revenue = lake.about_days(spark, f"{root}/revenue", REVENUE, days)
    report = best_sellers(sales_per_week(revenue), weeks)
    lake.replace_partitions(report, f"{root}/report", ["week"])
    in_order = report.coalesce(1).sortWithinPartitions("week", "country", "rank")
    lake.replace_partitions(in_order, f"{root}/report_csv", ["week"], file_format="csv")
    context.outlet("weekly_report").extra["weeks"] = [str(week) for week in weeks]
