"""Random schedules as authors write them: cron texts, deltas, and a few that are wrong.

Owns: the variety of cron fields and of distances. Refuses: instants and zones.
"""

from random import Random
from typing import Any

_COMMON = (
    *("0 0 * * *", "*/5 * * * *", "0 * * * *", "*/15 * * * *", "*/30 * * * *", "* * * * *"),
    *("30 2 * * *", "0 2 * * *", "0 3 * * *", "30 1 * * *", "0 */2 * * *", "0 1,2,3 * * *"),
    *("15 */6 * * *", "0 6,18 * * *", "0 0 * * 1-5", "0 9 * * MON", "0 0 1 * *", "0 0 L * *"),
    *("30 * * * *", "45 1-3 * * *", "0 0 1 */3 *", "0 12 15 6 *", "0 0 29 2 *", "59 23 * * *"),
    *("0 0-23 * * *", "*/10 */1 * * *", "0 * * * 1-5", "*/20 * * * 0", "0 * 1 * *", "7 * L * *"),
)
_PRESETS = (
    *("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly"),
    *("@midnight", "@annually"),
)
# As croniter reads them: the sixth field is seconds, the seventh years.
_SPECIAL = (
    *("0 0 * * 5#2", "30 2 * * sun#1", "0 8 * * L5", "0 0 15W * *", "0 0 L * 1", "0 0 ? * 1"),
    *("*/7 * * * * */15", "0 2 * * * 30", "30 2 * * 0 0,30", "0 0 1 1 * 0 2020-2040"),
    *("0 3 * 3,10 0 0 2007-2037", "0 * * * * 10", "30 1 1-7 * 0", "0 1 13 * 5", "0 0 1-31 * 1"),
    *("0 22-3 * * fri-mon", "5/20 * * * *", "0 0 * * sun-tue", "0 0 1W * *", "0 4 l * *"),
    *(" 0 0 * * * ", "0  6 * * *", "0 0 * * 0-6", "0 0 1 * 0-6", "0 0 * * mon#1,tue#2"),
)
_WRONG = (
    *("", "bad", "60 * * * *", "0 24 * * *", "0 0 31 2 *", "0 0 30 2 *", "0 0 0 * *", "@reboot"),
    *("0 0 * * 8", "* * * *", "0 0 * * mon#6", "0 0 LW * *", "0 0 1W,15 * *", "H * * * *"),
    *(
        "0 0 * * mon#1,tue",
        "1-70 * * * *",
        "*/0 * * * *",
        "a b c d e",
        "0 0 1 13 *",
        "0 0 5-1/0 * *",
    ),
)
_RANDOM = ("R * * * *", "R(0-10) 0 * * *", "0 R * * *", "0 0 r * *", "0 0 R(1-5) * *")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


def cron(random: Random) -> str:
    """Return a cron text: mostly composed at random, one in a hundred of them wrong."""
    families = (_COMMON, _PRESETS, _SPECIAL, _WRONG, _RANDOM, None)
    family = random.choices(families, weights=(25, 4, 10, 1, 0.3, 60))[0]
    return _composed(random) if family is None else random.choice(family)


def delta(random: Random) -> dict[str, Any]:
    """Return a distance between runs, always forward."""
    kind = random.choices(("timedelta", "relativedelta", "duration"), weights=(55, 40, 5))[0]
    if kind == "timedelta":
        return {"kind": kind, **_fixed(random)}
    if kind == "duration":
        return {"kind": kind, **(_calendar(random) if random.random() < 0.7 else _fixed(random))}
    fields = _calendar(random) if random.random() < 0.6 else _fixed(random, fractions=False)
    if random.random() < 0.1:
        fields = {"days": 1, "weekday": [random.randrange(7), random.choice((1, 2))]}
    if random.random() < 0.1:
        fields = {"months": random.choice((1, 3)), "day": random.choice((1, 15, 31)), "hour": 3}
    return {"kind": kind, **fields}


def interval(random: Random) -> dict[str, Any]:
    """Return how far back the data of a triggered run reaches."""
    if random.random() < 0.5:
        return {"kind": "timedelta", "seconds": 0}
    return delta(random)


def _fixed(random: Random, *, fractions: bool = True) -> dict[str, Any]:
    unit = random.choice(("weeks", "days", "hours", "minutes", "seconds"))
    fields = {unit: random.choice((1, 1, 2, 3, 5, 6, 7, 12, 24, 30, 36, 90, 1000))}
    if unit == "seconds":
        fields[unit] += random.choice((60, 599, 3600, 86399, 100_003))
    if fractions and random.random() < 0.1:
        fields["microseconds"] = random.choice((500_000, 100_000, 1, 333_333))
    return fields


def _calendar(random: Random) -> dict[str, Any]:
    fields = {random.choice(("months", "months", "years")): random.choice((1, 1, 2, 3, 6, 13))}
    if random.random() < 0.3:
        fields[random.choice(("days", "hours", "weeks"))] = random.choice((1, 2, 10, 31))
    return fields


def _composed(random: Random) -> str:
    day_kind = random.choices(("every", "month", "week", "both"), weights=(55, 15, 20, 10))[0]
    fields = [
        _field(random, 0, 59, stars=0.1),
        # The clocks change in the small hours.
        _field(random, 0, 4 if random.random() < 0.5 else 23, stars=0.3),
        _field(random, 1, 31, stars=0) if day_kind in ("month", "both") else "*",
        _field(random, 1, 12, stars=0, names=_MONTHS) if random.random() < 0.12 else "*",
        _field(random, 0, 6, stars=0, names=_WEEKDAYS) if day_kind in ("week", "both") else "*",
    ]
    if random.random() < 0.04:
        fields.append(_field(random, 0, 59, stars=0.1))
        if random.random() < 0.3:
            fields.append(random.choice(("*", "2000-2050", "2010-2040/2")))
    return " ".join(fields)


def _field(
    random: Random, low: int, high: int, *, stars: float, names: list[str] | None = None
) -> str:
    if random.random() < stars:
        return "*"

    def value() -> str:
        number = random.randint(low, high)
        return names[number - low] if names and random.random() < 0.4 else str(number)

    kind = random.choices(("one", "list", "range", "step", "range step"), (40, 20, 15, 15, 10))[0]
    if kind == "one":
        return value()
    if kind == "list":
        return ",".join(value() for _ in range(random.randint(2, 4)))
    step = random.choice((1, 2, 3, 5, 7, 10, 15, 20, 30))
    if kind == "step":
        return f"*/{min(step, high)}"
    # Half of the ranges run upwards; the others may wrap around, which cron allows.
    first, last = random.randint(low, high), random.randint(low, high)
    if random.random() < 0.5:
        first, last = min(first, last), max(first, last)
    return f"{first}-{last}" if kind == "range" else f"{first}-{last}/{min(step, high)}"
