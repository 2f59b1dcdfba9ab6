"""Compares what both schedulers spend to create timed runs.

Owns: how Airflow's program is called, and which of the numbers become rows.
"""

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench import lamplighter_runs
from tests.bench.costs import Cost
from tests.bench.rows import Row

HERE = Path(__file__).resolve().parent
# DAGs, and due runs of each. A tick reads all shards of its index whatever is due; with fewer DAGs
# that weighs more on each of them.
_CASES = ((1_000, 1), (200, 5), (200, 1))
_CPU_SHARE = 0.1
_CALLS_PER_RUN = 0.1
_MANY_RUNS = 1_000
_IDLE_DAGS = (100, 10_000, 100_000)


@dataclass(frozen=True)
class AirflowCreations:
    """What Airflow's scheduler was measured with, and one measurement for each number due."""

    python: str
    database: str
    dags: int
    dags_per_step: int
    creations: tuple[Cost, ...]


def measure_airflow(
    python: str, environment: Mapping[str, str], *, dags: int, due: tuple[int, ...]
) -> AirflowCreations:
    """Return the best rounds of Airflow's scheduler, run by the interpreter that has it."""
    command = [python, str(HERE / "airflow_scheduler.py"), "--dags", str(dags)]
    command += ["--due", *map(str, due)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    measured = json.loads(done.stdout.splitlines()[-1])
    creations = tuple(Cost(**one) for one in measured.pop("creations"))
    return AirflowCreations(**measured, creations=creations)


def measure_scheduling(
    python: str, environment: Mapping[str, str], say: Callable[[str], None]
) -> list[Row]:
    """Return the rows of every number of due runs, and the calls of ticks."""
    rows = []
    for dags, due in _CASES:  # one after the other, because a machine's speed may drift
        say(f"scheduling: Airflow creates {due} runs of each of {dags:,} DAGs")
        (airflows,) = measure_airflow(python, environment, dags=dags, due=(due,)).creations
        say(f"scheduling: Lamplighter creates {due} runs of each of {dags:,} DAGs")
        ours = lamplighter_runs.measure(dags, due=due)
        most_calls = _CALLS_PER_RUN if dags * due >= _MANY_RUNS else None
        rows += _rows(f"create a run, {dags:,} DAGs, {due} due", ours, airflows, most_calls)
    return rows + _idle_rows(say)


def _idle_rows(say: Callable[[str], None]) -> list[Row]:
    """Return the calls of a tick that finds nothing due; the target is that of the smallest."""
    rows: list[Row] = []
    for dags in _IDLE_DAGS:
        say(f"scheduling: a tick with {dags:,} DAGs, none of them due")
        calls = lamplighter_runs.calls_of_idle_tick(dags)
        rows.append(
            Row(
                f"calls of an idle tick, {dags:,} DAGs",
                calls,
                None,
                rows[0].ours if rows else None,
                "count",
            )
        )
    return rows


def _rows(name: str, ours: Cost, airflows: Cost, most_calls: float | None) -> list[Row]:
    def requests(one: Cost) -> float:
        return sum(one.requests.values())

    return [
        Row(name, ours.own_cpu, airflows.own_cpu, _CPU_SHARE * airflows.own_cpu),
        # Airflow's database runs in its process; ours is a service, here emulated in another one.
        Row("  with a database in the process", None, airflows.cpu, None),
        Row(
            "  statements, or calls of DynamoDB",
            requests(ours),
            requests(airflows),
            most_calls,
            "count",
        ),
    ]
