"""The runs that follow a DAG's last one, and how many of them are already owed.

Pure: the timetable sees the instant it is asked about as the present, whatever the clock says.
"""

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import NamedTuple

from pendulum import DateTime

from lamplighter import clock
from lamplighter.dags.dag import DAG
from lamplighter.errors import InvalidTimetableError
from lamplighter.timetables.base import DagRunInfo, DataInterval
from lamplighter.zones import as_utc

STOP_COUNTING_AT = 10_000
MAX_STEPS = 100_000
# Of a timetable without periods, such as one that goes on when a run has ended: the next run, and
# the one after it as far as can be said now.
_UNPERIODIC = 2


class Following(NamedTuple):
    """Some of the runs that follow, whether none come after them, and how many are owed in all."""

    runs: list[DagRunInfo]
    is_last: bool
    owed: int


def owed_runs(
    dag: DAG, last: DagRunInfo | None, *, at: DateTime, stop_at: int = STOP_COUNTING_AT
) -> int:
    """Return how many runs after `last` may be created at `at`: one at most without catchup."""
    with clock.at(at):
        due = takewhile(lambda info: info.run_after <= at, _walk(dag, _first_after(dag, last)))
        is_many = dag.catchup and dag.timetable.periodic
        return sum(1 for _ in islice(due, stop_at if is_many else 1))


def following_runs(dag: DAG, last: DagRunInfo | None, *, count: int, at: DateTime) -> Following:
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
    return Following(runs, has_ended, owed)


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
    return DagRunInfo(
        run_after=as_utc(info.run_after),
        data_interval=interval and DataInterval(as_utc(interval.start), as_utc(interval.end)),
        partition_date=day and as_utc(day),
        partition_key=info.partition_key,
    )
