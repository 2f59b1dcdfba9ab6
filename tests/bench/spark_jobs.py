"""Runs the example's jobs on ten million generated orders, in the Spark that tests use.

Owns: what is timed, which is each job from being handed to the warm worker to its end, and the most
memory that the JVM ever had. Airflow has no counterpart: it would start the same Spark.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lamplighter.bundles.archive import build_archive
from lamplighter.executors import JobRequest, JobState
from lamplighter_local.spark.executor import LocalSparkExecutor
from lamplighter_local.spark.java import find_java_home
from tests.bench.rows import Row

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ORDERS = 10_000_000
_DAYS = [f"2026-01-{day:02}" for day in range(1, 8)]
_INTERVAL = ("2026-01-01T00:00:00+00:00", "2026-01-10T00:00:00+00:00")
_CORES = 2


def measure_spark(say: Callable[[str], None], *, orders: int = ORDERS) -> list[Row]:
    """Return the seconds of each job, and the peak of memory in GB."""
    home = find_java_home()
    if home is None:
        return []
    millions = f"{orders / 1e6:g} million orders"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        say(f"spark: generating {millions}")
        rows = [Row(f"generate {millions}", _generate(root / "lake", orders, home), None, None)]
        (root / "bundle.zip").write_bytes(build_archive(EXAMPLES).data)
        with LocalSparkExecutor(root / "jobs", cores=_CORES, job_seconds=3_600) as executor:
            for name, context in _jobs(str(root / "lake")).items():
                say(f"spark: {name}, {millions}")
                rows.append(Row(f"  {name}", _run(executor, root, name, context), None, None))
            peak = _peak_memory(executor)
    return [*rows, Row("  most memory of the JVM, in GB", peak, None, None, "count")]


def _generate(root: Path, orders: int, home: Path) -> float:
    command = [sys.executable, "-m", "jobs.shop.generate", "--root", str(root)]
    command += ["--orders", str(orders), "--days", str(len(_DAYS)), "--start", _DAYS[0]]
    environment = {
        **os.environ,
        "JAVA_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": f"--master local[{_CORES}] --driver-memory 4g pyspark-shell",
    }
    began = time.perf_counter()
    subprocess.run(command, check=True, cwd=EXAMPLES, env=environment, stderr=subprocess.DEVNULL)
    return time.perf_counter() - began


def _jobs(root: str) -> dict[str, dict[str, Any]]:
    """Return what each job is told, as if one run had all the days."""
    start, end = _INTERVAL
    days = {"event_id": "e", "timestamp": start, "extra": {"days": _DAYS}}
    told = [{**days, "asset": "orders", "source": None, "partition_key": None}]
    return {
        "load, a script": {
            "entry_point": "jobs/load_orders.py",
            "arguments": ["--from", start, "--to", end, "--root", root],
        },
        "clean": {"job": "jobs.orders:clean", "outlets": [{"kind": "asset", "name": "orders"}]},
        "load rates": {"job": "jobs.fx:load", "outlets": [{"kind": "asset", "name": "fx"}]},
        "revenue": {
            "job": "jobs.revenue:build",
            "outlets": [{"kind": "asset", "name": "revenue"}],
            "triggering_asset_events": {"orders": told},
        },
    }


def _run(executor: LocalSparkExecutor, root: Path, name: str, told: dict[str, Any]) -> float:
    start, end = _INTERVAL
    context = {
        "version": 1,
        "dag_id": "bench",
        "run_id": "bench",
        "run_type": "scheduled",
        "task_id": "bench",
        "try_number": 1,
        "submission": 1,
        "logical_date": start,
        "data_interval_start": start,
        "data_interval_end": end,
        "run_after": end,
        "partition_key": None,
        **{name: {} for name in ("params", "conf", "triggering_asset_events")},
        "variables": {"data_root": str(root / "lake")},
        **{name: [] for name in ("inlets", "outlets", "arguments")},
        "job": None,
        "entry_point": None,
        **told,
    }
    folder = root / name.replace(" ", "-")
    folder.mkdir()
    (folder / "context.json").write_text(json.dumps(context))
    job_run_id = executor.start(
        JobRequest(name, name, str(folder / "context.json"), str(root / "bundle.zip"))
    )
    began = time.perf_counter()
    executor.work()
    seconds = time.perf_counter() - began
    job = executor.describe(job_run_id)
    if job is None or job.state is not JobState.SUCCESS:
        raise AssertionError(job)
    return seconds


def _peak_memory(executor: LocalSparkExecutor) -> float | None:
    """Return the most memory that the worker's JVM had, in GB; None where nobody knows."""
    process = executor._process
    if process is None or not Path("/proc").is_dir():
        return None
    group = process._process.pid
    peaks = [0]
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            if os.getpgid(int(status.parent.name)) != group:
                continue
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except (OSError, ValueError):  # it has just ended, or is not ours to look at
            continue
        peaks.append(int(lines.get("VmHWM", "0 kB").split()[0]))
    return max(peaks) / 1e6
