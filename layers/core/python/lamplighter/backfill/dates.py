"""The dates of a schedule in a range: start included, end excluded. Pure.

The bounds of the DAG do not count, since a backfill asks for what was before them too; but the grid
of a delta is counted from where the DAG begins, so that no interval overlaps those of its runs.
"""

from collections.abc import Iterator

from pendulum import DateTime

from lamplighter.dags.schedule import next_run
from lamplighter.timetables._delta import DeltaTimetable, fixed_length
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from lamplighter.zones import as_utc

# A calendar delta has no shorter way than to be walked.
_MAX_STEPS = 100_000


def place(info: DagRunInfo) -> DateTime:
    """Return where a run stands in time: its logical date, or of a partition its instant."""
    return info.logical_date or info.run_after


def runs_between(
    timetable: Timetable,
    start: DateTime,
    end: DateTime,
    *,
    now: DateTime,
    anchor: DateTime | None = None,
) -> Iterator[DagRunInfo]:
    """Yield the runs whose dates are in the range and whose data is complete, oldest first.

    `anchor` is where the DAG begins.
    """
    restriction = TimeRestriction(_on_the_grid(timetable, start, anchor), end, catchup=True)
    info = next_run(timetable, None, restriction)
    while info is not None and place(info) < end and _complete_at(info) < now:
        if place(info) >= start:
            yield _in_utc(info)
        info = next_run(timetable, info, restriction)


def _complete_at(info: DagRunInfo) -> DateTime:
    return info.run_after if info.data_interval is None else info.data_interval.end


def _on_the_grid(timetable: Timetable, start: DateTime, anchor: DateTime | None) -> DateTime:
    """Return the first instant from `start` on that the DAG's own runs could begin at."""
    if isinstance(timetable, AssetOrTimeSchedule):
        timetable = timetable.timetable
    if anchor is None or not isinstance(timetable, DeltaTimetable):
        return start
    delta = timetable._delta  # noqa: SLF001 - rooms of one library
    length = fixed_length(delta)
    if length is not None:
        steps = -((anchor - start).as_timedelta() // length)
        return as_utc(anchor + steps * length)
    at = anchor
    for _ in range(_MAX_STEPS):
        if at >= start:
            return start if at == anchor else at
        at = timetable._get_next(at)  # noqa: SLF001 - as above
    return start


def _in_utc(info: DagRunInfo) -> DagRunInfo:
    interval = info.data_interval
    return info._replace(
        run_after=as_utc(info.run_after),
        data_interval=interval and DataInterval(as_utc(interval.start), as_utc(interval.end)),
    )
