from datetime import datetime

from airflow import models
from airflow.operators import empty

with models.DAG("daily_by_default", start_date=datetime(2024, 1, 1)):
    empty.EmptyOperator(task_id="a")

with models.DAG("no_start_date", schedule_interval="@daily"):
    empty.EmptyOperator(task_id="a")
