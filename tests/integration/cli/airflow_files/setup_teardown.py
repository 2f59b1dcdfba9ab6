from airflow.sdk import DAG, setup, task, teardown
from airflow.providers.standard.operators.empty import EmptyOperator

with DAG("setup_teardown", schedule=None):
    up = EmptyOperator(task_id="up").as_setup()
    work = EmptyOperator(task_id="work")
    down = EmptyOperator(task_id="down").as_teardown(setups=up)
    up >> work >> down
