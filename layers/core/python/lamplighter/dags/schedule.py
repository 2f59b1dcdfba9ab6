"""What `schedule=` may be, the timetable that each value means, and the next run it gives.

An author's timetable may be wrong, so every run that one returns is checked.
"""

import datetime
from collections.abc import Collection
from typing import TypeAlias

from dateutil.relativedelta import relativedelta

from lamplighter.assets import AssetCondition
from lamplighter.errors import DefinitionError, InvalidTimetableError, NoTickError
from lamplighter.identifiers import MAX_ID_LENGTH
from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
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

    A plain cron expression or delta means data intervals: the run for Monday happens when Monday is
    over.
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
        f"{schedule!r} is not a schedule: use a cron expression, a timedelta, a"
        " timetable, assets, or None"
    )


def next_run(
    timetable: Timetable, last: DagRunInfo | None, restriction: TimeRestriction
) -> DagRunInfo | None:
    """Return the run after `last`; raise if the result is not a run that can follow it.

    Holes and overlaps between intervals are an author's choice; going backwards is not.
    """
    info = ask(timetable, last, restriction)
    if info is not None and last is not None:
        _require_forward(type(timetable).__name__, last, info)
    return info


def ask(
    timetable: Timetable, last: DagRunInfo | None, restriction: TimeRestriction
) -> DagRunInfo | None:
    """Return the next run of a timetable; raise if it is not a run. `last` may be another's run."""
    try:
        info = timetable.next_dagrun_info_v2(last_dagrun_info=last, restriction=restriction)
    except NoTickError:
        return None  # a cron expression may name its years, and they end
    if info is None:
        return None
    name = type(timetable).__name__
    if not isinstance(info, DagRunInfo):
        raise InvalidTimetableError(f"{name} returned {info!r}, not a DagRunInfo")
    _require_aware(name, "run_after", info.run_after)
    if info.data_interval is not None:
        if not isinstance(info.data_interval, DataInterval):
            raise InvalidTimetableError(
                f"{name} returned data_interval={info.data_interval!r}, not a DataInterval"
            )
        start, end = info.data_interval
        _require_aware(name, "data_interval.start", start)
        _require_aware(name, "data_interval.end", end)
        if end < start:
            raise InvalidTimetableError(f"{name} returned an interval that ends before it starts")
    _require_key(name, info.partition_key)
    return info


def _require_key(timetable: str, key: object) -> None:
    if key is None:
        return
    if not isinstance(key, str) or len(key) > MAX_ID_LENGTH:
        raise InvalidTimetableError(
            f"{timetable} returned a partition key that is not a string of at most {MAX_ID_LENGTH}"
            f" characters: {str(key)[:40]!r}"
        )


def _require_aware(timetable: str, field: str, value: object) -> None:
    if not isinstance(value, datetime.datetime):
        raise InvalidTimetableError(f"{timetable} returned {field}={value!r}, not a DateTime")
    if value.tzinfo is None:
        raise InvalidTimetableError(
            f"{timetable} returned {field}={value} without a time zone: add one, such as tz='UTC'"
        )


def _require_forward(timetable: str, last: DagRunInfo, info: DagRunInfo) -> None:
    before, after = (last.logical_date or last.run_after), (info.logical_date or info.run_after)
    if after == before:
        raise InvalidTimetableError(f"{timetable} did not advance: it returned {before} again")
    if after < before or info.run_after < last.run_after:
        raise InvalidTimetableError(
            f"{timetable} went backwards: from {before} to {after}, run after {info.run_after}"
        )
