"""Measures what Airflow's scheduler spends to create timed runs: `python airflow_scheduler.py`.

It runs under the interpreter that has Airflow and prints one JSON object, on the last line. Each
number is the best of several rounds, each in an empty database of its own.
"""

import argparse
import json
import platform
import sqlite3
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.airflow_home import temporary_home

_ROUNDS = 3
_LIMIT = "AIRFLOW__SCHEDULER__MAX_DAGRUNS_TO_CREATE_PER_LOOP"


def measure(home: Path, *, dags: int, due: list[int]) -> dict[str, Any]:
    """Return the best round for each number of due runs, and what it was measured with."""
    # Airflow reads its settings now.
    from tests.bench import airflow_instance, airflow_runs  # noqa: PLC0415

    database = airflow_instance.Database(home)
    creations = []
    for runs in due:
        rounds = [airflow_runs.measure(database, dags, due=runs) for _ in range(_ROUNDS)]
        creations.append(asdict(min(rounds, key=lambda creation: creation.own_cpu)))
    return {
        "python": platform.python_version(),
        "database": f"SQLite {sqlite3.sqlite_version}",
        "dags": dags,
        "dags_per_step": airflow_instance.DAGS_PER_STEP,
        "creations": creations,
    }


def main() -> None:
    """Measure in a home that is thrown away."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dags", type=int, default=200)
    parser.add_argument("--due", type=int, nargs="+", default=[1, 5], help="due runs of each DAG")
    parser.add_argument("--dags-per-step", type=int, help="instead of Airflow's default")
    options = parser.parse_args()
    more = {_LIMIT: str(options.dags_per_step)} if options.dags_per_step else {}
    with temporary_home(**more) as home:
        print(json.dumps(measure(home, dags=options.dags, due=options.due)))


if __name__ == "__main__":
    main()
