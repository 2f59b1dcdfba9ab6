"""Gives Airflow asset events, lets its scheduler create the runs of them, and measures both.

Owns: what is timed, which is Airflow's own recording of one event, and one call of its scheduler's
creation step, each in a session and a transaction of its own; not the API before the one, nor the
rest of the loop after the other. Every measurement begins in an empty database, does its work once
before it counts, and looks in the tables whether Airflow did what it is measured for.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from airflow.assets.manager import asset_manager
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset
from airflow.serialization.definitions.assets import SerializedAssetUniqueKey
from airflow.utils.session import create_session

from tests.bench.airflow_database import METER
from tests.bench.airflow_instance import Database, register, scheduler, step
from tests.bench.costs import CREATE, FIRE, IDLE, RECORD, SHARE, WAIT, Cost

_A, _B = (Asset(name, uri=f"s3://bucket/{name}") for name in ("orders", "customers"))
_EXTRA = {"rows": 1_000, "path": "day=2026-01-01"}
_PASSES = 10
_TABLES = {
    "events": "SELECT count(*) FROM asset_event WHERE extra LIKE '%day=2026-01-01%'",
    "queued": "SELECT count(*) FROM asset_dag_run_queue",
    "runs": "SELECT count(*) FROM dag_run JOIN task_instance USING (dag_id, run_id)"
    " WHERE run_type = 'asset_triggered'",
    "consumed": "SELECT count(*) FROM dagrun_asset_event",
    "most_of_a_run": "SELECT coalesce(max(events), 0) FROM"
    " (SELECT count(*) AS events FROM dagrun_asset_event GROUP BY dag_run_id)",
}


class Spent:
    """The seconds and statements of the work inside its `with` blocks."""

    def __init__(self) -> None:
        self._cpu = self._database_cpu = self._elapsed = 0.0
        self._statements: Counter[str] = Counter()

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Add what the block takes."""
        METER.reset()
        cpu_before, started_at = time.process_time(), time.perf_counter()
        yield
        self._cpu += time.process_time() - cpu_before
        self._elapsed += time.perf_counter() - started_at
        self._database_cpu += METER.seconds
        self._statements += METER.statements

    def __add__(self, other: "Spent") -> "Spent":
        both = Spent()
        for one in (self, other):
            both._cpu += one._cpu
            both._database_cpu += one._database_cpu
            both._elapsed += one._elapsed
            both._statements += one._statements
        return both

    def divided(self, name: str, count: int) -> Cost:
        """Return the cost of one of so many."""
        return Cost(
            name=name,
            count=count,
            cpu=self._cpu / count,
            database_cpu=self._database_cpu / count,
            elapsed=self._elapsed / count,
            requests={verb: asked / count for verb, asked in sorted(self._statements.items())},
        )


def measure_recording(database: Database, events: int) -> list[Cost]:
    """Record events of an asset that has one consumer; no scheduler runs.

    The consumer is queued by the first event, and found queued by the others.
    """
    database.renew()
    register([_consumer(0, [_A], max_runs=1)])
    _record(_A)
    recording = Spent()
    _repeat(recording, events, lambda: _record(_A))
    _expect(database, events=events + 1, queued=1, runs=0, consumed=0)
    return [recording.divided(RECORD, events)]


def measure_firing(database: Database, events: int) -> list[Cost]:
    """Record one event and create its run, many times over."""
    database.renew()
    register([_consumer(0, [_A], max_runs=events + 2)])
    runner = scheduler()
    recording, creating = Spent(), Spent()
    _record(_A)
    step(runner)
    for _ in range(events):
        _repeat(recording, 1, lambda: _record(_A))
        _repeat(creating, 1, lambda: step(runner))
    all_events = events + 1
    _expect(database, events=all_events, queued=0, runs=all_events, consumed=all_events)
    _expect(database, most_of_a_run=1)
    return [
        creating.divided(CREATE, events),
        (recording + creating).divided(FIRE, events),
    ]


def measure_sharing(database: Database, events: int) -> list[Cost]:
    """Record many events and create the one run of them, after the same has been done before.

    Airflow gives a run the events up to the one that queued its consumer; the others, which came
    while it was queued, are left for the next run. So a first run has one event, and only from the
    second on a run has as many as are recorded for it: those left before it, and one of its own.
    """
    database.renew()
    register([_consumer(0, [_A], max_runs=3)])
    runner = scheduler()
    _repeat(Spent(), events, lambda: _record(_A))
    step(runner)
    _expect(database, events=events, queued=0, runs=1, consumed=1)
    spent = Spent()
    _repeat(spent, events, lambda: _record(_A))
    _repeat(spent, 1, lambda: step(runner))
    _expect(database, events=2 * events, queued=0, runs=2, consumed=1 + events)
    _expect(database, most_of_a_run=events)
    return [spent.divided(SHARE, events)]


def measure_waiting(database: Database, consumers: int) -> list[Cost]:
    """Let the scheduler look at consumers of A and B, first with neither and then with A."""
    database.renew()
    register([_consumer(number, _A & _B, max_runs=2) for number in range(consumers)])
    runner = scheduler()
    idle, waiting = Spent(), Spent()
    step(runner)
    _repeat(idle, _PASSES, lambda: step(runner))
    _expect(database, events=0, queued=0, runs=0)
    _record(_A)
    step(runner)
    _repeat(waiting, _PASSES, lambda: step(runner))
    _expect(database, events=1, queued=consumers, runs=0, consumed=0)
    _finish_waiting(database, runner, consumers)
    return [
        waiting.divided(WAIT, consumers * _PASSES),
        idle.divided(IDLE, _PASSES),
    ]


def _finish_waiting(database: Database, runner: Any, consumers: int) -> None:
    """Show that the consumers did wait, and for nothing but B."""
    _record(_B)
    _expect(database, events=2, queued=2 * consumers, runs=0)
    for _ in range(consumers):  # more than enough: a step is for several DAGs
        if database.count_runs() < consumers:
            step(runner)
    _expect(database, queued=0, runs=consumers, consumed=2 * consumers, most_of_a_run=2)


def _repeat(spent: Spent, times: int, work: Callable[[], None]) -> None:
    with spent.counted():
        for _ in range(times):
            work()


def _record(asset: Any) -> None:
    """Record an event as the API server does when it has read the request."""
    key = SerializedAssetUniqueKey(name=asset.name, uri=asset.uri)
    with create_session() as session:
        asset_manager.register_asset_change(
            asset=key, extra=_EXTRA, source_is_api=True, session=session
        )


def _consumer(number: int, schedule: Any, *, max_runs: int) -> Any:
    dag = DAG(
        f"consumer_{number}",
        schedule=schedule,
        max_active_runs=max_runs,
        is_paused_upon_creation=False,
    )
    EmptyOperator(task_id="only", dag=dag)
    return dag


def _expect(database: Database, **wanted: int) -> None:
    found = {name: database.count(_TABLES[name]) for name in wanted}
    if found != wanted:
        raise RuntimeError(f"Airflow has {found}, and {wanted} is expected")
