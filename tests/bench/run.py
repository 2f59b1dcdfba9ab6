"""Measures Lamplighter beside Apache Airflow: CPU per question and per run, and the time to import.

Both take turns on the same machine. A target that is missed is shown as such; the exit code is 0
all the same, because a busy machine is no mistake in the code.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import median

from rich.console import Console

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.bench.events import measure_events  # noqa: E402 - the path comes first
from tests.bench.rows import Row, show  # noqa: E402 - the path comes first
from tests.bench.scheduling import measure_scheduling  # noqa: E402
from tests.bench.shared_streams import measure_shared_streams  # noqa: E402
from tests.bench.sides import medians_of_rounds  # noqa: E402
from tests.bench.spark_jobs import measure_spark  # noqa: E402
from tests.bench.steps import measure_steps  # noqa: E402

_IMPORTS = 9
_CPU_SHARE = 0.1
_IMPORT_LIMIT = 0.150

Say = Callable[[str], None]


def measure_timetables(python: str, environment: dict[str, str], say: Say) -> list[Row]:
    """Return the medians of several rounds, in which both take turns."""
    medians = medians_of_rounds(
        "measure.py", python, environment, lambda n: say(f"timetables: {n}")
    )
    return [
        Row(name, ours, airflows, limit=_CPU_SHARE * airflows)
        for name, (ours, airflows) in medians.items()
    ]


def measure_imports(python: str, environment: dict[str, str], say: Say) -> list[Row]:
    """Return the medians of fresh processes, from their start to their end."""
    commands = {
        "lamplighter": (sys.executable, "import lamplighter"),
        "pendulum": (sys.executable, "import pendulum"),
        "nothing": (sys.executable, "pass"),
        "airflow": (python, "import airflow.timetables.interval"),
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(_IMPORTS + 1):
        say(f"imports: process {number} of {_IMPORTS}")
        for name, (interpreter, code) in commands.items():
            seconds = _wall_seconds([interpreter, "-c", code], environment)
            if number:  # the first one may have to compile
                taken[name].append(seconds)
    middle = {name: median(seconds) for name, seconds in taken.items()}
    return [
        Row("import, in a fresh process", middle["lamplighter"], middle["airflow"], _IMPORT_LIMIT),
        Row("  of which pendulum and Python", middle["pendulum"], None, None),
        Row("  of which Python", middle["nothing"], None, None),
    ]


def _wall_seconds(command: list[str], environment: dict[str, str]) -> float:
    started_at = time.perf_counter()
    subprocess.run(command, check=True, env=environment)
    return time.perf_counter() - started_at


def main() -> None:
    """Measure everything and print one table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--airflow-python", required=True, help="interpreter that has Airflow")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, Console(stderr=True).status("starting") as status:
        # Airflow writes its configuration there; compiled files must be written and used.
        environment = {**os.environ, "AIRFLOW_HOME": home}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        rows = measure_timetables(options.airflow_python, environment, status.update)
        rows += measure_scheduling(options.airflow_python, environment, status.update)
        rows += measure_steps(options.airflow_python, environment, status.update)
        rows += measure_events(options.airflow_python, environment, status.update)
        rows += measure_shared_streams(options.airflow_python, environment, status.update)
        rows += measure_spark(status.update)
        rows += measure_imports(options.airflow_python, environment, status.update)
    if options.json:
        print(json.dumps([{**asdict(row), "is_met": row.is_met} for row in rows], indent=2))
    else:
        show(rows)


if __name__ == "__main__":
    main()
