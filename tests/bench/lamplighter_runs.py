"""Lets Lamplighter's scheduler create the runs that are due, and measures it.

Owns: what is timed. The counterpart is `airflow_runs.py`: DAGs of one task, hourly, each with `due`
runs to catch up with, and nothing but the creation of the runs between start and end of the clock.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from unittest.mock import patch

import pendulum
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends

from lamplighter import DAG, SparkTask, clock, runtime
from lamplighter.scheduler.tick import tick
from lamplighter.store.models import Dags
from lamplighter.store.slots import shard_of
from lamplighter_local import resources
from lamplighter_local.emulator.moto_memory import REGION
from lamplighter_local.stack import local_stack
from tests.bench.costs import Cost
from tests.tools.call_counter import counted_calls
from tests.tools.definitions import row_of, store_dags
from tests.tools.moto_server import moto_server

_NOW = pendulum.datetime(2026, 1, 1, 12, 30)
_ROUNDS = 3
DYNAMODB = frozenset(
    {"Query", "BatchGetItem", "TransactGetItems", "TransactWriteItems", "GetItem", "UpdateItem"}
)


def measure(dags: int, *, due: int, rounds: int = _ROUNDS) -> Cost:
    """Create `due` runs of each of so many DAGs in empty tables; return the best of some rounds.

    The emulator of DynamoDB runs in another process: `cpu` is `time.process_time` of this one,
    `database_cpu` is 0, and `requests` counts the calls of DynamoDB by operation.
    """
    return min((_measure(dags, due) for _ in range(rounds)), key=lambda found: found.cpu)


def _measure(dags: int, due: int) -> Cost:
    start = _NOW.start_of("hour").subtract(hours=due)
    with deployment():
        # Clients are made on first use, as a process does once; Airflow's are warm too.
        store_dags([_dag(dags, start)])
        tick(has_time=lambda: True)
        store_dags(_dag(number, start) for number in range(dags))
        with counted_calls() as calls:
            began, cpu = time.perf_counter(), time.process_time()
            report = tick(has_time=lambda: True)
            cpu, elapsed = time.process_time() - cpu, time.perf_counter() - began
    if report.claimed_runs != dags * due:
        raise AssertionError(report)
    runs = report.claimed_runs
    requests = {name: count / runs for name, count in calls.items() if name in DYNAMODB}
    return Cost(f"{due} due", runs, cpu / runs, 0, elapsed / runs, requests)


def _dag(number: int, start: pendulum.DateTime) -> DAG:
    with DAG(f"dag_{number}", schedule="0 * * * *", start_date=start) as dag:
        SparkTask("only", entry_point="jobs/only.py")
    return dag


@contextmanager
def deployment() -> Iterator[None]:
    """Make an empty deployment in another process, at a fixed moment."""
    with moto_server() as endpoint:
        environment = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        with patch.dict(os.environ, environment):
            made, fixed = resources.create_all("bench"), clock.FixedClock(_NOW)
            with runtime.using(settings=made, clock=fixed, new_clients=True):
                yield


def calls_of_idle_tick(dags: int) -> int:
    """Return how many calls a tick makes when so many DAGs are registered and none is due soon."""
    with local_stack(at=_NOW, over_http=True) as stack:
        stored = row_of(_dag(0, _NOW.start_of("hour")))
        store_dags([_dag(0, _NOW.start_of("hour"))])
        # Straight into the emulator's memory: writing them is not what is measured.
        table = dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].tables[Dags.table_name()]
        item = stored.serialize()
        for number in range(1, dags):
            dag_id = f"dag_{number}"
            shard = {"N": str(shard_of(dag_id, stack.settings.due_shards))}
            table.put_item({**item, "dag_id": {"S": dag_id}, "due_shard": shard})
        stack.tick()  # the first one makes clients and the row of the look-ahead
        stack.clock.advance(timedelta(minutes=1))
        with counted_calls() as calls:
            stack.tick()
    return calls.total()
