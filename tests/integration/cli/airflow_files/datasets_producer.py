from datetime import datetime

from airflow import DAG, Dataset
from airflow.operators.bash import BashOperator

raw = Dataset("s3://lake/raw/orders", extra={"team": "data"})

with DAG("datasets_producer", schedule="@daily", start_date=datetime(2023, 6, 1), catchup=True):
    BashOperator(task_id="produce", bash_command="echo produced", outlets=[raw])
