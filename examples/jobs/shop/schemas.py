"""The columns of every table, in Spark's DDL; whatever a file says, these types are read.

Instants have no zone and are in UTC, so that no result depends on the zone of a session. Money is
in whole cents in raw files and in decimals elsewhere, never in floating point.
"""

BASE_CURRENCY = "CHF"
CURRENCIES = ("CHF", "EUR", "GBP", "USD")

# A line that cannot be read is kept as a text in this column.
UNREADABLE = "unreadable"

MONEY = "DECIMAL(12,2)"
RATE = "DECIMAL(12,6)"
REVENUE_MONEY = "DECIMAL(18,2)"

RAW = {
    "orders": (
        "order_id LONG, version INT, customer_id LONG, product_id STRING, country STRING,"
        " currency STRING, pieces INT, amount_cents LONG, placed_at TIMESTAMP_NTZ,"
        f" {UNREADABLE} STRING"
    ),
    "refunds": (
        "refund_id LONG, order_id LONG, order_placed_at TIMESTAMP_NTZ, amount_cents LONG,"
        f" refunded_at TIMESTAMP_NTZ, {UNREADABLE} STRING"
    ),
    "fx": (
        "day DATE, currency STRING, rate_millionths LONG, published_at TIMESTAMP_NTZ,"
        f" {UNREADABLE} STRING"
    ),
}

# The last two columns are the names of folders: the day that a record is about, and the interval
# of the run that wrote it.
CLEAN = {
    "orders": (
        "order_id LONG, version INT, customer_id LONG, product_id STRING, country STRING,"
        f" currency STRING, pieces INT, amount {MONEY}, placed_at TIMESTAMP_NTZ, day DATE,"
        " interval STRING"
    ),
    "refunds": (
        f"refund_id LONG, order_id LONG, amount {MONEY}, refunded_at TIMESTAMP_NTZ, day DATE,"
        " interval STRING"
    ),
    "fx": f"currency STRING, rate {RATE}, published_at TIMESTAMP_NTZ, day DATE, interval STRING",
}

REJECTED = "reason STRING, record STRING"

REVENUE = (
    "country STRING, product_id STRING, orders LONG, unpriced_orders LONG, pieces LONG,"
    f" gross {REVENUE_MONEY}, refunded {REVENUE_MONEY}, net {REVENUE_MONEY}, day DATE"
)

REPORT = (
    f"country STRING, rank INT, product_id STRING, revenue {REVENUE_MONEY},"
    f" revenue_before {REVENUE_MONEY}, change_percent DECIMAL(12,1), week DATE"
)

QUALITY = "table STRING, reason STRING, records LONG"
