from datetime import datetime

from airflow import DAG
from airflow.operators.empty import EmptyOperator
from airflow.utils.trigger_rule import TriggerRule

with DAG("trigger_rules", start_date=datetime(2024, 1, 1), schedule_interval="@weekly") as dag:
    one = EmptyOperator(task_id="one", depends_on_past=True, wait_for_downstream=True)
    two = EmptyOperator(task_id="two", trigger_rule=TriggerRule.ONE_FAILED)
    three = EmptyOperator(task_id="three", trigger_rule="dummy", pool="p", pool_slots=2)
    one >> two >> three
