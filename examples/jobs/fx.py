"""Loads the exchange rates that were published in an interval, and says whose revenue they change.

A publication gives rates for one day and may correct an earlier one of the same day: readers take
the newest. A day without a rate of its own uses the last one of the `FALLBACK_DAYS` before. So a
publication concerns its day and as many days after it, and the outlet `fx` names them all: in
whatever order publications are loaded, each day is computed after the last that concerns it.

An interval loads what was published from its start until just before its end. A line without an
instant is rejected by each interval that has a part of the hour in which it arrived.
"""

import datetime
from collections.abc import Iterable
from decimal import Decimal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.shop import lake
from jobs.shop.rows import accepted, judged, newest, rejected
from jobs.shop.run_facts import data_root, interval_of
from jobs.shop.schemas import CURRENCIES, RATE
from lamplighter_job import Context, SkipStep

FALLBACK_DAYS = 2
UP_TO_FALLBACK = [datetime.timedelta(days=days) for days in range(FALLBACK_DAYS + 1)]
MAX_MILLIONTHS = 100_000_000_000
MILLIONTH = Decimal("0.000001")


def published_between(
    rates: DataFrame, start: datetime.datetime, end: datetime.datetime
) -> DataFrame:
    """Return the lines published from `start` until just before `end`, and those without a date."""
    at = F.col("published_at")
    is_inside = (at >= _without_zone(start)) & (at < _without_zone(end))
    return rates.where(at.isNull() | is_inside)


def judged_rates(rates: DataFrame) -> DataFrame:
    """Return raw rates with the reason to reject them, if any."""
    return judged(
        rates,
        {
            "no date": F.col("day").isNull() | F.col("published_at").isNull(),
            "bad rate": ~F.col("rate_millionths").between(1, MAX_MILLIONTHS),
            "unknown currency": ~F.col("currency").isin(*CURRENCIES),
        },
    )


def clean_rates(rates: DataFrame) -> DataFrame:
    """Return the newest valid rate of each day and currency."""
    order = F.desc("published_at"), F.desc("rate_millionths")
    rate = F.col("rate_millionths").cast("DECIMAL(12,0)") * F.lit(MILLIONTH)
    return newest(accepted(rates), ["day", "currency"], *order).select(
        "currency", rate.cast(RATE).alias("rate"), "published_at", "day"
    )


def days_concerned(published: Iterable[datetime.date]) -> list[datetime.date]:
    """Return the days that may use rates of these days."""
    return sorted({day + later for day in published for later in UP_TO_FALLBACK})


def days_usable(days: Iterable[datetime.date]) -> list[datetime.date]:
    """Return the days whose rates may be used for these days."""
    return sorted({day - earlier for day in days for earlier in UP_TO_FALLBACK})


def _without_zone(moment: datetime.datetime) -> Column:
    text = moment.astimezone(lake.UTC).strftime("%Y-%m-%d %H:%M:%S")
    return F.lit(text).cast("timestamp_ntz")


def load(spark: SparkSession, context: Context) -> None:
    """Write the valid and the rejected rates of the interval, and report the days."""
    root = data_root(context)
    start, end = interval_of(context)
    arrived = lake.arrived(spark, root, "fx", lake.hours_between(start, end))
    rates = judged_rates(published_between(arrived, start, end))
    if rates.isEmpty():
        raise SkipStep(f"no exchange rates were published from {start} to {end}")
    interval = lake.interval_name(start)
    rows = lake.replace_interval(root, "fx", interval, clean_rates(rates), rejected(rates))
    outlet = context.outlet("fx")
    outlet.extra["days"] = [str(day) for day in days_concerned(rows)]
    outlet.extra["rows"] = sum(rows.values())
