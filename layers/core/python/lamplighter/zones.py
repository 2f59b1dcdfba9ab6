"""Time zones and aware instants: into UTC, and to and from their written form.

Owns: the one way a zone is named (`"Europe/Zurich"`, `"UTC"`, or a fixed offset in seconds), the
rule that a naive value given by an author means UTC, and when the clocks of a zone change.
"""

import datetime
from bisect import bisect_right
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

import pendulum
from pendulum import DateTime, FixedTimezone, Timezone

from lamplighter.errors import DefinitionError

UTC = pendulum.UTC
Zone: TypeAlias = Timezone | FixedTimezone


def parse_zone(value: str | int | datetime.tzinfo) -> Zone:
    """Return the zone that a name, an offset in seconds, or any other library's object means."""
    if isinstance(value, Timezone | FixedTimezone):
        return value
    if isinstance(value, datetime.tzinfo):
        value = _zone_of_tzinfo(value)
    try:
        return pendulum.timezone(value)
    except (AttributeError, ValueError, OSError) as error:
        # Other types have no `lower`, and tzdata raises OSError for names that are folders.
        raise DefinitionError(
            f"unknown time zone {value!r}: use an IANA name such as 'Europe/Zurich'"
        ) from error


def _zone_of_tzinfo(zone: datetime.tzinfo) -> str | int:
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)  # zoneinfo; pytz
    if isinstance(name, str):
        return name
    offset = zone.utcoffset(None)
    if offset is None:
        raise DefinitionError(
            f"time zone {zone!r} has no name: use pendulum.timezone('Europe/Zurich') or zoneinfo"
        )
    return "UTC" if not offset else int(offset.total_seconds())


def encode_zone(zone: Zone) -> str | int:
    """Return the written form of `zone`, which `parse_zone` reads back."""
    return zone.offset if isinstance(zone, FixedTimezone) else zone.name


def as_utc(moment: datetime.datetime) -> DateTime:
    """Return the same instant in UTC; a naive value is taken as UTC."""
    if type(moment) is DateTime and moment.tzinfo is UTC:
        return moment
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC)
    return DateTime(
        moment.year,
        moment.month,
        moment.day,
        moment.hour,
        moment.minute,
        moment.second,
        moment.microsecond,
        tzinfo=UTC,
    )


def later_reading(wall: datetime.datetime, zone: Zone) -> DateTime:
    """Return the instant at which clocks in `zone` show `wall`.

    It is the second of two where they show it twice, and later by the gap where they skip it.
    """
    readings = (wall.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    return as_utc(wall - min(offset for offset in readings if offset is not None))


def iso(moment: datetime.datetime) -> str:
    """Return the instant as ISO text in UTC that sorts like the instant itself to the second."""
    return as_utc(moment).isoformat()


def iso_or_none(moment: datetime.datetime | None) -> str | None:
    """Return the instant as ISO text in UTC, if there is one."""
    return None if moment is None else iso(moment)


def instant_in(zone: Zone, moment: datetime.datetime) -> DateTime:
    """Return the instant in UTC; a naive value is what the clocks of the zone show."""
    return later_reading(moment, zone) if moment.tzinfo is None else as_utc(moment)


def parse_instant(text: str) -> DateTime:
    """Read ISO text; text without an offset is taken as UTC."""
    try:
        return as_utc(datetime.datetime.fromisoformat(text))
    except ValueError as error:
        raise DefinitionError(
            f"{text!r} is not an instant: write it like 2026-01-31T06:00:00Z"
        ) from error


# The changes of the clocks in one zone. Instants are naive UTC, wall times naive local.

_DAY = datetime.timedelta(days=1)
_SECOND = datetime.timedelta(seconds=1)


class Window(NamedTuple):
    """Wall times from `start` until just before `end`, to be read with one offset."""

    start: datetime.datetime
    end: datetime.datetime
    offset: datetime.timedelta


class Stretch(NamedTuple):
    """A time from `start` until just before `end` in which the clocks do not change.

    Where the clocks jump over wall times, these are read with the offset from before the jump, and
    fall into the beginning of the stretch behind it. Where they show wall times twice, those count
    at both readings in `every_reading`, and at the second one only in `last_reading`.
    """

    start: datetime.datetime
    end: datetime.datetime
    every_reading: tuple[Window, ...]
    last_reading: tuple[Window, ...]
    first_wall: datetime.datetime
    last_wall: datetime.datetime


class ZoneOffsets:
    """The stretches of one zone; years are looked at one by one, as they are asked for."""

    def __init__(self, zone: Zone) -> None:
        name = encode_zone(zone)
        # The standard library's zones answer in C.
        self._zone: datetime.tzinfo = ZoneInfo(name) if isinstance(name, str) else zone

    def at(self, t: datetime.datetime) -> Stretch:
        """Return the stretch that holds `t`."""
        starts, stretches = _stretches_of_year(self._zone, t.year)
        if t >= stretches[-1].end:
            starts, stretches = _stretches_of_year(self._zone, t.year + 1)
        return stretches[bisect_right(starts, t) - 1]


@lru_cache(maxsize=4096)
def _stretches_of_year(
    zone: datetime.tzinfo, year: int
) -> tuple[list[datetime.datetime], list[Stretch]]:
    """Return the stretches of a year; its turn ends one too, which changes nothing."""
    starts = [_quiet_turn(zone, year)]
    end_of_year = _quiet_turn(zone, year + 1)
    day, offset = starts[0], _offset(zone, starts[0])
    while day < end_of_year:
        tomorrow = day + _DAY
        next_offset = _offset(zone, tomorrow)
        if next_offset != offset:
            starts.append(_change_between(zone, day, tomorrow))
        day, offset = tomorrow, next_offset
    ends = [*starts[1:], end_of_year]
    return starts, [_stretch(zone, *bounds) for bounds in zip(starts, ends, strict=True)]


def _quiet_turn(zone: datetime.tzinfo, year: int) -> datetime.datetime:
    """Return the turn of the year, or a moment before it that is days away from any change."""
    turn = datetime.datetime(year, 1, 1)  # noqa: DTZ001 - naive UTC
    while len({_offset(zone, turn + n * _DAY) for n in range(-3, 4)}) > 1:
        turn -= 7 * _DAY
    return turn


def _stretch(zone: datetime.tzinfo, start: datetime.datetime, end: datetime.datetime) -> Stretch:
    before, offset, after = (_offset(zone, t) for t in (start - _SECOND, start, end))
    skipped = (Window(start + before, start + offset, before),) if before < offset else ()
    return Stretch(
        start,
        end,
        (Window(start + offset, end + offset, offset), *skipped),
        (Window(start + offset, end + min(offset, after), offset), *skipped),
        first_wall=start + max(before, offset),
        last_wall=end + min(offset, after),
    )


def _change_between(
    zone: datetime.tzinfo, early: datetime.datetime, late: datetime.datetime
) -> datetime.datetime:
    """Return the first instant with the later offset, to the second."""
    offset = _offset(zone, early)
    while late - early > _SECOND:
        middle = (early + (late - early) / 2).replace(microsecond=0)
        if _offset(zone, middle) == offset:
            early = middle
        else:
            late = middle
    return late


def _offset(zone: datetime.tzinfo, t: datetime.datetime) -> datetime.timedelta:
    offset = zone.fromutc(t.replace(tzinfo=zone)).utcoffset()
    assert offset is not None
    return offset
