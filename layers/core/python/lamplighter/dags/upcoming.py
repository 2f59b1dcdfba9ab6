"""The upcoming runs of a DAG: what `lamplighter next` shows, and what follows its last run.

Also which data interval a manual run has. Pure: the timetable sees the instant it is asked about
as the present, whatever the clock says. An author's timetable is asked only in a process of its own
(see `lamplighter.bundles.worker`), so queries and results are JSON as well.
"""

from collections.abc import Iterator, Mapping
from itertools import islice, takewhile
from typing import Any, NamedTuple, TypedDict, final

from pendulum import DateTime

from lamplighter import clock, runtime
from lamplighter.dags.dag import DAG
from lamplighter.errors import DefinitionError, InvalidTimetableError, NoTickError
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import DagRunInfo, DataInterval, is_custom, manual_interval
from lamplighter.timetables.cron import CronTimetable
from lamplighter.timetables.delta import DeltaTimetable, fixed_length
from lamplighter.timetables.trigger import CronPartitionTimetable
from lamplighter.zones import as_utc, iso, iso_or_none, parse_instant

MAX_OWED_COUNTED = 10_000
MAX_STEPS = 100_000
_MAX_STEPS_TO_FIRST = 1_000_000
# Of a timetable without periods, such as one that goes on when a run has ended: the next run, and
# the one after it, as far as that is known now.
_UNPERIODIC = 2


# As if the DAG were up to date.


def upcoming_runs(dag: DAG, count: int, *, at: DateTime) -> list[DagRunInfo]:
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
    for _ in range(_MAX_STEPS_TO_FIRST):
        if info is None or info.run_after >= at:
            return info
        info = dag.next_dagrun_info(info, catchup=True)
    raise DefinitionError(
        f"DAG {dag.dag_id!r}: gave up after {_MAX_STEPS_TO_FIRST:,} runs, still before {at}"
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
        length = fixed_length(timetable._delta)  # noqa: SLF001 - packages of one library
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


def describe_run(dag: DAG, info: DagRunInfo) -> dict[str, str | None]:
    """Return an upcoming run as JSON for people and programs, instants as ISO text in UTC."""
    start, end = info.data_interval or (None, None)
    return {
        "run_id": dag.timetable.generate_run_id(
            run_type="scheduled",
            run_after=info.run_after,
            data_interval=info.data_interval,
            partition_key=info.partition_key,
        ),
        "logical_date": iso_or_none(start),
        "data_interval_start": iso_or_none(start),
        "data_interval_end": iso_or_none(end),
        "run_after": iso(info.run_after),
    }


# After its last run.


class FollowingRuns(NamedTuple):
    """Some of the runs that follow, whether none come after them, and how many are owed in all."""

    runs: list[DagRunInfo]
    is_last: bool
    owed: int


def owed_runs(
    dag: DAG, last: DagRunInfo | None, *, at: DateTime, stop_at: int = MAX_OWED_COUNTED
) -> int:
    """Return how many runs after `last` may be created at `at`: one at most without catchup."""
    with clock.at(at):
        due = takewhile(lambda info: info.run_after <= at, _walk(dag, _first_after(dag, last)))
        is_many = dag.catchup and dag.timetable.periodic
        return sum(1 for _ in islice(due, stop_at if is_many else 1))


def following_runs(dag: DAG, last: DagRunInfo | None, *, count: int, at: DateTime) -> FollowingRuns:
    """Return up to `count` runs after `last`; without catchup from the newest due one on."""
    with clock.at(at):
        first = _first_after(dag, last)
        if first is not None and not dag.catchup:
            first = _newest_due(dag, first, at)
        limit = count if dag.timetable.periodic else min(count, _UNPERIODIC)
        runs = list(islice(_walk(dag, first), limit))
    if dag.catchup:
        owed = owed_runs(dag, last, at=at)
    else:
        owed = sum(info.run_after <= at for info in runs[:1])
    has_ended = len(runs) < (count if dag.timetable.periodic else _UNPERIODIC)
    return FollowingRuns(runs, has_ended, owed)


def _first_after(dag: DAG, last: DagRunInfo | None) -> DagRunInfo | None:
    # Without catchup only the very first run is the timetable's to choose. Later ones are walked
    # to: a timetable that clamps to the present would step over a run that is due.
    return _next(dag, last, catchup=dag.catchup or last is not None)


def _walk(dag: DAG, info: DagRunInfo | None) -> Iterator[DagRunInfo]:
    while info is not None:
        yield info
        info = _next(dag, info, catchup=True)


def _newest_due(dag: DAG, info: DagRunInfo, at: DateTime) -> DagRunInfo:
    """Walk on from `info` while its follower is due too."""
    for _ in range(MAX_STEPS):
        follower = _next(dag, info, catchup=True) if dag.timetable.periodic else None
        if follower is None or follower.run_after > at:
            return info
        info = follower
    # A frequent schedule after a long pause: the timetable itself knows a shorter way.
    return _next(dag, info, catchup=False) or info


def _next(dag: DAG, last: DagRunInfo | None, *, catchup: bool) -> DagRunInfo | None:
    """Return the run after `last` as it will be read back one day: every instant in UTC."""
    info = dag.next_dagrun_info(last, catchup=catchup)
    if info is None:
        return None
    interval, day = info.data_interval, info.partition_date
    if day is not None and day.tzinfo is None:
        raise InvalidTimetableError(
            f"DAG {dag.dag_id!r}: schedule: partition_date={day} has no time zone: add one, such as"
            " tz='UTC'"
        )
    earliest = dag.restriction().earliest
    # Built-in triggers with an interval look back before the start date, as in Airflow.
    if interval and earliest and interval.start < earliest and is_custom(dag.timetable):
        raise InvalidTimetableError(
            f"DAG {dag.dag_id!r}: schedule: {type(dag.timetable).__name__} returned an interval"
            f" from {iso(interval.start)}, before the start date {iso(earliest)}: begin at"
            " restriction.earliest, or later"
        )
    return DagRunInfo(
        run_after=as_utc(info.run_after),
        data_interval=interval and DataInterval(as_utc(interval.start), as_utc(interval.end)),
        partition_date=day and as_utc(day),
        partition_key=info.partition_key,
    )


# As JSON, to and from the process that runs author code.


class LastRun(TypedDict):
    """The last run of a schedule, instants as ISO text."""

    run_after: str
    data_interval_start: str | None
    data_interval_end: str | None
    partition_date: str | None
    partition_key: str | None


@final
class NextRunsQuery(TypedDict):
    """Which runs of a DAG follow `last`, seen from the instant `at`?"""

    file: str
    dag_id: str
    last: LastRun | None
    count: int
    at: str


@final
class ManualRunQuery(TypedDict):
    """Which run does a DAG get if someone starts one for `date`, at the instant `at`?"""

    file: str
    dag_id: str
    date: str
    at: str


TimetableQuery = NextRunsQuery | ManualRunQuery


def next_runs_query(
    dag_id: str, file: str, last: DagRunInfo | None, *, count: int, at: DateTime
) -> NextRunsQuery:
    """Return the query for up to `count` runs of a DAG after `last`, seen from `at`."""
    return NextRunsQuery(
        dag_id=dag_id,
        file=file,
        last=None if last is None else _last_run(last),
        count=count,
        at=iso(at),
    )


def _last_run(info: DagRunInfo) -> LastRun:
    start, end = info.data_interval or (None, None)
    return LastRun(
        run_after=iso(info.run_after),
        data_interval_start=iso_or_none(start),
        data_interval_end=iso_or_none(end),
        partition_date=iso_or_none(info.partition_date),
        partition_key=info.partition_key,
    )


class NextRunsResult(TypedDict):
    """The runs that follow; with an error there are none."""

    dag_id: str
    runs: list[dict[str, str | None]]
    is_last: bool
    owed: int
    error: str | None


def query_timetable(query: TimetableQuery, dags: Mapping[str, DAG]) -> NextRunsResult:
    """Return what the timetable of the DAG says; whatever it raises is raised."""
    dag = dags.get(query["dag_id"])
    if dag is None:
        raise DefinitionError(f"there is no DAG {query['dag_id']!r} in {query['file']}")
    if "date" in query:
        return _find_manual_run(query, dag)
    following = following_runs(
        dag,
        _run_of(query["last"]),
        count=query["count"],
        at=parse_instant(query["at"]),
    )
    return NextRunsResult(
        dag_id=dag.dag_id,
        runs=[_as_json(dag, info) for info in following.runs],
        is_last=following.is_last,
        owed=following.owed,
        error=None,
    )


def _find_manual_run(query: ManualRunQuery, dag: DAG) -> NextRunsResult:
    date = parse_instant(query["date"])
    with clock.at(parse_instant(query["at"])):
        interval = manual_interval(dag.timetable, run_after=date)
    run: dict[str, Any] = {**_last_run(DagRunInfo(date, interval))}
    return NextRunsResult(dag_id=dag.dag_id, runs=[run], is_last=True, owed=0, error=None)


def failed_result(query: TimetableQuery, error: str) -> NextRunsResult:
    """Return the result of a timetable that failed."""
    return NextRunsResult(dag_id=query["dag_id"], runs=[], is_last=False, owed=0, error=error)


def _run_of(last: LastRun | None) -> DagRunInfo | None:
    if last is None:
        return None
    start, end, day = (
        None if text is None else parse_instant(text)
        for text in (last["data_interval_start"], last["data_interval_end"], last["partition_date"])
    )
    return DagRunInfo(
        run_after=parse_instant(last["run_after"]),
        data_interval=DataInterval(start, end) if start is not None and end is not None else None,
        partition_date=day,
        partition_key=last["partition_key"],
    )


def _as_json(dag: DAG, info: DagRunInfo) -> dict[str, str | None]:
    run: dict[str, Any] = {**describe_run(dag, info), **_last_run(info)}
    for field in ("run_id", "partition_key"):
        value = run[field]
        if not isinstance(value, str) and (field == "run_id" or value is not None):
            raise InvalidTimetableError(
                f"DAG {dag.dag_id!r}: schedule: {field}={value!r} must be a string"
            )
    return run
