"""Lets Airflow's own scheduler create the runs that are due, and measures each step.

Owns: what is timed, which is one call of the scheduler's creation step at a time, in a session and
a transaction as in its loop; nothing that comes before or after it there. Airflow reads its
settings when it is imported, so `airflow_scheduler.py` imports this module once they are made.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, CronDataIntervalTimetable

from tests.bench.airflow_database import METER
from tests.bench.airflow_instance import Database, register, scheduler, step
from tests.bench.costs import Cost

_MAX_ACTIVE_RUNS = 16


def measure(database: Database, dags: int, *, due: int) -> Cost:
    """Create `due` runs of each of so many DAGs in an empty database."""
    database.renew()
    register([_dag(number, due) for number in range(dags)])
    runner = scheduler()
    METER.reset()
    cpu = elapsed = 0.0
    created = 0
    while created < dags * due:
        cpu_before, started_at = time.process_time(), time.perf_counter()
        step(runner)
        cpu += time.process_time() - cpu_before
        elapsed += time.perf_counter() - started_at
        before, created = created, database.count_runs()
        if created == before:
            raise RuntimeError(f"Airflow stopped at {created} of {dags * due} runs")
    if created > dags * due:
        raise RuntimeError(f"Airflow created {created} runs, and only {dags * due} are due")
    return Cost(
        name=f"{due} due",
        count=created,
        cpu=cpu / created,
        database_cpu=METER.seconds / created,
        elapsed=elapsed / created,
        requests={verb: count / created for verb, count in sorted(METER.statements.items())},
    )


def _dag(number: int, due: int) -> Any:
    # The last run fell due half an hour ago, so no other one does while this is measured.
    last = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=30)
    dag = DAG(
        f"dag_{number}",
        schedule=CronDataIntervalTimetable(f"{last.minute} * * * *", timezone="UTC"),
        start_date=last - timedelta(hours=due),
        catchup=True,
        max_active_runs=max(_MAX_ACTIVE_RUNS, due + 1),  # never reached
        is_paused_upon_creation=False,
    )
    EmptyOperator(task_id="only", dag=dag)
    return dag
