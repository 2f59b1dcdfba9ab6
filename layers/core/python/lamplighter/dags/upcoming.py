"""The coming runs of a DAG that is up to date: what `lamplighter next` shows."""

from pendulum import DateTime

from lamplighter import clock, runtime
from lamplighter.dags.dag import DAG
from lamplighter.errors import DefinitionError, NoTickError
from lamplighter.timetables._cron import CronTimetable
from lamplighter.timetables._delta import DeltaTimetable, fixed_length
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import DagRunInfo, DataInterval
from lamplighter.timetables.trigger import CronPartitionTimetable
from lamplighter.zones import iso

_MAX_STEPS = 1_000_000


def coming_runs(dag: DAG, count: int, *, at: DateTime) -> list[DagRunInfo]:
    """Return up to `count` runs that may be created at or after `at`, as if nothing were owed."""
    runs: list[DagRunInfo] = []
    with runtime.using(clock=clock.FixedClock(at)):
        info = _first_at_or_after(dag, at)
        while info is not None and len(runs) < count:
            runs.append(info)
            if not dag.timetable.periodic:
                break  # @continuous: when the one after it comes depends on when this one ends
            info = dag.next_dagrun_info(info, catchup=True)
    return runs


def _first_at_or_after(dag: DAG, at: DateTime) -> DagRunInfo | None:
    info = _shortly_before(dag, at) or dag.next_dagrun_info()
    for _ in range(_MAX_STEPS):
        if info is None or info.run_after >= at:
            return info
        info = dag.next_dagrun_info(info, catchup=True)
    raise DefinitionError(
        f"DAG {dag.dag_id!r}: gave up after {_MAX_STEPS:,} runs, still before {at}"
    )


def _shortly_before(dag: DAG, at: DateTime) -> DagRunInfo | None:
    """Return a run not long before `at`, where one can be found without walking there.

    The ticks of a cron expression do not depend on where one starts to count, and those of a fixed
    delta that catches up are counted from the start date.
    """
    timetable = dag.timetable
    if isinstance(timetable, AssetOrTimeSchedule):
        timetable = timetable.timetable
    earliest = dag.restriction().earliest
    if earliest is None:
        return None
    if isinstance(timetable, DeltaTimetable) and dag.catchup:
        length = fixed_length(timetable._delta)  # noqa: SLF001 - rooms of one library
        steps = (at - earliest).as_timedelta() // length - 2 if length else 0
        if length is None or steps < 1:
            return None
        tick = earliest + steps * length
        return DagRunInfo(tick, DataInterval(tick - length, tick))
    if not isinstance(timetable, CronTimetable):
        return None
    try:
        tick = timetable._get_prev(timetable._get_prev(at))  # noqa: SLF001 - as above
        before = timetable._get_prev(tick)  # noqa: SLF001 - as above
    except NoTickError:  # its first year has just begun
        return None
    if before <= earliest:
        return None
    if isinstance(timetable, CronPartitionTimetable):
        return DagRunInfo(tick, None)
    return DagRunInfo(tick, DataInterval(before, tick))


def run_as_json(dag: DAG, info: DagRunInfo) -> dict[str, str | None]:
    """Return a coming run as people and programs read it, instants as ISO text in UTC."""
    start, end = info.data_interval or (None, None)
    return {
        "run_id": dag.timetable.generate_run_id(
            run_type="scheduled",
            run_after=info.run_after,
            data_interval=info.data_interval,
            partition_key=info.partition_key,
        ),
        "logical_date": None if start is None else iso(start),
        "data_interval_start": None if start is None else iso(start),
        "data_interval_end": None if end is None else iso(end),
        "run_after": iso(info.run_after),
    }
