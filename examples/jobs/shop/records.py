"""The records of a made-up web shop: the number of an order and a seed decide everything.

What arrives is as untidy as in life:

- 3 % of the orders arrive late, by up to two days; all others within five minutes.
- 2 % of the orders and refunds are delivered twice.
- 4 % of the orders are corrected later: the same order again, as version 2.
- Of the first versions 0.5 % have no amount, 0.5 % a negative one, 0.5 % a currency that does not
  exist, and 0.3 % are broken lines.
- 5 % of the orders are refunded, half a day to five and a half days after they were placed: all of
  it or one piece; 1 % of the refunds have no amount.
- Exchange rates are published at 06:00 and 16:30 in Zurich for that day, and the second corrects
  the first. 4 % of them are missing, 1 % are zero.

Money is in whole cents, rates in whole millionths, instants are texts in UTC.
"""

import datetime
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from zoneinfo import ZoneInfo

from jobs.shop.arithmetic import Arithmetic, Value, draw

MINUTE, HOUR, DAY = 60, 3_600, 86_400
LATEST = 2 * DAY

# Entries that stand here more often are drawn more often.
MARKETS = ("CH", "CH", "CH", "DE", "DE", "DE", "AT", "FR", "FR", "IT", "GB", "GB", "US")
MONEY_OF = {"CH": "CHF", "GB": "GBP", "US": "USD"}
CURRENCIES_OF_MARKETS = tuple(MONEY_OF.get(country, "EUR") for country in MARKETS)
NO_CURRENCY = "XXX"
PRODUCTS = tuple(f"P{number:02}" for number in range(30))
PRICES = tuple(490 + 735 * number for number in range(30))
SHELF = tuple(number for number in range(30) for _ in range(1 + (30 - number) // 6))
BUSY_HOURS = (*range(24), *range(7, 23), *range(10, 22), *range(17, 22))

RATE_ZONE = ZoneInfo("Europe/Zurich")
PUBLISHED = (datetime.time(6), datetime.time(16, 30))
RATES = {"EUR": 935_000, "GBP": 1_080_000, "USD": 795_000}
# In a hundred: those below are missing, and one is zero.
MISSING_RATES = 4
ZERO_RATE = 4

BROKEN_AFTER = 40  # characters


@dataclass(frozen=True)
class Shop:
    """How much there is of everything; the same shop always has the same records."""

    orders: int
    days: int = 7
    seed: int = 1
    start: datetime.date = datetime.date(2026, 1, 1)

    def __post_init__(self) -> None:
        if self.orders < 1 or self.days < 1:
            raise ValueError(f"a shop needs an order and a day at least, not {self}")


class Delivery(NamedTuple):
    """One line that arrives, if it happens; `after` is in seconds since the shop's start."""

    table: str
    happens: Value
    after: Value
    is_broken: Value
    fields: dict[str, Value]


class _Order:
    """The facts about one order, as they are before anything goes wrong."""

    def __init__(self, on: Arithmetic, shop: Shop, number: Value) -> None:
        self.on, self.shop, self.number = on, shop, number
        day = on.quotient(number * shop.days, shop.orders)
        hour = on.pick(BUSY_HOURS, self.dice("hour", len(BUSY_HOURS)))
        self.placed = on.keep("placed", day * DAY + hour * HOUR + self.dice("second", HOUR))
        self.market = self.dice("market", len(MARKETS))
        self.currency = on.pick(CURRENCIES_OF_MARKETS, self.market)
        self.product = on.keep("product", on.pick(SHELF, self.dice("shelf", len(SHELF))))
        self.price = on.keep("price", on.pick(PRICES, self.product))
        self.pieces = 1 + self.dice("pieces", 3)
        delay = self.dice("delay", 5 * MINUTE)
        late = HOUR + self.dice("late", LATEST - HOUR)
        arrives = self.placed + on.either(self.chance("is late", 30), late, delay)
        self.arrives = on.keep("arrives", arrives)

    def dice(self, purpose: str, sides: int) -> Value:
        """Return a number from zero to just below `sides`."""
        drawn = draw(self.number, seed=self.shop.seed, purpose=purpose) % sides
        return self.on.keep(f"dice for {purpose}", drawn)

    def chance(self, purpose: str, per_mille: int) -> Value:
        """Say whether something happens that happens so often."""
        return self.dice(purpose, 1_000) < per_mille

    def record(self, *, version: int, **changes: Value) -> dict[str, Value]:
        """Return the order as the shop writes it down, but for some changes."""
        pieces = changes.get("pieces", self.pieces)
        return {
            "order_id": self.number,
            "version": version,
            "customer_id": self.dice("customer", 1 + self.shop.orders // 4),
            "product_id": self.on.pick(PRODUCTS, self.product),
            "country": self.on.pick(MARKETS, self.market),
            "currency": self.currency,
            "pieces": pieces,
            "amount_cents": pieces * self.price,
            "placed_at": self.on.instant(self.shop.start, self.placed),
            **changes,
        }


def deliveries(on: Arithmetic, shop: Shop, number: Value) -> Iterator[Delivery]:
    """Yield all that can arrive because of one order, which are five lines at most."""
    order = _Order(on, shop, number)
    yield from _order_deliveries(order)
    yield from _refund_deliveries(order)


def _order_deliveries(order: _Order) -> Iterator[Delivery]:
    always, never = order.number >= 0, order.number < 0
    amount = order.pieces * order.price
    wrong_sign = order.on.either(order.chance("is negative", 5), amount * -1, amount)
    first = order.record(
        version=1,
        amount_cents=order.on.either(order.chance("has no amount", 5), 0, wrong_sign),
        currency=order.on.either(order.chance("has no currency", 5), NO_CURRENCY, order.currency),
    )
    is_broken = order.chance("is broken", 3)
    yield Delivery("orders", always, order.arrives, is_broken, first)
    again = order.arrives + 1 + order.dice("again", 2 * HOUR)
    yield Delivery("orders", order.chance("is sent again", 20), again, is_broken, first)
    second = order.record(version=2, pieces=1 + order.pieces % 3)
    corrected = order.arrives + 10 * MINUTE + order.dice("corrected", DAY)
    yield Delivery("orders", order.chance("is corrected", 40), corrected, never, second)


def _refund_deliveries(order: _Order) -> Iterator[Delivery]:
    on, never = order.on, order.number < 0
    refunded = order.placed + DAY // 2 + order.dice("refunded", 5 * DAY)
    amount = on.either(order.chance("is in part", 500), order.price, order.pieces * order.price)
    refund = {
        "refund_id": order.number,
        "order_id": order.number,
        "order_placed_at": on.instant(order.shop.start, order.placed),
        "amount_cents": on.either(order.chance("has no refund", 10), 0, amount),
        "refunded_at": on.instant(order.shop.start, refunded),
    }
    is_refunded = order.chance("is refunded", 50)
    yield Delivery("refunds", is_refunded, refunded + order.dice("post", MINUTE), never, refund)
    twice = on.either(is_refunded, order.chance("is refunded again", 20), never)
    yield Delivery("refunds", twice, refunded + HOUR, never, refund)


class Line(NamedTuple):
    """One line as it lands: in which table, in which hour, and what it says."""

    table: str
    hour: str
    text: str


def lines(shop: Shop, on: Arithmetic) -> Iterator[Line]:
    """Yield every line of orders and refunds, made without Spark."""
    for number in range(shop.orders):
        for table, happens, after, is_broken, fields in deliveries(on, shop, number):
            if happens:
                text = json.dumps(fields, separators=(",", ":"))
                hour = on.instant(shop.start, after)[:13]
                yield Line(table, hour, text[:BROKEN_AFTER] if is_broken else text)


def publications(shop: Shop) -> Iterator[Line]:
    """Yield every line of exchange rates: what one unit costs in Swiss francs, in millionths."""
    for number in range(shop.days * len(PUBLISHED) * len(RATES)):
        day = shop.start + datetime.timedelta(days=number // (len(PUBLISHED) * len(RATES)))
        time = PUBLISHED[number // len(RATES) % len(PUBLISHED)]
        currency = list(RATES)[number % len(RATES)]
        luck = draw(number, seed=shop.seed, purpose="luck of the rate") % 100
        rate = RATES[currency] + draw(number, seed=shop.seed, purpose="rate") % 20_000
        published_at = datetime.datetime.combine(day, time, RATE_ZONE).astimezone(ZoneInfo("UTC"))
        at = published_at.replace(tzinfo=None).isoformat()
        fields = {
            "day": day.isoformat(),
            "currency": currency,
            "rate_millionths": 0 if luck == ZERO_RATE else rate,
            "published_at": at,
        }
        if luck >= MISSING_RATES:
            yield Line("fx", at[:13], json.dumps(fields, separators=(",", ":")))
