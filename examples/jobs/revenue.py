"""Computes the revenue of the days that changed, in Swiss francs.

The days are those that the triggering events of `orders` and `fx` name, each once; they alone are
overwritten. Every day is computed from all that is known about it: the newest version of each
order, whichever interval brought it; all refunds of these orders, whenever they came; and the
newest exchange rate of the day or, without one, the last of the two days before. An order whose
currency has no such rate counts as unpriced and adds nothing, until a later run knows better.

So late orders, corrections, refunds and rates all lead to the same table, in any order. Two runs at
once could write an older view last; the DAG therefore has one run at a time.
"""

import datetime
from collections.abc import Collection
from decimal import Decimal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.fx import FALLBACK_DAYS, days_usable
from jobs.shop import lake
from jobs.shop.rows import newest
from jobs.shop.run_facts import data_root, days_named
from jobs.shop.schemas import BASE_CURRENCY, CLEAN, RATE, REVENUE_MONEY
from lamplighter_job import Context, SkipStep


def newest_orders(orders: DataFrame) -> DataFrame:
    """Return each order once, although several intervals may have brought it."""
    return newest(orders, ["order_id"], F.desc("version"))


def refunds_per_order(refunds: DataFrame) -> DataFrame:
    """Return what was paid back for each order, counting each refund once."""
    once = newest(refunds, ["refund_id"], F.desc("refunded_at"))
    return once.groupBy("order_id").agg(F.sum("amount").alias("paid_back"))


def rates_per_day(rates: DataFrame, days: Collection[datetime.date]) -> DataFrame:
    """Return the rate of each currency on each of these days that has one."""
    last_day = F.date_add("day", FALLBACK_DAYS)
    usable = rates.withColumn("for_day", F.explode(F.sequence("day", last_day)))
    wanted = usable.where(F.col("for_day").isin(*days))
    order = F.desc("day"), F.desc("published_at"), F.desc("rate")
    chosen = newest(wanted, ["for_day", "currency"], *order)
    return chosen.select(F.col("for_day").alias("day"), "currency", "rate")


def priced(orders: DataFrame, rates: DataFrame) -> DataFrame:
    """Return the orders with the rate of their day and currency, or null if there is none."""
    of_base = F.when(F.col("currency") == BASE_CURRENCY, F.lit(Decimal(1)).cast(RATE))
    with_rates = orders.join(F.broadcast(rates), on=["day", "currency"], how="left")
    return with_rates.withColumn("rate", F.coalesce(of_base, "rate"))


def revenue_per_day(orders: DataFrame, refunds: DataFrame, rates: DataFrame) -> DataFrame:
    """Return orders, pieces and money of each day, country and product.

    Every amount is converted exactly; only the sums are rounded, half up.
    """
    sold = priced(newest_orders(orders), rates).join(
        refunds_per_order(refunds), on="order_id", how="left"
    )
    sums = sold.groupBy("day", "country", "product_id").agg(
        F.count("*").alias("orders"),
        F.count_if(F.col("rate").isNull()).alias("unpriced_orders"),
        F.sum("pieces").alias("pieces"),
        _converted("amount").alias("gross"),
        _converted("paid_back").alias("refunded"),
    )
    net = F.col("gross") - F.col("refunded")
    return sums.select(
        "country",
        "product_id",
        "orders",
        "unpriced_orders",
        "pieces",
        "gross",
        "refunded",
        net.cast(REVENUE_MONEY).alias("net"),
        "day",
    )


def _converted(amount: str) -> Column:
    total = F.sum(F.col(amount).cast("DECIMAL(18,2)") * F.col("rate"))
    return F.coalesce(F.round(total, 2), F.lit(Decimal(0))).cast(REVENUE_MONEY)


def build(spark: SparkSession, context: Context) -> None:
    """Write the revenue of the days that changed, and report them."""
    root = data_root(context)
    days = days_named(context)
    if not days:
        raise SkipStep("no event names a day")
    revenue = revenue_per_day(
        lake.about_days(spark, f"{root}/clean/orders", CLEAN["orders"], days),
        lake.about_days(spark, f"{root}/clean/refunds", CLEAN["refunds"], days),
        rates_per_day(
            lake.about_days(spark, f"{root}/clean/fx", CLEAN["fx"], days_usable(days)), days
        ),
    )
    lake.replace_partitions(revenue, f"{root}/revenue", ["day"])
    outlet = context.outlet("revenue")
    outlet.extra["days"] = [str(day) for day in days]
