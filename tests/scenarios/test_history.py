"""Weeks of the example bundle with instant steps: nothing is lost, and it happens twice alike."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = """
import json, sys
from tests.tools.checked_deployment import LocalDeployment

bundle, days = sys.argv[1], float(sys.argv[2])
variables = {"data_root": "lake"}
with LocalDeployment(bundle, at="2025-12-31T23:00:00Z", variables=variables) as lamp:
    lamp.advance(days=days / 2)
    lamp.fail_next("orders_hourly", "clean", times=2)
    lamp.takes("revenue_daily", "build", hours=7)
    lamp.emit("fx", extra={"rows": 3})
    lamp.advance(hours=5, deliver=False)
    lamp.advance(days=days / 2)
    lamp.check_invariants()
    print(json.dumps({dag.dag_id: lamp.runs(dag.dag_id) for dag in lamp.dags()}, default=str))
"""


def told(days: float, *, hash_seed: int) -> dict[str, list[str]]:
    """Return the runs of some days, by DAG, as a process of its own tells them."""
    command = [sys.executable, "-c", PROGRAM, str(EXAMPLES), str(days)]
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    runs: dict[str, list[str]] = json.loads(done.stdout)
    return runs


def counts(runs: dict[str, list[Any]]) -> dict[str, int]:
    """Return the number of runs of each DAG."""
    return {dag_id: len(found) for dag_id, found in runs.items()}


def test_same_seed_gives_the_same_history() -> None:
    """A day with failures, a long step and an outage is the same in every detail, told twice."""
    one, other = told(1, hash_seed=1), told(1, hash_seed=2)

    assert one == other
    assert counts(one)["orders_hourly"] == 29


@pytest.mark.full
def test_month_of_the_examples_is_sound_and_the_same_twice() -> None:
    """In a month nothing is lost or doubled, and a second one has the same history."""
    one, other = told(31, hash_seed=1), told(31, hash_seed=2)

    assert one == other
    assert counts(one)["orders_hourly"] == 31 * 24 + 5
    assert sum(counts(one).values()) > 900
