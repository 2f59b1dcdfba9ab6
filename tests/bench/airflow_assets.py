"""Measures what Airflow spends on asset events: `python airflow_assets.py`.

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


def measure(home: Path, *, events: int, fired: int, consumers: int) -> dict[str, Any]:
    """Return the best round of each cost, and what it was measured with."""
    # Airflow reads its settings now.
    import airflow  # noqa: PLC0415

    from tests.bench import airflow_events, airflow_instance  # noqa: PLC0415

    database = airflow_instance.Database(home)
    rounds = [
        [
            *airflow_events.measure_recording(database, events),
            *airflow_events.measure_firing(database, fired),
            *airflow_events.measure_sharing(database, events),
            *airflow_events.measure_waiting(database, consumers),
        ]
        for _ in range(_ROUNDS)
    ]
    best = [min(same, key=lambda cost: cost.own_cpu) for same in zip(*rounds, strict=True)]
    return {
        "airflow": airflow.__version__,
        "python": platform.python_version(),
        "database": f"SQLite {sqlite3.sqlite_version}",
        "consumers": consumers,
        "costs": [asdict(cost) for cost in best],
    }


def main() -> None:
    """Measure in a home that is thrown away."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100, help="recorded, or for one run")
    parser.add_argument("--fired", type=int, default=50, help="events with a run of their own")
    parser.add_argument("--consumers", type=int, default=100, help="DAGs that wait")
    options = parser.parse_args()
    with temporary_home() as home:
        measured = measure(
            home, events=options.events, fired=options.fired, consumers=options.consumers
        )
        print(json.dumps(measured))


if __name__ == "__main__":
    main()
