from datetime import datetime, timedelta

import pendulum
from airflow.sdk import DAG
from airflow.providers.standard.operators.empty import EmptyOperator

ZURICH = pendulum.timezone("Europe/Zurich")
NIGHTLY = "30 2 * * *"

with DAG("v3_cron", schedule=NIGHTLY, start_date=datetime(2025, 1, 1, tzinfo=ZURICH)):
    EmptyOperator(task_id="a")
with DAG("v3_preset", schedule="@monthly"):
    EmptyOperator(task_id="a")
with DAG("v3_delta", schedule=timedelta(minutes=30), start_date=datetime(2025, 1, 1), catchup=True):
    EmptyOperator(task_id="a")
with DAG("v3_once", schedule="@once", start_date=datetime(2025, 1, 1)):
    EmptyOperator(task_id="a")
with DAG("v3_continuous", schedule="@continuous", start_date=datetime(2025, 1, 1), max_active_runs=1):
    EmptyOperator(task_id="a")
with DAG("v3_none"):
    EmptyOperator(task_id="a")
with DAG("v3_ended", schedule="@daily", start_date=datetime(2025, 1, 1), end_date=datetime(2025, 2, 1)):
    EmptyOperator(task_id="a")
