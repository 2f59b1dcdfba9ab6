"""Airflow's rule for the ticks of a cron schedule, and ours, each written a second time.

Owns: slow and plain ticks, to be given to one of our timetables in place of its own. They show
whether a difference comes from the rule alone: with Airflow's ticks our timetable must say what
Airflow says, and with the plain form of ours it must say what it always says.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pendulum
from croniter import CroniterBadDateError, croniter

from lamplighter.errors import NoTickError
from lamplighter.timetables.cron import PRESETS
from tests.parity.answer import Document

_EVERY = ["*"]
_INSTANT = timedelta.resolution


class _Ticks:
    """One expression in one zone. Instants are naive UTC, as in the schedule this stands in for."""

    def __init__(self, expression: str, zone: str | int) -> None:
        self.expression = written_out(expression)
        self.zone: tzinfo = ZoneInfo(zone) if isinstance(zone, str) else pendulum.timezone(zone)
        self.is_hourly = croniter(self.expression).expanded[1] == _EVERY

    def next_wall(self, wall: datetime) -> datetime:
        """Return the first wall time of the expression after `wall`."""
        found: datetime = croniter(self.expression, wall).get_next(datetime)
        return found

    def previous_wall(self, wall: datetime) -> datetime:
        """Return the last wall time of the expression before `wall`."""
        found: datetime = croniter(self.expression, wall).get_prev(datetime)
        return found

    def offset(self, t: datetime) -> timedelta:
        """Return how far the clocks are ahead of UTC at an instant."""
        offset = t.replace(tzinfo=UTC).astimezone(self.zone).utcoffset()
        assert offset is not None
        return offset

    def readings(self, wall: datetime) -> list[datetime]:
        """Return the instants that a wall time can mean, the earlier one first."""
        aware = (wall.replace(tzinfo=self.zone, fold=fold) for fold in (0, 1))
        return sorted(moment.astimezone(UTC).replace(tzinfo=None) for moment in aware)

    def is_skipped(self, wall: datetime) -> bool:
        """Return True if the clocks jump over a wall time."""
        earlier = self.readings(wall)[0]
        return earlier + self.offset(earlier) != wall


class AirflowTicks(_Ticks):
    """The rule of Airflow 3.3.2: a tick is looked for from the wall time of where one stands."""

    def after(self, t: datetime) -> datetime:
        wall = t + self.offset(t)
        tick = self.next_wall(wall)
        return t + (tick - wall) if self.is_hourly else self.readings(tick)[-1]

    def before(self, t: datetime) -> datetime:
        wall = t + self.offset(t)
        tick = self.previous_wall(wall)
        return t - (wall - tick) if self.is_hourly else self.readings(tick)[-1]

    def at_or_after(self, t: datetime) -> datetime:
        later = self.after(t)
        return t if self.before(later) == t else later

    def at_or_before(self, t: datetime) -> datetime:
        earlier = self.before(t)
        return t if self.after(earlier) == t else earlier


class FixedTicks(_Ticks):
    """Our rule: the ticks are a set of instants, found by looking at every wall time around."""

    def after(self, t: datetime) -> datetime:
        found: datetime | None = None
        with suppress(CroniterBadDateError):
            for wall in self._walls_from(t):
                if found is not None and wall > found + max(self._offsets_around(found)):
                    break
                later = [x for x in self._instants(wall) if x > t]
                found = min([*later, found] if found else later, default=None)
        return _required(found, t)

    def before(self, t: datetime) -> datetime:
        found: datetime | None = None
        with suppress(CroniterBadDateError):
            for wall in self._walls_back_from(t):
                if found is not None and wall < found + min(self._offsets_around(found)):
                    break
                earlier = [x for x in self._instants(wall) if x < t]
                found = max([*earlier, found] if found else earlier, default=None)
        return _required(found, t)

    def at_or_after(self, t: datetime) -> datetime:
        return self.after(t - _INSTANT)

    def at_or_before(self, t: datetime) -> datetime:
        return self.before(t + _INSTANT)

    def _instants(self, wall: datetime) -> list[datetime]:
        """Return where a wall time ticks: when hourly at both readings, unless it is skipped."""
        readings = self.readings(wall)
        return readings if self.is_hourly and not self.is_skipped(wall) else readings[-1:]

    def _walls_from(self, t: datetime) -> Iterator[datetime]:
        wall = t + min(self._offsets_around(t))
        while True:
            wall = self.next_wall(wall)
            yield wall

    def _walls_back_from(self, t: datetime) -> Iterator[datetime]:
        wall = t + max(self._offsets_around(t))
        while True:
            wall = self.previous_wall(wall)
            yield wall

    def _offsets_around(self, t: datetime) -> set[timedelta]:
        """Return the offsets within two days, which is more than any clock has ever moved."""
        return {self.offset(t + timedelta(hours=6 * n)) for n in range(-8, 9)}


def _required(tick: datetime | None, near: datetime) -> datetime:
    if tick is None:
        raise NoTickError(f"no tick near {near}")
    return tick


def written_out(cron: str) -> str:
    """Return the expression that a preset stands for."""
    return PRESETS.get(cron.strip(), cron.strip())


def crons_of(document: Document) -> list[str]:
    """Return the cron expressions of a timetable, or of the one inside it."""
    arguments = document["arguments"]
    if "timetable" in arguments:
        return crons_of(arguments["timetable"])
    return [arguments["cron"]] if "cron" in arguments else list(arguments.get("crons", []))


def impose(timetable: Any, document: Document, rule: type[AirflowTicks | FixedTicks]) -> None:
    """Give our timetable the ticks of one of the rules."""
    arguments = document["arguments"]
    if "timetable" in arguments:
        impose(timetable.timetable, arguments["timetable"], rule)
        return
    members = getattr(timetable, "_members", [timetable])
    for member, expression in zip(members, crons_of(document), strict=True):
        vars(member)["_schedule"] = rule(expression, arguments["timezone"])
