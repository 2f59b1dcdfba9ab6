"""A contract test for timetables: call `check_timetable(MyTimetable())` from a test of yours.

Checked is what the scheduler relies on. Holes and overlaps between data intervals are fine; logical
date and run-after must move forward.
"""

import json
from itertools import pairwise

from pendulum import DateTime

from lamplighter import clock, runtime
from lamplighter.timetables.base import (
    DagRunInfo,
    DataInterval,
    TimeRestriction,
    Timetable,
    place,
)
from lamplighter.zones import UTC

_EARLIEST = DateTime(2026, 1, 1, tzinfo=UTC)


def check_timetable(
    timetable: Timetable, *, earliest: DateTime = _EARLIEST, steps: int = 60
) -> list[DagRunInfo]:
    """Raise `AssertionError` with one sentence if `timetable` breaks the contract.

    Returns the first runs from `earliest` on, for assertions of your own.
    """
    timetable.validate()
    with runtime.using(clock=clock.FixedClock(earliest)):
        _check_round_trip(timetable, earliest)
        runs = _walk(timetable, TimeRestriction(earliest, None, catchup=True), steps)
        _check_forward(timetable, runs, earliest)
        _check_latest(timetable, runs, earliest)
        _check_manual(timetable, earliest)
    _check_catchup(timetable, runs, earliest)
    return runs


def _ask(
    timetable: Timetable, last: DagRunInfo | None, restriction: TimeRestriction
) -> DagRunInfo | None:
    first, second = (
        timetable.next_dagrun_info_v2(last_dagrun_info=last, restriction=restriction)
        for _ in range(2)
    )
    _require(timetable, first == second, f"answers {first} and then {second} to one question")
    return first


def _walk(timetable: Timetable, restriction: TimeRestriction, steps: int) -> list[DagRunInfo]:
    runs: list[DagRunInfo] = []
    for _ in range(steps):
        info = _ask(timetable, runs[-1] if runs else None, restriction)
        if info is None:
            break
        is_run = isinstance(info, DagRunInfo)
        _require(timetable, is_run, f"returns {info!r}, not a DagRunInfo")
        _check_aware(timetable, info)
        runs.append(info)
        if not timetable.periodic:
            break  # the next one depends on how long this one takes
    return runs


def _check_round_trip(timetable: Timetable, earliest: DateTime) -> None:
    written = json.dumps(timetable.serialize())
    copy = type(timetable).deserialize(json.loads(written))
    _require(
        timetable,
        type(copy) is type(timetable) and json.dumps(copy.serialize()) == written,
        f"does not survive serialize and deserialize: {written} became {copy.serialize()}",
    )
    restriction = TimeRestriction(earliest, None, catchup=True)
    one, other = _ask(timetable, None, restriction), _ask(copy, None, restriction)
    _require(timetable, one == other, f"answers {one}, but its deserialized copy answers {other}")


def _check_aware(timetable: Timetable, info: DagRunInfo) -> None:
    for moment in (info.run_after, *(info.data_interval or ())):
        _require(timetable, moment.tzinfo is not None, f"returns {moment} without a time zone")
    if info.data_interval is not None:
        start, end = info.data_interval
        _require(timetable, start <= end, f"returns an interval from {start} back to {end}")


def _check_forward(timetable: Timetable, runs: list[DagRunInfo], earliest: DateTime) -> None:
    for run in runs:
        _require(
            timetable,
            run.run_after >= earliest,
            f"returns a run at {run.run_after}, before the earliest instant {earliest}",
        )
    for one, other in pairwise(runs):
        _require(
            timetable,
            one.run_after < other.run_after and place(one) < place(other),
            f"does not move forward: {place(one)} (run after {one.run_after}) is followed by"
            f" {place(other)} (run after {other.run_after})",
        )


def _check_latest(timetable: Timetable, runs: list[DagRunInfo], earliest: DateTime) -> None:
    if not timetable.periodic or not runs:
        return
    latest = place(runs[len(runs) // 2])
    bounded = _walk(timetable, TimeRestriction(earliest, latest, catchup=True), len(runs) + 1)
    late = [run for run in bounded if place(run) > latest]
    _require(timetable, not late, f"returns {late[:1]} although the latest date is {latest}")


def _check_catchup(timetable: Timetable, runs: list[DagRunInfo], earliest: DateTime) -> None:
    if not timetable.periodic or len(runs) < 2:  # noqa: PLR2004 - nothing to skip with one run
        return
    # A schedule may count from the present when it skips, so that its newest run need not be ours;
    # but it must be newer than our last but one.
    now = runs[-1].run_after
    with runtime.using(clock=clock.FixedClock(now)):
        restriction = TimeRestriction(earliest, None, catchup=False)
        for last in (None, runs[0]):
            info = _ask(timetable, last, restriction)
            _require(
                timetable,
                info is None or info.run_after > runs[-2].run_after,
                f"ignores catchup=False: at {now}, after {last}, it still returns {info}",
            )


def _check_manual(timetable: Timetable, earliest: DateTime) -> None:
    interval = timetable.infer_manual_data_interval(run_after=earliest)
    _require(
        timetable,
        isinstance(interval, DataInterval),
        f"infers {interval!r} for a manual run, not a DataInterval",
    )
    _check_aware(timetable, DagRunInfo(earliest, interval))


def _require(timetable: Timetable, condition: bool, problem: str) -> None:
    if not condition:
        raise AssertionError(f"{type(timetable).__name__} {problem}")
