"""Measures what Airflow's scheduler spends to create timed runs: `python airflow_scheduler.py`.

It runs under the interpreter that has Airflow and prints one JSON object, on the last line. Each
number is the best of several rounds, each in an empty database of its own.
"""

import argparse
import json
import os
import platform
import sqlite3
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

_ROUNDS = 3


def _settings(home: str) -> dict[str, str]:
    return {
        "AIRFLOW_HOME": home,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONNECT_ARGS": "tests.bench.airflow_database.CONNECT_ARGS",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
    }


def measure(home: str, *, dags: int, due: list[int]) -> dict[str, Any]:
    """Return the best round for each number of due runs, and what it was measured with."""
    from tests.bench import airflow_runs  # noqa: PLC0415 - Airflow reads its settings now

    database = airflow_runs.Database(Path(home))
    creations = []
    for runs in due:
        rounds = [airflow_runs.measure(database, dags, due=runs) for _ in range(_ROUNDS)]
        creations.append(asdict(min(rounds, key=lambda creation: creation.own_cpu)))
    return {
        "python": platform.python_version(),
        "database": f"SQLite {sqlite3.sqlite_version}",
        "dags": dags,
        "dags_per_step": airflow_runs.DAGS_PER_STEP,
        "creations": creations,
    }


def main() -> None:
    """Measure in a home that is thrown away, whatever Airflow is set up on this machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dags", type=int, default=200)
    parser.add_argument("--due", type=int, nargs="+", default=[1, 5], help="due runs of each DAG")
    parser.add_argument("--dags-per-step", type=int, help="instead of Airflow's default")
    options = parser.parse_args()
    for name in [name for name in os.environ if name.startswith("AIRFLOW")]:
        del os.environ[name]
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(_settings(home))
        if options.dags_per_step:
            limit = "AIRFLOW__SCHEDULER__MAX_DAGRUNS_TO_CREATE_PER_LOOP"
            os.environ[limit] = str(options.dags_per_step)
        print(json.dumps(measure(home, dags=options.dags, due=options.due)))


if __name__ == "__main__":
    main()
