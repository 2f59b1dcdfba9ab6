"""Zones, and instants that lie where zones are difficult.

Owns: which zones are asked about, and where their clocks change.
"""

import datetime
from functools import lru_cache
from random import Random
from zoneinfo import ZoneInfo

ZONES = (
    *("UTC", "Europe/Zurich", "Europe/London", "Europe/Dublin", "America/New_York"),
    *("America/Los_Angeles", "America/St_Johns", "America/Havana", "America/Sao_Paulo"),
    *("America/Asuncion", "America/Santiago", "America/Caracas", "America/Nuuk", "Asia/Kolkata"),
    *("Asia/Kathmandu", "Asia/Tehran", "Asia/Gaza", "Asia/Beirut", "Asia/Tokyo", "Asia/Pyongyang"),
    *("Australia/Lord_Howe", "Australia/Sydney", "Australia/Adelaide", "Australia/Eucla"),
    *("Africa/Casablanca", "Africa/Cairo", "Atlantic/Azores", "Antarctica/Troll", "Pacific/Apia"),
    *("Antarctica/Casey", "Pacific/Chatham", "Pacific/Kiritimati", "Europe/Istanbul", "Asia/Amman"),
)
_OFFSETS = (0, 3600, -18000, 19800, 20700, 45900, -34200)
_FIRST = datetime.datetime(2007, 1, 1, tzinfo=datetime.UTC)
_LAST = datetime.datetime(2037, 12, 31, tzinfo=datetime.UTC)
_SECOND = datetime.timedelta(seconds=1)


def zone(random: Random) -> str | int:
    """Return the name of a zone, or now and then a fixed offset in seconds."""
    return random.choice(_OFFSETS) if random.random() < 0.06 else random.choice(ZONES)


def anchor(random: Random, zone: str | int) -> datetime.datetime:
    """Return an instant of 2007 to 2037, two times in three close to a change of the clocks."""
    changes = transitions(zone) if isinstance(zone, str) else ()
    if changes and random.random() < 0.66:
        return random.choice(changes) + _near(random)
    uniform = _FIRST + random.random() * (_LAST - _FIRST)
    return uniform.replace(microsecond=0) if random.random() < 0.8 else uniform


def nearby(random: Random, at: datetime.datetime) -> datetime.datetime:
    """Return an instant at a distance from `at` of anything between nothing and years."""
    scale = random.choices(
        ("none", "near", "hours", "days", "months", "years"), weights=(20, 25, 20, 20, 10, 5)
    )[0]
    if scale == "none":
        return at
    if scale == "near":
        return at + _near(random)
    days = {"hours": 0.25, "days": 5, "months": 90, "years": 1200}[scale]
    moved = at + datetime.timedelta(days=random.uniform(-days, days))
    return moved.replace(second=0, microsecond=0) if random.random() < 0.7 else moved


@lru_cache
def transitions(zone: str) -> tuple[datetime.datetime, ...]:
    """Return the instants from 2007 to 2037 at which the clocks of `zone` change."""
    tzinfo = ZoneInfo(zone)
    step = datetime.timedelta(days=5)
    found = []
    at = _FIRST
    while at < _LAST:
        if at.astimezone(tzinfo).utcoffset() != (at + step).astimezone(tzinfo).utcoffset():
            found.append(_change_between(tzinfo, at, at + step))
        at += step
    return tuple(found)


def _change_between(
    tzinfo: ZoneInfo, before: datetime.datetime, after: datetime.datetime
) -> datetime.datetime:
    offset = before.astimezone(tzinfo).utcoffset()
    while after - before > _SECOND:
        middle = before + (after - before) // 2
        if middle.astimezone(tzinfo).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after.replace(microsecond=0)


def _near(random: Random) -> datetime.timedelta:
    kind = random.choices(("exact", "quarters", "minutes", "days", "odd"), (10, 35, 25, 20, 10))[0]
    if kind == "exact":
        return datetime.timedelta()
    if kind == "quarters":
        return datetime.timedelta(minutes=15 * random.randint(-14, 14))
    if kind == "minutes":
        return datetime.timedelta(minutes=random.randint(-200, 200))
    if kind == "days":
        return datetime.timedelta(hours=random.randint(-72, 72))
    return datetime.timedelta(seconds=random.uniform(-9000, 9000))
