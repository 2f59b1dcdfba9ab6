"""Pushes that change schedules while many processes claim: no interval is left out or repeated.

The processes are `pusher.py`. Time passes, and the bundle goes from hours to half hours and back.
What is judged is what the runs cover, and not which of the schedules each of them is from.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from pendulum import DateTime

from lamplighter import clock, runtime
from lamplighter.scheduler import cursor
from lamplighter.store.bundles import next_push_number
from lamplighter.store.models import Dags, Runs
from tests.concurrency import storms
from tests.concurrency.producer import LATE_BUNDLE
from tests.concurrency.pusher import HALF_HOURLY, HOURLY, START, dags_of
from tests.concurrency.storms import NOW, PROCESSES, Outcome, fewer_faults, rage
from tests.concurrency.test_producers import register
from tests.concurrency.test_tickers import judge_rest

# Two real seconds lie between two pushes, and forty minutes of the storm.
PUSH_EVERY, SPEED = 2, 1200
# Hours that are over at the first push stay hours, whenever they get their runs.
HOURS_UNTIL = NOW.add(seconds=PUSH_EVERY * SPEED).start_of("hour")
# Runs end slowly, so that some are still owed when a push comes.
WEIGHTS = {"claim": 3, "finish": 2, "tick": 0.2, "register": 0.5, "sweep": 0.4, "meddle": 0.5}


def rage_with_pushes(environment: dict[str, str], *, dags: int, pushes: int, seed: int) -> Outcome:
    """Let a storm rage in which the schedules change so many times, and return what came of it."""
    before = register(*dags_of(f"{HOURLY}-{dags}"), bundle=LATE_BUNDLE)
    versions = [f"{HOURLY if number % 2 else HALF_HOURLY}-{dags}" for number in range(pushes)]
    numbered = [(version, next_push_number(LATE_BUNDLE)) for version in versions]
    moves_for = PUSH_EVERY * (pushes + 1)
    asked = [
        storms.storm_of(
            seed * PROCESSES + process,
            sorted(before),
            speed=SPEED,
            moves_for=moves_for,
            messages=[],
            pushes=numbered[process::PROCESSES],
            push_every=PUSH_EVERY,
            batches_at_once=1,
            weights=WEIGHTS,
            faults=fewer_faults(0.25),
            pause_count=1,
        )
        for process in range(PROCESSES)
    ]
    outcome = rage("pusher", environment, *asked)
    print(f"seed {seed}", outcome, sep="\n")  # noqa: T201 - to be seen when it fails
    end = NOW.add(seconds=SPEED * moves_for)
    with runtime.using(clock=clock.FixedClock(end)):
        found = judge(versions[-1], outcome, before, end)
    assert not found, "\n".join(found)
    return outcome


def judge(version: str, outcome: Outcome, revs: dict[str, int], end: DateTime) -> list[str]:
    """Return everything that is not as it should be when the storm is over."""
    rows = {row.dag_id: row for row in Dags.scan(consistent_read=True)}
    # What came before the last run was given by both schedules, in turns.
    origins = {id_: last for id_, row in rows.items() if (last := cursor.position(row)) is not None}
    dags = dags_of(version)
    limits = {dag.dag_id: dag.max_active_runs for dag in dags}
    found = storms.judge_all(outcome, limits, revs, origins)
    for number, dag in enumerate(dags):
        runs = sorted(Runs.query(dag.dag_id, consistent_read=True), key=lambda run: run.run_after)
        judge_runs = judge_triggers if number % 3 == 2 else judge_intervals
        texts = [*judge_runs(runs, end), *judge_end(rows[dag.dag_id], runs)]
        found += [f"DAG {dag.dag_id}: {text}" for text in texts]
    return found


def judge_intervals(runs: Sequence[Runs], end: DateTime) -> Iterator[str]:
    """Tell where the intervals of runs leave a hole, overlap, or are none of the schedules'."""
    intervals = [(run.data_interval_start, run.data_interval_end) for run in runs]
    if not intervals or intervals[0][0] != START or intervals[-1][1] <= end.subtract(hours=1):
        yield f"its runs should cover all from {START} to {end}, and are {intervals}"
    for before, after in pairwise(intervals):
        if before[1] != after[0]:
            yield f"interval {after} does not begin where {before} ends"
    for first, last in intervals:
        lengths = {60} if last <= HOURS_UNTIL else {30, 60}
        if (last - first).total_minutes() not in lengths or last > end:
            yield f"interval {(first, last)} should have {lengths} minutes, and be over at {end}"


def judge_triggers(runs: Sequence[Runs], end: DateTime) -> Iterator[str]:
    """Tell which times of a schedule without intervals have no run, or two."""
    times = [run.run_after for run in runs]
    hours = [START.add(hours=at) for at in range(int((end - START).total_hours()) + 1)]
    if missing := [hour for hour in hours if hour not in times]:
        yield f"no run at {missing}"
    if len(times) > len(set(times)):
        yield f"several runs at the same time: {times}"
    allowed = {time: {0} if time <= HOURS_UNTIL else {0, 30} for time in times}
    if strange := [time for time in times if time.minute not in allowed[time] or time > end]:
        yield f"runs at times that no schedule has: {strange}"


def judge_end(row: Dags, runs: Sequence[Runs]) -> Iterator[str]:
    """Tell what is left to be done with a DAG."""
    yield from judge_rest(row)
    if row.schedule_switch_at is not None or row.previous_schedule is not None:
        yield f"it still follows an old schedule, until {row.schedule_switch_at}"
    if unfinished := [run.run_key for run in runs if run.ended_at is None]:
        yield f"unfinished runs: {unfinished}"


def test_storm_of_schedule_pushes_leaves_no_hole_and_no_overlap(
    environment: dict[str, str],
) -> None:
    """Schedules that change from hours to half hours and back cover all time once."""
    outcome = rage_with_pushes(environment, dags=9, pushes=4, seed=random.randrange(10**6))

    assert outcome.counts["reported"]["registered pushes"] > 0


@pytest.mark.full
def test_long_storm_of_schedule_pushes_leaves_no_hole_and_no_overlap(
    environment: dict[str, str],
) -> None:
    """More DAGs, and schedules that change more often, cover all time once too."""
    outcome = rage_with_pushes(environment, dags=18, pushes=16, seed=random.randrange(10**6))

    assert outcome.counts["reported"]["registered pushes"] > 0
