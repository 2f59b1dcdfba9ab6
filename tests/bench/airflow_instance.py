"""An Airflow to measure: its database, the DAGs in it, and one step of its scheduler.

Owns: how Airflow is set up and driven, which is as its own processes do it. Airflow reads its
settings when it is imported, so the programs import this module once they are made.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from airflow import settings
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.collection import update_dag_parsing_results_in_db
from airflow.executors.base_executor import BaseExecutor
from airflow.jobs.job import Job
from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
from airflow.models.dag import DagModel
from airflow.serialization.serialized_objects import LazyDeserializedDAG
from airflow.utils.db import initdb
from airflow.utils.session import create_session
from airflow.utils.sqlalchemy import prohibit_commit

DAGS_PER_STEP: int = DagModel.NUM_DAGS_PER_DAGRUN_QUERY
_BUNDLE = "dags-folder"
_RUNS = "SELECT count(*) FROM dag_run JOIN task_instance USING (dag_id, run_id)"


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
        return self.count(_RUNS)

    def count(self, query: str) -> int:
        """Return the one number of a query, asked past Airflow and the meter."""
        with closing(sqlite3.connect(self._file)) as connection:
            (number,) = connection.execute(query).fetchone()
            return int(number)

    def _close(self) -> None:
        settings.Session.remove()
        settings.engine.dispose()  # the last connection writes its journal into the file


def scheduler() -> Any:
    """Return a scheduler that has not begun its loop."""
    job = Job()
    runner = SchedulerJobRunner(job=job, executors=[BaseExecutor()])
    job.prepare_for_execution()  # as the command does; the runs refer to its row
    return runner


def step(runner: Any) -> None:
    """Create the runs of one step, in a session and a transaction as in the scheduler's loop."""
    with create_session() as session, prohibit_commit(session) as guard:
        runner._create_dagruns_for_dags(guard, session)


def register(dags: list[Any]) -> None:
    """Write the DAGs as the DAG processor does when it has parsed their files."""
    errors: dict[tuple[str, str], str] = {}
    for dag in dags:
        dag.relative_fileloc = f"{dag.dag_id}.py"
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
