"""Lets Airflow's own scheduler create the runs that are due, and measures each step.

Owns: what is timed, which is one call of the scheduler's creation step at a time, in a session and
a transaction as in its loop; nothing that comes before or after it there. Airflow reads its
settings when it is imported, so `airflow_scheduler.py` imports this module once they are made.
"""

import shutil
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow import settings
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.collection import update_dag_parsing_results_in_db
from airflow.executors.base_executor import BaseExecutor
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.dag import DagModel
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, CronDataIntervalTimetable
from airflow.serialization.serialized_objects import LazyDeserializedDAG
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from airflow.utils.sqlalchemy import prohibit_commit

from tests.bench.airflow_database import METER
from tests.bench.creation import Creation

DAGS_PER_STEP: int = DagModel.NUM_DAGS_PER_DAGRUN_QUERY
_BUNDLE = "dags-folder"
_MAX_ACTIVE_RUNS = 16


class Database:
    """A migrated database without DAGs, which can be had anew."""

    def __init__(self, home: Path) -> None:
        self._file = home / "airflow.db"
        self._empty = home / "empty.db"
        with create_session() as session:
            initdb(session=session)
        DagBundlesManager().sync_bundles_to_db()
        self._close()
        shutil.copy(self._file, self._empty)

    def renew(self) -> None:
        """Put the empty database in the place of the used one."""
        self._close()
        shutil.copy(self._empty, self._file)

    def count_runs(self) -> int:
        """Return how many runs there are, each with its one task instance."""
        query = "SELECT count(*) FROM dag_run JOIN task_instance USING (dag_id, run_id)"
        with closing(sqlite3.connect(self._file)) as connection:
            (runs,) = connection.execute(query).fetchone()
            return int(runs)

    def _close(self) -> None:
        settings.Session.remove()
        settings.engine.dispose()  # the last connection writes its journal into the file


def measure(database: Database, dags: int, *, due: int) -> Creation:
    """Create `due` runs of each of so many DAGs in an empty database."""
    database.renew()
    _register([_dag(number, due) for number in range(dags)])
    runner = _scheduler()
    METER.reset()
    cpu = elapsed = 0.0
    created = 0
    while created < dags * due:
        cpu_before, started_at = time.process_time(), time.perf_counter()
        _step(runner)
        cpu += time.process_time() - cpu_before
        elapsed += time.perf_counter() - started_at
        before, created = created, database.count_runs()
        if created == before:
            raise RuntimeError(f"Airflow stopped at {created} of {dags * due} runs")
    if created > dags * due:
        raise RuntimeError(f"Airflow created {created} runs, and only {dags * due} are due")
    return Creation(
        due=due,
        runs=created,
        cpu=cpu / created,
        database_cpu=METER.seconds / created,
        elapsed=elapsed / created,
        requests={verb: count / created for verb, count in sorted(METER.statements.items())},
    )


def _step(runner: Any) -> None:
    with create_session() as session, prohibit_commit(session) as guard:
        runner._create_dagruns_for_dags(guard, session)


def _scheduler() -> Any:
    job = Job()
    runner = SchedulerJobRunner(job=job, executors=[BaseExecutor()])
    job.prepare_for_execution()  # as the command does; the runs refer to its row
    return runner


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
    dag.relative_fileloc = f"{dag.dag_id}.py"
    EmptyOperator(task_id="only", dag=dag)
    return dag


def _register(dags: list[Any]) -> None:
    """Write the DAGs as the DAG processor does when it has parsed their files."""
    errors: dict[tuple[str, str], str] = {}
    documents = [LazyDeserializedDAG.from_dag(dag) for dag in dags]
    with create_session() as session:
        update_dag_parsing_results_in_db(
            bundle_name=_BUNDLE,
            bundle_version=None,
            dags=documents,
            import_errors=errors,
            parse_duration=None,
            warnings=set(),
            session=session,
        )
    if errors:
        raise RuntimeError(f"Airflow refuses the DAGs: {errors}")
