"""Lets Lamplighter take asset events, and measures it.

Owns: what is timed, which is one call of `ingest` with a batch as Lambda hands it over: reading,
recording, creating the runs, closing. The counterpart is `airflow_events.py`.
"""

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

from lamplighter import DAG, Asset, SparkTask
from lamplighter.events.ingest import ingest
from lamplighter.scheduler.claim import claim_all
from lamplighter.scheduler.tick import tick
from lamplighter.store.models import Runs
from tests.bench.costs import FIRE, RECORD, SHARE, Cost
from tests.bench.lamplighter_runs import DYNAMODB, deployment
from tests.tools.call_counter import counted_calls
from tests.tools.definitions import register_dags

_ROUNDS = 3
_OTHER = Asset("other")


def measure(events: int) -> list[Cost]:
    """Return the costs of batches of so many events, each the best of some rounds."""
    one, many = Asset("asset_0"), [Asset(f"asset_{number}") for number in range(events)]
    cases: list[tuple[str, list[DAG], list[str], int]] = [
        (RECORD, [_dag(0, one & _OTHER)], [one.name] * events, 0),
        (SHARE, [_dag(0, [one])], [one.name] * events, 1),
        (
            FIRE,
            [_dag(number, [asset]) for number, asset in enumerate(many)],
            [asset.name for asset in many],
            events,
        ),
    ]
    return [_best(*case) for case in cases]


def calls_of_waiting(consumers: int) -> float:
    """Return the calls that a half-met condition costs each consumer at a tick between events."""
    return (_calls_of_tick(consumers) - _calls_of_tick(0)) / consumers


def _best(*case: Any) -> Cost:
    return min((_measure(*case) for _ in range(_ROUNDS)), key=lambda cost: cost.cpu)


def _measure(name: str, dags: list[DAG], assets: Sequence[str], runs: int) -> Cost:
    with deployment():
        _register(dags)
        # Clients are made, and consumers looked up, once in the life of a process.
        warm = _batch(dict.fromkeys(assets), "warm")
        _take(warm)
        before = _runs(dags)
        batch = _batch(assets, "event")
        with counted_calls() as calls:
            began, cpu = time.perf_counter(), time.process_time()
            _take(batch)
            cpu, elapsed = time.process_time() - cpu, time.perf_counter() - began
        created = _runs(dags) - before
    if created != runs:
        raise AssertionError(f"{name}: {created} runs instead of {runs}")
    count = len(assets)
    requests = {name: number / count for name, number in calls.items() if name in DYNAMODB}
    return Cost(name, count, cpu / count, 0, elapsed / count, requests)


def _calls_of_tick(consumers: int) -> int:
    with deployment():
        one = Asset("asset_0")
        _register([_dag(number, one & _OTHER) for number in range(consumers)] or [_dag(0, [one])])
        _take(_batch([one.name], "event"))
        tick(has_time=lambda: True)
        with counted_calls() as calls:
            tick(has_time=lambda: True)
    return calls.total()


def _dag(number: int, schedule: Any) -> DAG:
    with DAG(f"dag_{number}", schedule=schedule) as dag:
        SparkTask("only", entry_point="jobs/only.py")
    return dag


def _register(dags: list[DAG]) -> None:
    register_dags(*dags)
    claim_all(dag.dag_id for dag in dags)  # which their registration asks for


def _take(records: list[dict[str, Any]]) -> None:
    report = ingest(records, has_time=lambda: True)
    if report.failed or report.rejected or report.recorded != len(records):
        raise AssertionError(report)


def _runs(dags: list[DAG]) -> int:
    return sum(Runs.count(dag.dag_id, consistent_read=True) for dag in dags)


def _batch(assets: Iterable[str], kind: str) -> list[dict[str, Any]]:
    return [
        {
            "messageId": f"{kind}-{number}",
            "receiptHandle": f"receipt-{number}",
            "body": json.dumps({"asset": asset, "extra": {"rows": number}}),
            "attributes": {"ApproximateReceiveCount": "1"},
            "messageAttributes": {},
            "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:bench-events",
        }
        for number, asset in enumerate(assets)
    ]
