"""Compares what both schedulers spend to execute runs of one step.

Owns: how Airflow's program is called, and which of the numbers become rows.
"""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from lamplighter import PythonTask, SparkTask, StepFunctionsTask
from tests.bench import lamplighter_steps
from tests.bench.costs import EXECUTE, Cost
from tests.bench.rows import Row

HERE = Path(__file__).resolve().parent
_RUNS = 100
# Claim, intent, start, the job's id, that it runs, finish: all but the start shared or single.
_CALLS_PER_RUN = 5
_KINDS = {
    SparkTask.kind: "Spark",
    PythonTask.kind: "Python",
    StepFunctionsTask.kind: "Step Functions",
}


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
        *_of_kinds(say),
    ]


def _of_kinds(say: Callable[[str], None]) -> Iterator[Row]:
    """Yield what a run costs whose only step is of another kind, and how soon each kind runs."""
    for kind, name in _KINDS.items():
        say(f"steps: {_RUNS} runs of one {name} step")
        if kind != SparkTask.kind:  # its calls have a row beside Airflow's
            calls = sum(lamplighter_steps.calls_per_run(_RUNS, kind).values())
            yield Row(f"  calls of AWS, for a {name} step", calls, None, None, "count")
        seconds = lamplighter_steps.seconds_to_running(kind)
        yield Row(f"  from due to running, local clock: {name}", seconds, None, None)
