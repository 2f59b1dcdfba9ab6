from airflow.sdk import DAG, task
from airflow.providers.standard.operators.empty import EmptyOperator


@task.branch
def choose():
    return "left"


@task.short_circuit
def is_due():
    return False


with DAG("taskflow_branch", schedule="@weekly"):
    left = EmptyOperator(task_id="left")
    right = EmptyOperator(task_id="right")
    join = EmptyOperator(task_id="join", trigger_rule="none_failed_min_one_success")
    is_due() >> choose() >> [left, right] >> join
