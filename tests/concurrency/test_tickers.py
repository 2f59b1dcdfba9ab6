"""Many processes claim the same DAGs at once: every interval becomes a run, and none does twice.

The processes are `ticker.py`. What they committed is judged from outside: by arithmetic, by the
history of every DAG's row, and by the promises that all tests share.
"""

import json
import os
import subprocess
import sys
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import boto3
import pytest
from pendulum import DateTime, datetime

from lamplighter import DAG, clock, settings
from lamplighter.settings import Settings
from lamplighter.store.attributes import instant_text
from lamplighter.store.models import Dags, Runs
from lamplighter.timetables.trigger import CronTriggerTimetable, DeltaTriggerTimetable
from lamplighter.zones import iso
from lamplighter_local.definitions import store_dags
from lamplighter_local.invariants import violations
from lamplighter_local.resources import create_tables

TICKER = Path(__file__).with_name("ticker.py")
PROCESSES, THREADS = 4, 8
# The emulator takes no more. Few shards, because a tick may die at each call, and asks them all.
DEPLOYMENT = Settings(transaction_actions=10, due_shards=4)

NOON = datetime(2026, 1, 1, 12)
NOW = NOON.add(seconds=30)
# The DAGs were stored when none was due yet, so that catchup decides when they are claimed.
BEFORE = NOON.subtract(days=2)

FAULTS = {
    "crash_before": 0.05,
    "crash_after": 0.05,
    "lost_answer": 0.02,
    "throttle": 0.02,
    "conflict": 0.02,
    "stale": 0.4,
}


@dataclass(frozen=True)
class Expected:
    """A DAG, and the dates that are due by arithmetic, oldest first."""

    dag: DAG
    dates: Sequence[DateTime]

    @property
    def needed(self) -> set[str]:
        """The run keys that there must be at the end."""
        return {iso(date) for date in (self.dates if self.dag.catchup else self.dates[-1:])}


@dataclass
class Outcome:
    """What the processes said, added up."""

    seconds: float = 0
    processes: int = 0
    finished: int = 0
    commits: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    counts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    cancelled: int = 0
    unsure: int = 0

    def add(self, answer: Mapping[str, Any]) -> None:
        """Count in one process."""
        self.processes += 1
        self.finished += answer["is_over"]
        self.commits += answer["commits"]
        self.errors += answer["errors"]
        self.cancelled += answer["cancelled"]
        self.unsure += answer["unsure"]
        for name in ("calls", "injected", "outcomes", "reported"):
            self.counts[name].update(answer[name])

    def __str__(self) -> str:
        runs = sum(len(commit["runs"]) for commit in self.commits)
        by_role: Counter[str] = Counter()
        for name, number in self.counts["calls"].items():
            by_role[name.split()[0]] += number
        for_each = {role: round(number / max(1, runs), 1) for role, number in by_role.items()}
        lines = [
            f"{runs} runs in {self.seconds:.1f} s, {len(self.commits)} writes of DAGs",
            f"calls for each run: {round(by_role.total() / max(1, runs), 1)}, by role: {for_each}",
            f"transactions cancelled: {self.cancelled}, sent more than once: {self.unsure}",
        ]
        lines += [f"{name}: {dict(sorted(found.items()))}" for name, found in self.counts.items()]
        return "\n".join(lines)


@pytest.fixture(name="environment")
def make_database(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """Make empty tables; return the environment of a process that works on them."""
    environment = {
        "AWS_ENDPOINT_URL": dynamodb_endpoint,
        "AWS_ACCESS_KEY_ID": uuid.uuid4().hex,  # each sees tables of its own
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "LAMPLIGHTER_TABLE_PREFIX": DEPLOYMENT.table_prefix,
        "LAMPLIGHTER_TRANSACTION_ACTIONS": str(DEPLOYMENT.transaction_actions),
        "LAMPLIGHTER_DUE_SHARDS": str(DEPLOYMENT.due_shards),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    client = boto3.Session().client("dynamodb")  # the default one keeps the first key it saw
    create_tables(client, DEPLOYMENT.table_prefix, leave_out=["DeletionProtectionEnabled"])
    client.close()
    with settings.using(Settings.from_environment()), clock.using(clock.FixedClock(NOW)):
        yield environment


def rage(environment: Mapping[str, str], *storms: Mapping[str, Any]) -> Outcome:
    """Let one process rage for each of the storms, all at once; return what came of it."""
    # Coverage would follow them there, and slow them down to a breeze.
    own = {name: text for name, text in os.environ.items() if not name.startswith("COVERAGE_")}
    outcome = Outcome()
    with ExitStack() as until_the_end:
        processes = [
            until_the_end.enter_context(
                subprocess.Popen(
                    [sys.executable, TICKER],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env={**own, **environment},
                    text=True,
                )
            )
            for _ in storms
        ]
        for process in processes:
            until_the_end.callback(process.kill)
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        for process, storm in zip(processes, storms, strict=True):
            assert process.stdin is not None
            time_span = {"began_at": began, "ends_at": began + storm["ends_at"]}
            process.stdin.write(json.dumps({**storm, **time_span}) + "\n")
            process.stdin.flush()
        for process in processes:
            answer, _ = process.communicate(timeout=600)
            outcome.add(json.loads(answer))
        outcome.seconds = time.monotonic() - began
    return outcome


def storm_of(seed: int, expected: Sequence[Expected], **changes: Any) -> dict[str, Any]:
    """Return what one process is asked to do, as `ticker.Storm` has it."""
    return {
        "seed": seed,
        "now": instant_text(NOW),
        "speed": 0,
        "moves_for": 0,
        "ends_at": 150,
        "threads": THREADS,
        "dag_ids": [each.dag.dag_id for each in expected],
        "faults": {},
        "lost_messages": 0.2,
        "repeated_messages": 0.1,
        "weights": {"tick": 0.2, "claim": 3, "finish": 8, "sweep": 0.4, "meddle": 2},
        "pauses": 0,
        "manual": [],
        **changes,
    }


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
    commits: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for commit in sorted(outcome.commits, key=lambda commit: commit["rev"]):
        commits[commit["dag_id"]].append(commit)
    found = [*outcome.errors, *violations()]
    if outcome.finished < outcome.processes:
        found.append(f"{outcome.finished} of {outcome.processes} processes came to an end in time")
    gaps = 0
    for each in expected:
        row, own = rows[each.dag.dag_id], commits[each.dag.dag_id]
        texts = [
            *judge_runs(each, runs[row.dag_id]),
            *judge_rest(row),
            *judge_history(each, own),
        ]
        found += [f"DAG {row.dag_id}: {text}" for text in texts]
        gaps += int(row.rev) - 1 - len({commit["rev"] for commit in own})
    if gaps > outcome.unsure:
        found.append(f"{gaps} writes of DAGs that nobody sent, {outcome.unsure} were uncertain")
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


def judge_history(expected: Expected, commits: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Tell what was wrong at any moment, given the writes of a DAG's row in their order."""
    limit = expected.dag.max_active_runs
    created = [key for commit in commits for key in commit["runs"]]
    scheduled = [
        key for commit in commits for key, kind in commit["runs"].items() if kind == "scheduled"
    ]
    for commit in commits:
        if len(commit.get("active", ())) > limit:
            yield f"rev {commit['rev']} has {commit['active']} where {limit} are allowed"
    for before, after in pairwise(commits):
        if before["rev"] == after["rev"]:
            yield f"rev {after['rev']} was written twice"
        if before["span"][0] > after["span"][1]:
            yield f"rev {after['rev']} was answered before rev {before['rev']} was sent"
    if len(created) > len(set(created)):
        yield f"created twice: {created}"
    if scheduled != sorted(scheduled):
        yield f"created out of order: {scheduled}"


def test_storm_of_tickers_with_faults_claims_every_interval_once(
    environment: dict[str, str],
) -> None:
    """Crashes, stale indexes and lost answers at every turn cost work, but no run and no slot."""
    expected = [expect(number) for number in range(300)]
    with clock.using(clock.FixedClock(BEFORE)):
        store_dags(each.dag for each in expected)
    # People ask for runs without a date, and for some of the very dates that are due.
    manual = [
        (each.dag.dag_id, iso(each.dates[number % len(each.dates)]) if number % 2 else None)
        for number, each in enumerate(expected[::7])
    ]
    storms = [
        storm_of(seed, expected, faults=FAULTS, pauses=8, manual=manual[seed::PROCESSES])
        for seed in range(PROCESSES)
    ]

    outcome = rage(environment, *storms)

    print(outcome)  # noqa: T201 - to be seen when it fails
    assert judge(expected, outcome) == []


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
    storms = [
        storm_of(seed, expected, weights=weights, lost_messages=0) for seed in range(PROCESSES)
    ]

    outcome = rage(environment, *storms)

    print(outcome)  # noqa: T201 - to be seen when it fails
    assert judge(expected, outcome) == []
