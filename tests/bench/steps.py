"""Compares what both schedulers spend to execute runs of one step.

Owns: how Airflow's program is called, and which of the numbers become rows.
"""

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.bench import lamplighter_steps
from tests.bench.costs import EXECUTE, Cost
from tests.bench.rows import Row

HERE = Path(__file__).resolve().parent
_RUNS = 100
# Claim, intent, start, the job's id, that it runs, finish: all but the start shared or single.
_CALLS_PER_RUN = 5


def measure_steps(
    python: str, environment: Mapping[str, str], say: Callable[[str], None]
) -> list[Row]:
    """Return the rows of a run of one step, from queued to success."""
    say(f"steps: Airflow's scheduler executes {_RUNS} runs of one task")
    command = [python, str(HERE / "airflow_steps.py"), str(_RUNS)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    airflows = Cost(**json.loads(done.stdout.splitlines()[-1]))
    say(f"steps: Lamplighter executes {_RUNS} runs of one task")
    ours = lamplighter_steps.measure(_RUNS)
    say(f"steps: the calls of {_RUNS} runs, from due to done")
    calls = lamplighter_steps.calls_per_run(_RUNS)
    writes = sum(count for name, count in calls.items() if name in lamplighter_steps.WRITES)
    return [
        # Airflow's scheduler leaves to its workers and its API server what is half of ours: talking
        # to the executor and to S3. So the ratio says little, and is no target.
        Row(EXECUTE, ours.own_cpu, airflows.own_cpu, None),
        Row("  with a database in the process", None, airflows.cpu, None),
        Row("  writes and starts, from due to done", writes, None, _CALLS_PER_RUN, "count"),
        Row(
            "  all statements, or calls of AWS",
            sum(calls.values()),
            sum(airflows.requests.values()),
            None,
            "count",
        ),
    ]
