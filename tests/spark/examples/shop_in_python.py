"""What the shop's tables must hold, computed from the raw lines without Spark.

Owns: a second opinion, written from the rules in the modules' docstrings. Refuses: sharing code
with the jobs. Everything is a whole number: cents, and millionths of a franc.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

KNOWN = {"CHF", "EUR", "GBP", "USD"}
Record = dict[str, Any]
Judge = Callable[[Record], str | None]


class Line(NamedTuple):
    """One raw line: its table, the hour in which it arrived, and its text."""

    table: str
    hour: str
    text: str


def parsed(text: str) -> Record | None:
    """Return a line as a record, or nothing if it is broken."""
    try:
        record: Record = json.loads(text)
    except ValueError:
        return None
    return record


def fault_of_order(order: Record) -> str | None:
    """Return why an order is rejected, if it is."""
    if order["amount_cents"] <= 0:
        return "bad amount"
    return None if order["currency"] in KNOWN else "unknown currency"


def fault_of_refund(refund: Record) -> str | None:
    """Return why a refund is rejected, if it is."""
    return "bad amount" if refund["amount_cents"] <= 0 else None


def fault_of_rate(rate: Record) -> str | None:
    """Return why a rate is rejected, if it is."""
    return "bad rate" if rate["rate_millionths"] <= 0 else None


FAULTS: dict[str, Judge] = {
    "orders": fault_of_order,
    "refunds": fault_of_refund,
    "fx": fault_of_rate,
}


def reason(line: Line) -> str | None:
    """Return why a line is rejected, if it is."""
    record = parsed(line.text)
    return "unreadable" if record is None else FAULTS[line.table](record)


def rejected_in(lines: Iterable[Line], hours: Iterable[str]) -> Counter[tuple[str, str]]:
    """Return how many lines of these hours are rejected, by table and reason."""
    among = set(hours)
    found = ((line.table, reason(line)) for line in lines if line.hour in among)
    return Counter((table, why) for table, why in found if why)


@dataclass(frozen=True)
class Sales:
    """One row of the revenue: counts, and money in cents."""

    orders: int = 0
    unpriced: int = 0
    pieces: int = 0
    gross: int = 0
    refunded: int = 0

    @property
    def net(self) -> int:
        """What remains."""
        return self.gross - self.refunded


Key = tuple[date, str, str]


def revenue(lines: Iterable[Line], hours: Iterable[str], published_until: str) -> dict[Key, Sales]:
    """Return the sales of each day, country and product.

    Known are the orders and refunds of these hours, and the rates published before an instant.
    """
    among = set(hours)
    good = [(line, json.loads(line.text)) for line in lines if reason(line) is None]
    orders: dict[int, Record] = {}
    paid_back: dict[int, int] = {}
    rates: dict[tuple[str, date], tuple[str, int]] = {}
    for line, record in good:
        if line.table == "fx" and record["published_at"] < published_until:
            place = record["currency"], date.fromisoformat(record["day"])
            new = record["published_at"], record["rate_millionths"]
            rates[place] = max(rates.get(place, new), new)
        elif line.table == "orders" and line.hour in among:
            number = record["order_id"]
            orders[number] = max(orders.get(number, record), record, key=lambda r: r["version"])
        elif line.table == "refunds" and line.hour in among:
            paid_back[record["order_id"]] = record["amount_cents"]
    return _sums(orders.values(), paid_back, rates)


def _sums(
    orders: Iterable[Record],
    paid_back: dict[int, int],
    rates: dict[tuple[str, date], tuple[str, int]],
) -> dict[Key, Sales]:
    groups: dict[Key, list[Record]] = defaultdict(list)
    for order in orders:
        day = datetime.fromisoformat(order["placed_at"]).date()
        groups[day, order["country"], order["product_id"]].append(order)
    sums = {}
    for key, members in groups.items():
        gross = refunded = unpriced = 0
        for order in members:
            rate = _rate(order["currency"], key[0], rates)
            unpriced += rate is None
            gross += order["amount_cents"] * (rate or 0)
            refunded += paid_back.get(order["order_id"], 0) * (rate or 0)
        pieces = sum(order["pieces"] for order in members)
        sums[key] = Sales(len(members), unpriced, pieces, _cents(gross), _cents(refunded))
    return sums


def _rate(currency: str, day: date, rates: dict[tuple[str, date], tuple[str, int]]) -> int | None:
    if currency == "CHF":
        return 1_000_000
    for earlier in range(3):
        found = rates.get((currency, day - timedelta(days=earlier)))
        if found:
            return found[1]
    return None


def _cents(millionths: int) -> int:
    return (millionths + 500_000) // 1_000_000


def best_products(sales: dict[Key, Sales], week: date) -> Iterator[tuple[Any, ...]]:
    """Yield country, rank, product, revenue, that of the week before, and the change in percent."""
    now, before = (_week(sales, monday) for monday in (week, week - timedelta(weeks=1)))
    for country in sorted({country for country, _ in now}):
        products = [
            (-cents, product) for (place, product), cents in now.items() if place == country
        ]
        for rank, (minus_cents, product) in enumerate(sorted(products)[:10], start=1):
            old = before.get((country, product))
            yield country, rank, product, -minus_cents, old, _change(-minus_cents, old)


def _week(sales: dict[Key, Sales], monday: date) -> dict[tuple[str, str], int]:
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for (day, country, product), row in sales.items():
        if monday <= day < monday + timedelta(weeks=1):
            sums[country, product] += row.net
    return dict(sums)


def _change(new: int, old: int | None) -> Decimal | None:
    if old is None or old <= 0:
        return None
    tenths = Fraction(1_000 * (new - old), old)
    away = (abs(tenths) + Fraction(1, 2)).__floor__()
    return Decimal(away if tenths >= 0 else -away).scaleb(-1)


def hours(start: datetime, end: datetime) -> list[str]:
    """Return the hours from `start` until just before `end`."""
    count = int((end - start) / timedelta(hours=1))
    return [(start + timedelta(hours=n)).strftime("%Y-%m-%dT%H") for n in range(count)]
