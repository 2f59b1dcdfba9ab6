"""A contract test for timetables: call `check_timetable(MyTimetable())` from a test of yours.

Checked is what the scheduler relies on. Holes and overlaps between data intervals are fine; logical
date and run-after must move forward.
"""

import json
from dataclasses import dataclass, replace
from itertools import pairwise

from pendulum import DateTime

from lamplighter import clock, runtime
from lamplighter.timetables.base import (
    DagRunInfo,
    DataInterval,
    TimeRestriction,
    Timetable,
    is_custom,
    place,
)
from lamplighter.zones import UTC

_EARLIEST = DateTime(2026, 1, 1, tzinfo=UTC)


def check_timetable(
    timetable: Timetable,  # The one to check.
    *,
    earliest: DateTime = _EARLIEST,  # Where its runs begin.
    steps: int = 60,  # How many runs are asked for.
) -> list[DagRunInfo]:
    """Raise `AssertionError` with one sentence if `timetable` breaks the contract.

    Returns the first runs from `earliest` on, for assertions of your own.
    """
    timetable.validate()
    contract = _Contract(timetable, earliest)
    with runtime.using(clock=clock.FixedClock(earliest)):
        contract.check_round_trip()
        runs = contract.walk(steps)
        contract.check_forward(runs)
        contract.check_latest(runs)
        contract.check_manual()
    contract.check_catchup(runs)
    return runs


@dataclass(frozen=True)
class _Contract:
    timetable: Timetable
    earliest: DateTime

    def require(self, condition: bool, problem: str) -> None:
        if not condition:
            raise AssertionError(f"{type(self.timetable).__name__} {problem}")

    def ask(
        self, last: DagRunInfo | None, *, latest: DateTime | None = None, catchup: bool = True
    ) -> DagRunInfo | None:
        restriction = TimeRestriction(self.earliest, latest, catchup)
        first, second = (
            self.timetable.next_dagrun_info_v2(last_dagrun_info=last, restriction=restriction)
            for _ in range(2)
        )
        self.require(first == second, f"answers {first} and then {second} to one question")
        return first

    def walk(self, steps: int, *, latest: DateTime | None = None) -> list[DagRunInfo]:
        runs: list[DagRunInfo] = []
        for _ in range(steps):
            info = self.ask(runs[-1] if runs else None, latest=latest)
            if info is None:
                break
            is_run = isinstance(info, DagRunInfo)
            self.require(is_run, f"returns {info!r}, not a DagRunInfo")
            self.check_aware(info)
            runs.append(info)
            if not self.timetable.periodic:
                break  # the next one depends on how long this one takes
        return runs

    def check_round_trip(self) -> None:
        written = json.dumps(self.timetable.serialize())
        copy = type(self.timetable).deserialize(json.loads(written))
        self.require(
            type(copy) is type(self.timetable) and json.dumps(copy.serialize()) == written,
            f"does not survive serialize and deserialize: {written} became {copy.serialize()}",
        )
        one, other = self.ask(None), replace(self, timetable=copy).ask(None)
        self.require(one == other, f"answers {one}, but its deserialized copy answers {other}")

    def check_aware(self, info: DagRunInfo) -> None:
        for moment in (info.run_after, *(info.data_interval or ())):
            self.require(moment.tzinfo is not None, f"returns {moment} without a time zone")
        if info.data_interval is not None:
            start, end = info.data_interval
            self.require(start <= end, f"returns an interval from {start} back to {end}")

    def check_forward(self, runs: list[DagRunInfo]) -> None:
        for at in (run.run_after for run in runs):
            problem = f"returns a run at {at}, before the earliest instant {self.earliest}"
            self.require(at >= self.earliest, problem)
        for date in (run.logical_date for run in runs if is_custom(self.timetable)):
            problem = (
                f"returns an interval from {date}, before the earliest instant {self.earliest}"
            )
            self.require(date is None or date >= self.earliest, problem)
        for one, other in pairwise(runs):
            self.require(
                one.run_after < other.run_after and place(one) < place(other),
                f"does not move forward: {place(one)} (run after {one.run_after}) is followed by"
                f" {place(other)} (run after {other.run_after})",
            )

    def check_latest(self, runs: list[DagRunInfo]) -> None:
        if self.timetable.periodic and runs:
            latest = place(runs[len(runs) // 2])
            late = [run for run in self.walk(len(runs) + 1, latest=latest) if place(run) > latest]
            self.require(not late, f"returns {late[:1]} although the latest date is {latest}")

    def check_catchup(self, runs: list[DagRunInfo]) -> None:
        if not self.timetable.periodic or len(runs) < 2:  # noqa: PLR2004 - one run: none to skip
            return
        # A schedule may count from the present when it skips, so that its newest run need not be
        # ours; but it must be newer than our last but one.
        now = runs[-1].run_after
        with runtime.using(clock=clock.FixedClock(now)):
            for last in (None, runs[0]):
                info = self.ask(last, catchup=False)
                self.require(
                    info is None or info.run_after > runs[-2].run_after,
                    f"ignores catchup=False: at {now}, after {last}, it still returns {info}",
                )

    def check_manual(self) -> None:
        interval = self.timetable.infer_manual_data_interval(run_after=self.earliest)
        is_interval = isinstance(interval, DataInterval)
        self.require(is_interval, f"infers {interval!r} for a manual run, not a DataInterval")
        self.check_aware(DagRunInfo(self.earliest, interval))
