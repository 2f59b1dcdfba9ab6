"""Compares what both schedulers spend on asset events.

Owns: how Airflow's program is called, and which of the numbers become rows.
"""

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.bench import lamplighter_events
from tests.bench.costs import WAIT, Cost
from tests.bench.rows import Row

HERE = Path(__file__).resolve().parent
_BATCH = 100
_CPU_SHARE = 0.2
_CALLS_PER_EVENT = 0.3
_REQUESTS = "  statements, or calls of DynamoDB"


def measure_events(
    python: str, environment: Mapping[str, str], say: Callable[[str], None]
) -> list[Row]:
    """Return the rows of events that wait, share a run, or make one each."""
    say(f"events: Airflow takes {_BATCH} events, one after the other")
    airflows = _measure_airflow(python, environment)
    say(f"events: Lamplighter takes {_BATCH} events, in batches of {_BATCH}")
    rows = [
        row
        for ours in lamplighter_events.measure(_BATCH)
        for row in _rows(ours, airflows[ours.name])
    ]
    say(f"events: {_BATCH} consumers wait for the other half of an AND")
    waiting = lamplighter_events.calls_of_waiting(_BATCH)
    wait = airflows[WAIT]
    rows.append(Row(f"{WAIT}, each pass", 0 if waiting == 0 else None, wait.own_cpu, 0))
    rows.append(Row(_REQUESTS, waiting, sum(wait.requests.values()), 0, "count"))
    return rows


def _measure_airflow(python: str, environment: Mapping[str, str]) -> dict[str, Cost]:
    command = [python, str(HERE / "airflow_assets.py"), "--events", str(_BATCH)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    costs = [Cost(**cost) for cost in json.loads(done.stdout.splitlines()[-1])["costs"]]
    return {cost.name: cost for cost in costs}


def _rows(ours: Cost, airflows: Cost) -> list[Row]:
    limit = _CPU_SHARE * airflows.own_cpu
    calls = [sum(cost.requests.values()) for cost in (ours, airflows)]
    return [
        Row(f"{ours.name}, {ours.count} in a batch", ours.own_cpu, airflows.own_cpu, limit),
        Row("  with a database in the process", None, airflows.cpu, None),
        Row(_REQUESTS, calls[0], calls[1], _CALLS_PER_EVENT, "count"),
    ]
