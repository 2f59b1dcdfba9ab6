from datetime import datetime

from airflow import DAG
from airflow.models import Variable
from airflow.operators.bash import BashOperator

TABLES = Variable.get("tables", deserialize_json=True)

with DAG("variables_at_top", start_date=datetime(2024, 1, 1), schedule_interval="@daily"):
    for table in TABLES:
        BashOperator(task_id=table, bash_command="echo")
