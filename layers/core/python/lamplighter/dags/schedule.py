"""What `schedule=` may be, and the timetable that each value means."""

import datetime
from collections.abc import Collection
from typing import TypeAlias

from dateutil.relativedelta import relativedelta

from lamplighter.assets import AssetCondition
from lamplighter.errors import DefinitionError
from lamplighter.timetables.base import Timetable
from lamplighter.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from lamplighter.timetables.simple import (
    AssetTriggeredTimetable,
    ContinuousTimetable,
    NullTimetable,
    OnceTimetable,
)
from lamplighter.zones import Zone

Schedule: TypeAlias = (
    str
    | datetime.timedelta
    | relativedelta
    | Timetable
    | AssetCondition
    | Collection[AssetCondition]
    | None
)


def timetable_for(schedule: Schedule, *, timezone: Zone) -> Timetable:
    """Return the timetable that an author's `schedule=` means.

    A plain cron text or delta means data intervals: the run for Monday happens when Monday is over.
    """
    match schedule:
        case None:
            return NullTimetable()
        case Timetable():
            return schedule
        case AssetCondition():
            return AssetTriggeredTimetable(schedule)
        case "@once":
            return OnceTimetable()
        case "@continuous":
            return ContinuousTimetable()
        case str():
            return CronDataIntervalTimetable(schedule, timezone)
        case datetime.timedelta() | relativedelta():
            return DeltaDataIntervalTimetable(schedule)
        case Collection() if not isinstance(schedule, bytes | dict):
            return AssetTriggeredTimetable(schedule)
    raise DefinitionError(
        f"{schedule!r} is not a schedule: use a cron text, timedelta, timetable, assets, or None"
    )
