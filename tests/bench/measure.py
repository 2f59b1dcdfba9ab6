"""Measures one library's timetables: `python measure.py airflow`, one round per line of input.

Owns: what is timed. It runs under two interpreters, so it imports nothing from its neighbours. No
question is ever put to a timetable twice, so that no cache can answer.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pendulum

_CALLS = 300
_DAYS = 3652
_STEPS = {"0 0 * * *": {"days": 1}, "*/5 * * * *": {"minutes": 5}}
_ZONES = ("UTC", "Europe/Zurich")

Measured = dict[str, float]


class Bench:
    """The timetables of one library, and the time it takes to ask them."""

    def __init__(self, root: str) -> None:
        self._base = importlib.import_module(f"{root}.timetables.base")
        self._interval = importlib.import_module(f"{root}.timetables.interval")

    def round(self, number: int) -> Measured:
        """Return the CPU seconds of every measurement, at instants that belong to this round."""
        measured: Measured = {}
        for cron in _STEPS:
            for zone in _ZONES:
                for catchup in (True, False):
                    name = f"{cron}  {zone}  {'catchup' if catchup else 'no catchup'}"
                    start = pendulum.datetime(2010 + 2 * number + catchup, 1, 1, tz=zone)
                    measured[name] = self._per_call(cron, start, catchup=catchup)
        for zone in _ZONES:
            start = pendulum.datetime(1970 + 10 * number, 1, 1, tz=zone)
            measured[f"ten years of daily runs  {zone}"] = self._ten_years(start)
        return measured

    def _per_call(self, cron: str, start: pendulum.DateTime, *, catchup: bool) -> float:
        timetable = self._interval.CronDataIntervalTimetable(cron, start.timezone_name)
        restriction = self._base.TimeRestriction(start.in_timezone("UTC"), None, catchup)
        intervals = self._intervals(start, _STEPS[cron])

        def ask() -> None:
            for last in intervals:
                timetable.next_dagrun_info(
                    last_automated_data_interval=last, restriction=restriction
                )

        return _cpu_seconds(ask) / len(intervals)

    def _intervals(self, start: pendulum.DateTime, step: dict[str, int]) -> list[Any]:
        """Return intervals that follow each other from `start` on, by the clock of its zone."""
        ends = [start]
        for _ in range(_CALLS):
            ends.append(ends[-1].add(**step))
        in_utc = [end.in_timezone("UTC") for end in ends]
        return [self._base.DataInterval(*ends) for ends in pairwise(in_utc)]

    def _ten_years(self, start: pendulum.DateTime) -> float:
        timetable = self._interval.CronDataIntervalTimetable("0 0 * * *", start.timezone_name)
        bounds = (start.in_timezone("UTC"), start.add(years=10).in_timezone("UTC"))
        restriction = self._base.TimeRestriction(*bounds, catchup=True)

        def walk() -> None:
            runs, run = 0, None
            while run := timetable.next_dagrun_info_v2(
                last_dagrun_info=run, restriction=restriction
            ):
                runs += 1
            if runs < _DAYS:
                raise RuntimeError(f"only {runs} runs in ten years")

        return _cpu_seconds(walk)


def _cpu_seconds(work: Callable[[], None]) -> float:
    started_at = time.process_time()
    work()
    return time.process_time() - started_at


def main() -> None:
    """Answer each line of input, the number of a round, with one line of JSON."""
    bench = Bench(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(bench.round(int(line))), flush=True)


if __name__ == "__main__":
    main()
