"""Compares what both schedulers spend to create timed runs.

Owns: how Airflow's program is called, and which of the numbers become rows.
"""

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench import lamplighter_runs
from tests.bench.creation import Creation
from tests.bench.rows import Row, Unit

HERE = Path(__file__).resolve().parent
_DAGS = 200
_DUE = (1, 5)


@dataclass(frozen=True)
class AirflowCreations:
    """What Airflow's scheduler was measured with, and one measurement for each number due."""

    python: str
    database: str
    dags: int
    dags_per_step: int
    creations: tuple[Creation, ...]


def measure_airflow(
    python: str, environment: Mapping[str, str], *, dags: int = _DAGS, due: tuple[int, ...] = _DUE
) -> AirflowCreations:
    """Return the best rounds of Airflow's scheduler, run by the interpreter that has it."""
    command = [python, str(HERE / "airflow_scheduler.py"), "--dags", str(dags)]
    command += ["--due", *map(str, due)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    measured = json.loads(done.stdout.splitlines()[-1])
    creations = tuple(Creation(**one) for one in measured.pop("creations"))
    return AirflowCreations(**measured, creations=creations)


def measure_scheduling(
    python: str, environment: Mapping[str, str], say: Callable[[str], None]
) -> list[Row]:
    """Return the rows of every number of due runs."""
    rows = []
    for due in _DUE:  # one after the other each time, because a machine's speed may drift
        say(f"scheduling: Airflow creates {due} runs of each of {_DAGS} DAGs")
        (airflows,) = measure_airflow(python, environment, due=(due,)).creations
        say(f"scheduling: Lamplighter creates {due} runs of each of {_DAGS} DAGs")
        ours = lamplighter_runs.measure(_DAGS, due=due)
        rows += _rows(f"create a run, {_DAGS} DAGs, {due} due", ours, airflows)
    return rows


def _rows(name: str, ours: Creation | None, airflows: Creation) -> list[Row]:
    def row(name: str, number: Callable[[Creation], float], unit: Unit = "seconds") -> Row:
        return Row(name, None if ours is None else number(ours), number(airflows), None, unit)

    return [
        row(name, lambda one: one.own_cpu),
        row("  with a database in the process", lambda one: one.cpu),
        # How long the emulator of DynamoDB takes says nothing about DynamoDB.
        Row("  until it is stored", None, airflows.elapsed, limit=None),
        row("  statements, or calls of DynamoDB", lambda one: sum(one.requests.values()), "count"),
    ]
