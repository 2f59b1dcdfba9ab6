"""Time zones and aware instants: into UTC, and to and from their written form.

Owns: the one way a zone is named (`"Europe/Zurich"`, `"UTC"`, or a fixed offset in seconds) and
the rule that a naive value given by an author means UTC.
"""

import datetime
from typing import TypeAlias

import pendulum
from pendulum import UTC, DateTime, FixedTimezone, Timezone

from lamplighter.errors import DefinitionError

Zone: TypeAlias = Timezone | FixedTimezone

__all__ = [
    "UTC",
    "Zone",
    "as_utc",
    "encode_zone",
    "iso",
    "iso_or_none",
    "later_reading",
    "parse_instant",
    "parse_zone",
]


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


def parse_instant(text: str) -> DateTime:
    """Read ISO text; text without an offset is taken as UTC."""
    try:
        return as_utc(datetime.datetime.fromisoformat(text))
    except ValueError as error:
        raise DefinitionError(
            f"{text!r} is not an instant: write it like 2026-01-31T06:00:00Z"
        ) from error
