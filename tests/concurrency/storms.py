"""Storms: several processes at once on the same tables, and what they say when they are over.

Owns: starting them, and the verdict on what every storm must leave behind, from the history of each
DAG's row. Refuses: knowing what the DAGs wait for.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pendulum import datetime

from lamplighter.settings import Settings
from lamplighter.store.models import Dags
from lamplighter.store.rows import instant_text
from lamplighter.timetables.base import DagRunInfo
from tests.tools.invariants.tables import violations

PROCESSES, THREADS = 4, 8
# The emulator takes no more. Few shards, because a tick may die at each call, and asks them all.
DEPLOYMENT = Settings(
    transaction_actions=10,
    due_shards=4,
    run_shards=2,
    # What stays open for a moment is swept while others are still at it.
    resend_after_seconds=1,
    bucket="bucket",
    job_starts_per_second=0,
    queue_urls={
        name: f"https://sqs/{name}"
        for name in ("claims", "submits", "registers", "events", "events.fifo", "events-dlq")
    },
)

NOON = datetime(2026, 1, 1, 12)
NOW = NOON.add(seconds=30)

FAULTS = {
    "crash_before": 0.05,
    "crash_after": 0.05,
    "lost_answer": 0.02,
    "throttle": 0.02,
    "conflict": 0.02,
    "stale": 0.4,
}

Commit = Mapping[str, Any]
_NO_ORIGINS: Mapping[str, DagRunInfo] = MappingProxyType({})
_ROOT = Path(__file__).parents[2]


def fewer_faults(share: float) -> dict[str, float]:
    """Return the usual faults, of which only a share befalls calls; reads are as stale as ever."""
    return {kind: chance if kind == "stale" else share * chance for kind, chance in FAULTS.items()}


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
    answers: list[Mapping[str, Any]] = field(default_factory=list)

    def add(self, answer: Mapping[str, Any]) -> None:
        """Count in one process."""
        self.answers.append(answer)
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


def rage(program: str, environment: Mapping[str, str], *storms: Mapping[str, Any]) -> Outcome:
    """Let one process of a program rage for each of the storms; return what came of it."""
    # Coverage would follow them there, and slow them down to a breeze.
    own = {name: text for name, text in os.environ.items() if not name.startswith("COVERAGE_")}
    outcome = Outcome()
    with ExitStack() as until_the_end:
        processes = [
            until_the_end.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", f"tests.concurrency.{program}"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    cwd=_ROOT,
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
            answer, _ = process.communicate(timeout=1200)
            outcome.add(json.loads(answer))
        outcome.seconds = time.monotonic() - began
    return outcome


def storm_of(seed: int, dag_ids: Iterable[str], **changes: Any) -> dict[str, Any]:
    """Return what one process is asked to do, as `turns.Storm` has it."""
    return {
        "seed": seed,
        "now": instant_text(NOW),
        "speed": 0,
        "moves_for": 0,
        "ends_at": 900,
        "threads": THREADS,
        "dag_ids": list(dag_ids),
        "faults": {},
        "lost_messages": 0,
        "repeated_messages": 0.1,
        "pause_count": 0,
        **changes,
    }


# The verdict.


def judge_all(
    outcome: Outcome,
    limits: Mapping[str, int],
    revs: Mapping[str, int],
    origins: Mapping[str, DagRunInfo] = _NO_ORIGINS,
) -> list[str]:
    """Return what no storm may leave behind.

    Args:
        outcome: What the processes said.
        limits: How many runs of each DAG may be active.
        revs: The `rev` that DAGs had before the storm; of the others it is 1 when they come.
        origins: Where the present schedules of DAGs began, as `violations` has it.
    """
    commits: dict[str, list[Commit]] = defaultdict(list)
    for commit in sorted(outcome.commits, key=lambda commit: commit["rev"]):
        commits[commit["dag_id"]].append(commit)
    found = [*outcome.errors, *violations(origins=origins)]
    if outcome.finished < outcome.processes:
        found.append(f"{outcome.finished} of {outcome.processes} processes came to an end in time")
    gaps = 0
    for row in Dags.scan(consistent_read=True):
        own = commits[row.dag_id]
        found += [f"DAG {row.dag_id}: {text}" for text in judge_history(own, limits[row.dag_id])]
        gaps += int(row.rev) - revs.get(row.dag_id, 1) - len({commit["rev"] for commit in own})
    if gaps > outcome.unsure:
        found.append(f"{gaps} writes of DAGs that nobody sent, {outcome.unsure} were uncertain")
    return found


def judge_history(commits: Sequence[Commit], limit: int) -> Iterator[str]:
    """Tell what was wrong at any moment, given the writes of a DAG's row in their order."""
    created = [key for commit in commits for key in commit["runs"]]
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
    scheduled = [
        key for commit in commits for key, kind in commit["runs"].items() if kind == "scheduled"
    ]
    if scheduled != sorted(scheduled):
        yield f"created out of order: {scheduled}"
