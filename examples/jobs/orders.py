"""Cleans what an interval has staged, and says which days it is about.

- Records that cannot be read, have no positive amount or name a currency that does not exist are
  kept in `rejected`, with the reason. Every record is judged by itself: a bad correction does not
  take the order away.
- Of each order the newest version stays, of each refund one copy.
- Valid records go to the day on which the order was *placed*, however late they arrive; a refund
  goes to the day of its order. Below the day every interval has a folder of its own and overwrites
  only that, so repeating it changes nothing; readers choose the newest version among intervals.
- The outlet `orders` tells these days: what consumers have to compute anew.
"""

from decimal import Decimal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.shop import lake
from jobs.shop.rows import accepted, judged, newest, rejected
from jobs.shop.run_facts import data_root, interval_of
from jobs.shop.schemas import CURRENCIES, MONEY
from lamplighter_job import Context, SkipStep

MAX_CENTS = 1_000_000_000
CENT = Decimal("0.01")


def judged_orders(orders: DataFrame) -> DataFrame:
    """Return raw orders with the reason to reject them, if any."""
    return judged(
        orders,
        {
            "no id": F.col("order_id").isNull() | F.col("version").isNull(),
            "no date": F.col("placed_at").isNull(),
            "bad amount": ~F.col("amount_cents").between(1, MAX_CENTS),
            "unknown currency": ~F.col("currency").isin(*CURRENCIES),
        },
    )


def judged_refunds(refunds: DataFrame) -> DataFrame:
    """Return raw refunds with the reason to reject them, if any."""
    return judged(
        refunds,
        {
            "no id": F.col("refund_id").isNull() | F.col("order_id").isNull(),
            "no date": F.col("order_placed_at").isNull(),
            "bad amount": ~F.col("amount_cents").between(1, MAX_CENTS),
        },
    )


def clean_orders(orders: DataFrame) -> DataFrame:
    """Return the newest valid version of each order, with the day on which it was placed."""
    return newest(accepted(orders), ["order_id"], F.desc("version")).select(
        "order_id",
        "version",
        "customer_id",
        "product_id",
        "country",
        "currency",
        "pieces",
        _in_decimals("amount_cents").alias("amount"),
        "placed_at",
        F.to_date("placed_at").alias("day"),
    )


def clean_refunds(refunds: DataFrame) -> DataFrame:
    """Return each valid refund once, with the day on which its order was placed."""
    return newest(accepted(refunds), ["refund_id"], F.desc("refunded_at")).select(
        "refund_id",
        "order_id",
        _in_decimals("amount_cents").alias("amount"),
        "refunded_at",
        F.to_date("order_placed_at").alias("day"),
    )


def _in_decimals(cents: str) -> Column:
    # Not a division, which would go through floating point.
    return (F.col(cents).cast("DECIMAL(12,0)") * F.lit(CENT)).cast(MONEY)


def clean(spark: SparkSession, context: Context) -> None:
    """Write the valid and the rejected records of the interval, and report the days."""
    root = data_root(context)
    start, _ = interval_of(context)
    interval = lake.interval_name(start)
    orders = judged_orders(lake.staged(spark, root, "orders", interval))
    refunds = judged_refunds(lake.staged(spark, root, "refunds", interval))
    if orders.isEmpty() and refunds.isEmpty():
        raise SkipStep(f"nothing arrived in the hour from {start}")
    written = [
        lake.replace_interval(root, "orders", interval, clean_orders(orders), rejected(orders)),
        lake.replace_interval(root, "refunds", interval, clean_refunds(refunds), rejected(refunds)),
    ]
    outlet = context.outlet("orders")
    outlet.extra["days"] = sorted({str(day) for rows in written for day in rows})
    outlet.extra["rows"] = sum(sum(rows.values()) for rows in written)
