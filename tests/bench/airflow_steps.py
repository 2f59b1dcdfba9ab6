"""Lets Airflow's own scheduler execute runs of one task, and measures it.

It runs under the interpreter that has Airflow and prints one JSON object, on the last line.

Owns: what is timed, which is the scheduler's part only: its loop starts the runs and queues their
tasks, and in later passes finds that they are over. That a worker runs a task, and reports to the
API server, is replaced by one UPDATE that is not timed, which speaks for Airflow.
"""

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.airflow_home import temporary_home
from tests.bench.costs import EXECUTE, Cost

_ROUNDS = 3
_MANY = "10000"
_SETTINGS = {
    "AIRFLOW__CORE__PARALLELISM": _MANY,
    "AIRFLOW__CORE__DEFAULT_POOL_TASK_SLOT_COUNT": _MANY,
    "AIRFLOW__SCHEDULER__MAX_TIS_PER_QUERY": "0",
}
_OVER = "SELECT count(*) FROM dag_run WHERE state = 'success'"
_QUEUED = "SELECT count(*) FROM task_instance WHERE state = 'queued'"


def measure(database: Any, runs: int) -> Cost:
    """Let so many runs of one task begin and end in an empty database."""
    from airflow.providers.standard.operators.bash import BashOperator  # noqa: PLC0415 - settings
    from airflow.sdk import DAG, CronDataIntervalTimetable  # noqa: PLC0415 - as above

    from tests.bench.airflow_database import METER  # noqa: PLC0415 - as above
    from tests.bench.airflow_instance import register, scheduler, step  # noqa: PLC0415 - as above

    database.renew()
    dags = []
    for number in range(runs):
        dag = DAG(
            f"dag_{number}",
            schedule=CronDataIntervalTimetable("0 0 * * *", timezone="UTC"),
            start_date=_yesterday(),
            catchup=True,
            is_paused_upon_creation=False,
        )
        BashOperator(task_id="only", bash_command="true", dag=dag)
        dags.append(dag)
    register(dags)
    runner = scheduler()
    while database.count_runs() < runs:
        step(runner)
    METER.reset()
    cpu = elapsed = 0.0
    for query in (_QUEUED, _OVER):
        before = -1
        while (done := database.count(query)) < runs:
            if done == before:
                raise RuntimeError(f"Airflow stopped at {done} of {runs}: {query}")
            before = done
            cpu_before, started_at = time.process_time(), time.perf_counter()
            _pass(runner)
            cpu += time.process_time() - cpu_before
            elapsed += time.perf_counter() - started_at
        _let_tasks_succeed()
    return Cost(
        name=EXECUTE,
        count=runs,
        cpu=cpu / runs,
        database_cpu=METER.seconds / runs,
        elapsed=elapsed / runs,
        requests={verb: count / runs for verb, count in sorted(METER.statements.items())},
    )


def _yesterday() -> Any:
    import pendulum  # noqa: PLC0415 - of the same interpreter as Airflow

    return pendulum.today("UTC").subtract(days=1)


def _pass(runner: Any) -> None:
    from airflow.utils.session import create_session  # noqa: PLC0415 - settings

    with create_session() as session:
        runner._do_scheduling(session)


def _let_tasks_succeed() -> None:
    from airflow.utils.session import create_session  # noqa: PLC0415 - settings
    from sqlalchemy import text  # noqa: PLC0415 - as above

    with create_session() as session:
        session.execute(text("UPDATE task_instance SET state = 'success' WHERE state = 'queued'"))


def main() -> None:
    """Measure in a home that is thrown away."""
    runs = int(sys.argv[1])
    with temporary_home(**_SETTINGS) as home:
        from tests.bench import airflow_instance  # noqa: PLC0415 - Airflow reads its settings now

        database = airflow_instance.Database(home)
        rounds = [measure(database, runs) for _ in range(_ROUNDS)]
        print(json.dumps(asdict(min(rounds, key=lambda cost: cost.own_cpu))))


if __name__ == "__main__":
    main()
