"""Many processes claim the same DAGs at once: every interval becomes a run, and none does twice.

The processes are `ticker.py`. What they committed is judged from outside: by arithmetic, by the
history of every DAG's row, and by the promises that all tests share.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from pendulum import DateTime

from lamplighter import DAG, clock, runtime
from lamplighter.store.models import Dags, Runs
from lamplighter.timetables.trigger import CronTriggerTimetable, DeltaTriggerTimetable
from lamplighter.zones import iso
from tests.concurrency import storms
from tests.concurrency.storms import FAULTS, NOON, NOW, PROCESSES, Outcome, rage
from tests.tools.definitions import store_dags

# The DAGs were stored when none was due yet, so that catchup decides when they are claimed.
BEFORE = NOON.subtract(days=2)


@dataclass(frozen=True)
class Expected:
    """A DAG, and the dates that are due by arithmetic, oldest first."""

    dag: DAG
    dates: Sequence[DateTime]

    @property
    def needed(self) -> set[str]:
        """The run keys that there must be at the end."""
        return {iso(date) for date in (self.dates if self.dag.catchup else self.dates[-1:])}


def storm_of(seed: int, expected: Sequence[Expected], **changes: Any) -> dict[str, Any]:
    """Return what one process is asked to do, as `ticker.Storm` has it."""
    given = {
        "lost_messages": 0.2,
        "weights": {"tick": 0.2, "claim": 3, "finish": 8, "sweep": 0.4, "meddle": 2},
        "manual": [],
        **changes,
    }
    return storms.storm_of(seed, (each.dag.dag_id for each in expected), **given)


# DAGs whose due dates can be counted on the fingers.


def expect(number: int, *, until: DateTime = NOW) -> Expected:
    """Return one of many different DAGs, with one to three intervals to catch up with."""
    backlog, kind = (1, 3, 1, 2)[number % 4], number // 4 % 4
    every = timedelta(minutes=(60, 30, 15, 20)[kind])
    schedule = (
        "0 * * * *",
        every,
        CronTriggerTimetable("*/15 * * * *", timezone="UTC"),
        DeltaTriggerTimetable(every),
    )[kind]
    is_trigger = kind > 1
    start = NOON - every * (backlog - is_trigger)
    dag = DAG(
        f"dag_{number}",
        schedule=schedule,
        start_date=start,
        # A trigger by delta without catchup runs at the moment of the claim, if clocks stand still.
        catchup=number // 16 % 3 > 0 or kind == 3,
        max_active_runs=1 + number // 48 % 4,
    )
    first_at = start if is_trigger else start + every
    count = int((until - first_at).total_seconds() // every.total_seconds()) + 1
    return Expected(dag, [start + every * step for step in range(count)])


# The verdict.


def judge(expected: Sequence[Expected], outcome: Outcome) -> list[str]:
    """Return everything that is not as it should be when the storm is over."""
    runs: dict[str, list[Runs]] = defaultdict(list)
    for run in Runs.scan(consistent_read=True):
        runs[run.dag_id].append(run)
    rows = {row.dag_id: row for row in Dags.scan(consistent_read=True)}
    limits = {each.dag.dag_id: each.dag.max_active_runs for each in expected}
    found = storms.judge_all(outcome, limits, {})
    for each in expected:
        row = rows[each.dag.dag_id]
        texts = [*judge_runs(each, runs[row.dag_id]), *judge_rest(row)]
        found += [f"DAG {row.dag_id}: {text}" for text in texts]
    return found


def judge_runs(expected: Expected, runs: Sequence[Runs]) -> Iterator[str]:
    """Tell what is wrong with the runs that a DAG has."""
    dates = Counter(run.logical_date for run in runs if run.logical_date is not None)
    if twice := [date for date, times in dates.items() if times > 1]:
        yield f"several runs for {twice}"
    if missing := expected.needed - {run.run_key for run in runs}:
        yield f"no run for {sorted(missing)}"
    scheduled = {run.run_key for run in runs if run.run_type == "scheduled"}
    if strange := scheduled - {iso(date) for date in expected.dates}:
        yield f"runs for dates that are not due: {sorted(strange)}"
    if unfinished := [run.run_key for run in runs if run.ended_at is None]:
        yield f"unfinished runs: {unfinished}"


def judge_rest(row: Dags) -> Iterator[str]:
    """Tell what a DAG's row still holds though nothing is left to be done."""
    if row.active or row.waiting:
        yield f"slots {row.active}, waiting {row.waiting}"
    if row.next_run_create_after is None or row.next_run_create_after <= clock.now():
        yield f"still due at {row.next_run_create_after}"
    if row.due_shard is None:
        yield "not in the index"


def test_storm_of_tickers_with_faults_claims_every_interval_once(
    environment: dict[str, str],
) -> None:
    """Crashes, stale indexes and lost answers at every turn cost work, but no run and no slot."""
    expected = [expect(number) for number in range(300)]
    with runtime.using(clock=clock.FixedClock(BEFORE)):
        store_dags(each.dag for each in expected)
    # People ask for runs without a date, and for some of the very dates that are due.
    manual = [
        (each.dag.dag_id, iso(each.dates[number % len(each.dates)]) if number % 2 else None)
        for number, each in enumerate(expected[::7])
    ]
    asked = [
        storm_of(seed, expected, faults=FAULTS, pause_count=8, manual=manual[seed::PROCESSES])
        for seed in range(PROCESSES)
    ]

    outcome = rage("ticker", environment, *asked)

    print(outcome)  # noqa: T201 - to be seen when it fails
    assert judge(expected, outcome) == []


@pytest.mark.full
def test_storm_of_tickers_on_one_dag_claims_every_interval_once(
    environment: dict[str, str],
) -> None:
    """All threads want the next interval of the same DAG, and each interval has one winner."""
    every = timedelta(minutes=5)
    dates = [NOON - every * step for step in range(100, 0, -1)]
    dag = DAG("hot", schedule=every, start_date=dates[0], max_active_runs=4)
    expected = [Expected(dag, dates)]
    store_dags([dag])
    weights = {"claim": 1, "finish": 8, "sweep": 0.2}
    asked = [
        storm_of(seed, expected, weights=weights, lost_messages=0) for seed in range(PROCESSES)
    ]

    outcome = rage("ticker", environment, *asked)

    print(outcome)  # noqa: T201 - to be seen when it fails
    assert judge(expected, outcome) == []
