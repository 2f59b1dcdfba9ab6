from airflow import DAG
from airflow.operators.dummy import DummyOperator
from datetime import datetime

with DAG("bom_crlf", schedule_interval="@daily", start_date=datetime(2024, 1, 1)) as dag:
	DummyOperator(task_id="a")
