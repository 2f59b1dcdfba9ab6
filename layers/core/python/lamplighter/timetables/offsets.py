"""The changes of the clocks in one zone: stretches of time in which they stand still.

Owns: the only look into a zone's rules, and which wall times tick in which stretch. Instants are
naive UTC, wall times naive local.
"""

from bisect import bisect_right
from datetime import datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from lamplighter.zones import Zone, encode_zone

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


class Window(NamedTuple):
    """Wall times from `start` until just before `end`, to be read with one offset."""

    start: datetime
    end: datetime
    offset: timedelta


class Stretch(NamedTuple):
    """A time from `start` until just before `end` in which the clocks do not change.

    Where the clocks jump over wall times, these are read with the offset from before the jump, and
    fall into the beginning of the stretch behind it. Where they show wall times twice, those count
    at both readings in `every_reading`, and at the second one only in `last_reading`.
    """

    start: datetime
    end: datetime
    every_reading: tuple[Window, ...]
    last_reading: tuple[Window, ...]
    first_wall: datetime
    last_wall: datetime


class ZoneOffsets:
    """The stretches of one zone; years are looked at one by one, as they are asked for."""

    def __init__(self, zone: Zone) -> None:
        name = encode_zone(zone)
        # The standard library's zones answer in C.
        self._zone: tzinfo = ZoneInfo(name) if isinstance(name, str) else zone

    def at(self, t: datetime) -> Stretch:
        """Return the stretch that holds `t`."""
        starts, stretches = _stretches_of_year(self._zone, t.year)
        if t >= stretches[-1].end:
            starts, stretches = _stretches_of_year(self._zone, t.year + 1)
        return stretches[bisect_right(starts, t) - 1]


@lru_cache(maxsize=4096)
def _stretches_of_year(zone: tzinfo, year: int) -> tuple[list[datetime], list[Stretch]]:
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


def _quiet_turn(zone: tzinfo, year: int) -> datetime:
    """Return the turn of the year, or a moment before it that is days away from any change."""
    turn = datetime(year, 1, 1)  # noqa: DTZ001 - naive UTC
    while len({_offset(zone, turn + n * _DAY) for n in range(-3, 4)}) > 1:
        turn -= 7 * _DAY
    return turn


def _stretch(zone: tzinfo, start: datetime, end: datetime) -> Stretch:
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


def _change_between(zone: tzinfo, early: datetime, late: datetime) -> datetime:
    """Return the first instant with the later offset, to the second."""
    offset = _offset(zone, early)
    while late - early > _SECOND:
        middle = (early + (late - early) / 2).replace(microsecond=0)
        if _offset(zone, middle) == offset:
            early = middle
        else:
            late = middle
    return late


def _offset(zone: tzinfo, t: datetime) -> timedelta:
    offset = zone.fromutc(t.replace(tzinfo=zone)).utcoffset()
    assert offset is not None
    return offset
