"""The schedule that claims must follow: the row's own, or the one that a push has replaced.

Owns: the column `previous_schedule`. Everything that asks when a DAG runs next starts here, so that all
of them follow the same schedule.
"""

from typing import Any, NamedTuple

from pendulum import DateTime

from lamplighter.store.models import Dags
from lamplighter.zones import iso, parse_instant

_INSTANTS = ("earliest", "latest")


class Schedule(NamedTuple):
    """A timetable with its bounds, and the definition that it comes from."""

    timetable: str  # JSON
    earliest: DateTime | None
    latest: DateTime | None
    catchup: bool
    is_custom: bool
    words: str  # as people read it
    version: str
    bundle: str
    bundle_version: str
    file: str

    @property
    def source(self) -> tuple[str, str, str]:
        """What tells the answers of one custom timetable from those of another."""
        return (self.version, self.bundle, self.bundle_version)

    def as_json(self) -> dict[str, Any]:
        """Return the value of the column."""
        instants = {name: getattr(self, name) for name in _INSTANTS}
        texts = {name: value and iso(value) for name, value in instants.items()}
        return self._asdict() | texts

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Schedule":
        """Return the schedule that the column has."""
        instants = {name: data[name] and parse_instant(data[name]) for name in _INSTANTS}
        return cls(**(data | instants))


def own_schedule(row: Dags) -> Schedule:
    """Return the schedule of the row's newest definition."""
    return Schedule(
        row.timetable,
        row.earliest,
        row.latest,
        row.catchup,
        bool(row.is_custom),
        row.schedule,
        row.version,
        row.bundle,
        row.bundle_version,
        row.place.rpartition("#")[0],
    )


def schedule_in_force(row: Dags) -> Schedule:
    """Return the schedule that claims follow now."""
    if row.previous_schedule is not None:
        return Schedule.from_json(row.previous_schedule)
    return own_schedule(row)


def is_custom(row: Dags) -> bool:
    """Return whether the sandbox must be asked about the schedule that claims follow now."""
    return bool(row.is_custom) if row.previous_schedule is None else schedule_in_force(row).is_custom


def followed_until(row: Dags, now: DateTime) -> DateTime:
    """Return up to when the schedule in force is followed: now, or the switch to the next one."""
    return now if row.schedule_switch_at is None else min(now, row.schedule_switch_at)
