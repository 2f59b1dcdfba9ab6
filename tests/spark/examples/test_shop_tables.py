"""The example shop's tables: what each function makes of a few rows."""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.fx import clean_rates, days_concerned, days_usable, judged_rates, published_between
from jobs.orders import clean_orders, clean_refunds, judged_orders, judged_refunds
from jobs.quality import reasons
from jobs.report import best_sellers, days_of, monday, sales_per_week
from jobs.revenue import rates_per_day, revenue_per_day
from jobs.shop.lake import hours_between, interval_name
from jobs.shop.rows import rejected
from jobs.shop.schemas import CLEAN, QUALITY, RAW, REJECTED, REPORT, REVENUE
from tests.spark.examples.frames import assert_table, frame

Row = tuple[Any, ...]

NOON = datetime(2026, 1, 5, 12)
MONDAY = date(2026, 1, 5)
TUESDAY = date(2026, 1, 6)
# The folder of the interval is added by the write.
CLEAN_ORDERS = CLEAN["orders"].removesuffix(", interval STRING")
CLEAN_REFUNDS = CLEAN["refunds"].removesuffix(", interval STRING")
CLEAN_RATES = CLEAN["fx"].removesuffix(", interval STRING")


def raw_order(number: int | None, version: int, cents: int | None, currency: str = "EUR") -> Row:
    """Return a raw order of one piece, placed on Monday at noon."""
    return (number, version, 7, "P01", "DE", currency, 1, cents, NOON)


def order(number: int, version: int, amount: str, currency: str = "EUR") -> Row:
    """Return the same order when it is clean."""
    return (number, version, 7, "P01", "DE", currency, 1, Decimal(amount), NOON, MONDAY)


def test_orders_cleaned_are_valid_and_newest(spark: SparkSession) -> None:
    """Of each order the newest valid version stays, once, in decimals, with its day."""
    rows = [
        raw_order(1, 1, 1999),
        raw_order(1, 1, 1999),
        raw_order(1, 2, 2999),
        raw_order(2, 1, 100),
        raw_order(2, 2, -100),
        raw_order(3, 1, 0),
    ]
    cleaned = clean_orders(judged_orders(frame(spark, RAW["orders"], rows)))
    assert_table(cleaned, CLEAN_ORDERS, [order(1, 2, "29.99"), order(2, 1, "1.00")])


def test_orders_rejected_keep_record_and_reason(spark: SparkSession) -> None:
    """Each bad order is kept as text with the first reason that applies."""
    nothing = (None,) * 9
    rows = [
        raw_order(1, 1, 100),
        raw_order(2, 1, 0),
        raw_order(3, 1, None),
        raw_order(4, 1, 10**12),
        raw_order(5, 1, 100, "XXX"),
        raw_order(None, 1, 100),
        (6, 1, 7, "P01", "DE", "EUR", 1, 100, None),
        (*nothing, '{"order_id":7,"ver'),
    ]
    found = rejected(judged_orders(frame(spark, RAW["orders"], rows)))
    text = (
        '{{"order_id":{},"version":1,"customer_id":7,"product_id":"P01","country":"DE",'
        '"currency":"{}","pieces":1,"amount_cents":{},"placed_at":"2026-01-05T12:00:00.000"}}'
    )
    expected = [
        ("bad amount", text.format(2, "EUR", 0)),
        ("bad amount", text.format(3, "EUR", 0).replace('"amount_cents":0,', "")),
        ("bad amount", text.format(4, "EUR", 10**12)),
        ("unknown currency", text.format(5, "XXX", 100)),
        ("no id", text.format(0, "EUR", 100).replace('"order_id":0,', "")),
        ("no date", text.format(6, "EUR", 100).split(',"placed_at"')[0] + "}"),
        ("unreadable", '{"order_id":7,"ver'),
    ]
    assert_table(found, REJECTED, expected)


def test_refunds_cleaned_go_to_the_day_of_the_order(spark: SparkSession) -> None:
    """A refund counts once, for the day of its order; one without an amount is rejected."""
    later = datetime(2026, 1, 8, 9)
    rows = [(1, 10, NOON, 500, later), (1, 10, NOON, 500, later), (2, 11, NOON, 0, later)]
    judged = judged_refunds(frame(spark, RAW["refunds"], rows))
    assert_table(clean_refunds(judged), CLEAN_REFUNDS, [(1, 10, Decimal("5.00"), later, MONDAY)])


def test_rates_of_an_interval_end_just_before_its_end(spark: SparkSession) -> None:
    """An interval has what was published from its start until just before its end, the newest."""
    start, middle, end = (
        datetime.fromisoformat(f"2026-01-05T{hour}+00:00") for hour in ("05:00", "10:00", "15:30")
    )
    rows = [
        (MONDAY, currency, rate, moment.replace(tzinfo=None))
        for currency, rate, moment in [
            ("EUR", 930_000, start),
            ("EUR", 940_000, middle),
            ("EUR", 950_000, end),
            ("USD", 800_000, start),
            ("USD", 0, middle),
            ("JPY", 5_000, start),
        ]
    ]
    inside = published_between(frame(spark, RAW["fx"], rows), start, end)
    expected = [
        ("EUR", Decimal("0.94"), datetime(2026, 1, 5, 10), MONDAY),
        ("USD", Decimal("0.8"), datetime(2026, 1, 5, 5), MONDAY),
    ]
    assert_table(clean_rates(judged_rates(inside)), CLEAN_RATES, expected)


def test_rate_of_a_day_falls_back_two_days(spark: SparkSession) -> None:
    """A day has the newest rate of its own, else the last of two days before, else none."""
    rows = [
        ("EUR", Decimal("0.93"), datetime(2026, 1, 5, 5), date(2026, 1, 5), "a"),
        ("EUR", Decimal("0.94"), datetime(2026, 1, 5, 15, 30), date(2026, 1, 5), "b"),
        ("EUR", Decimal("0.95"), datetime(2026, 1, 6, 5), date(2026, 1, 6), "c"),
    ]
    days = [date(2026, 1, day) for day in (4, 5, 6, 8, 9)]
    expected = [
        (date(2026, 1, 5), "EUR", Decimal("0.94")),
        (date(2026, 1, 6), "EUR", Decimal("0.95")),
        (date(2026, 1, 8), "EUR", Decimal("0.95")),
    ]
    found = rates_per_day(frame(spark, CLEAN["fx"], rows), days)
    assert_table(found, "day DATE, currency STRING, rate DECIMAL(12,6)", expected)


def test_days_of_a_rate_and_back_again() -> None:
    """The days that use a rate, and those whose rates a day uses, are each other's mirror."""
    assert days_concerned([date(2026, 1, 5)]) == [date(2026, 1, day) for day in (5, 6, 7)]
    assert days_usable([date(2026, 1, 5)]) == [date(2026, 1, day) for day in (3, 4, 5)]


def test_revenue_converts_exactly_and_rounds_the_sum(spark: SparkSession) -> None:
    """Versions of all intervals compete, refunds count once, and only sums are rounded, half up."""
    orders = frame(
        spark,
        CLEAN["orders"],
        [
            (*order(1, 1, "10.00"), "a"),
            (*order(1, 2, "20.00"), "b"),
            (*order(2, 1, "0.01"), "a"),
            (*order(2, 1, "0.01"), "c"),
            (*order(3, 1, "5.00", "CHF"), "a"),
            (*order(4, 1, "9.00", "GBP"), "a"),
        ],
    )
    paid = Decimal("1.00")
    refunds = frame(
        spark,
        CLEAN["refunds"],
        [
            (9, 1, paid, NOON, MONDAY, "b"),
            (9, 1, paid, NOON, MONDAY, "c"),
            (8, 77, paid, NOON, MONDAY, "b"),
        ],
    )
    rates = frame(
        spark,
        "day DATE, currency STRING, rate DECIMAL(12,6)",
        [(MONDAY, "EUR", Decimal("0.9345")), (TUESDAY, "GBP", Decimal("1.1"))],
    )
    # 20.01 EUR are 18.699345 CHF, and 1 EUR is 0.9345 CHF.
    row = ("DE", "P01", 4, 1, 4, Decimal("23.70"), Decimal("0.93"), Decimal("22.77"), MONDAY)
    assert_table(revenue_per_day(orders, refunds, rates), REVENUE, [row])


def revenue_row(day: date, country: str, product: str, net: str) -> Row:
    """Return a row of the revenue with one order."""
    return (country, product, 1, 0, 1, Decimal(net), Decimal(0), Decimal(net), day)


def test_best_sellers_are_ranked_and_compared(spark: SparkSession) -> None:
    """Products are ranked within country and week; only the week just before is compared with."""
    rows = [revenue_row(MONDAY, "DE", f"P{number:02}", f"{100 - number}") for number in range(12)]
    rows += [
        revenue_row(date(2026, 1, 11), "DE", "P01", "51"),
        revenue_row(date(2026, 1, 4), "DE", "P01", "200"),
        revenue_row(date(2025, 12, 28), "DE", "P02", "1"),
        revenue_row(TUESDAY, "CH", "P05", "7"),
        revenue_row(TUESDAY, "CH", "P04", "7"),
        revenue_row(date(2026, 1, 1), "CH", "P04", "-1"),
    ]
    found = best_sellers(sales_per_week(frame(spark, REVENUE, rows)), [MONDAY])
    first = ("DE", 1, "P01", Decimal(150), Decimal(200), Decimal(-25), MONDAY)
    others = ["P00", *(f"P{number:02}" for number in range(2, 10))]
    expected = [
        ("CH", 1, "P04", Decimal(7), Decimal(-1), None, MONDAY),
        ("CH", 2, "P05", Decimal(7), None, None, MONDAY),
        first,
        *(
            ("DE", rank, product, Decimal(100 - int(product[1:])), None, None, MONDAY)
            for rank, product in enumerate(others, start=2)
        ),
    ]
    assert_table(found, REPORT, expected)


def test_rejected_are_counted_by_table_and_reason(spark: SparkSession) -> None:
    """Valid records are not counted; each table has its own reasons."""
    orders = [raw_order(1, 1, 1), raw_order(2, 1, 0), raw_order(3, 1, 0), raw_order(4, 1, 5, "?")]
    found = reasons(
        {
            "orders": judged_orders(frame(spark, RAW["orders"], orders)),
            "refunds": judged_refunds(frame(spark, RAW["refunds"], [(1, 2, NOON, 0, NOON)])),
        }
    )
    expected = [
        ("orders", "bad amount", 2),
        ("orders", "unknown currency", 1),
        ("refunds", "bad amount", 1),
    ]
    assert_table(found, QUALITY, expected)


@pytest.mark.parametrize(
    ("start", "end", "hours"),
    [
        ("2026-01-01T00:00+01:00", "2026-01-01T01:00+01:00", ["2025-12-31T23"]),
        ("2026-01-01T22:30+00:00", "2026-01-02T00:00+00:00", ["2026-01-01T22", "2026-01-01T23"]),
        ("2026-01-01T22:00+00:00", "2026-01-01T22:00+00:00", []),
    ],
)
def test_hours_of_an_interval_are_in_utc(start: str, end: str, hours: list[str]) -> None:
    """An interval of any zone touches hours in UTC, with those it has only a part of."""
    moments = datetime.fromisoformat(start), datetime.fromisoformat(end)
    assert hours_between(*moments) == hours


def test_interval_is_named_by_its_start_in_utc() -> None:
    """The same interval has the same name, whatever zone its start is told in."""
    for text in ("2026-01-01T06:00+01:00", "2026-01-01T05:00+00:00"):
        assert interval_name(datetime.fromisoformat(text)) == "2026-01-01T0500"


def test_week_starts_on_monday() -> None:
    """Sunday belongs to the Monday before it, and a week has seven days."""
    assert [monday(date(2026, 1, day)) for day in (4, 5, 11)] == [
        date(2025, 12, 29),
        MONDAY,
        MONDAY,
    ]
    assert days_of([MONDAY])[::6] == [MONDAY, date(2026, 1, 11)]
