"""Three tasks in a row, as people wrote them for Airflow 2."""

import logging
from datetime import datetime, timedelta

from airflow import DAG
from airflow.operators.empty import EmptyOperator
from airflow.operators.python import PythonOperator

log = logging.getLogger(__name__)
TABLE = "orders"


def extract(ds, **_):
    log.info("day %s of %s", ds, TABLE)
    return {"rows": 12}


def report(ti):
    rows = ti.xcom_pull(task_ids="extract")["rows"]
    ti.xcom_push(key="doubled", value=rows * 2)


with DAG(
    dag_id="classic_v2",
    description="Counts orders",
    schedule_interval=timedelta(hours=6),
    start_date=datetime(2025, 1, 1),
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=2),
    default_args={"retries": 3, "retry_exponential_backoff": True},
    tags=["orders"],
) as dag:
    start = EmptyOperator(task_id="start")
    first = PythonOperator(task_id="extract", python_callable=extract)
    second = PythonOperator(
        task_id="report",
        python_callable=report,
        trigger_rule="all_success",
        doc_md="Tells how many.",
    )

    start >> first >> second  # in this order
