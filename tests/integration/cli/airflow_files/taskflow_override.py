from datetime import datetime

from airflow.sdk import DAG, task


@task
def copy(table, day):
    print("copy", table, day)


with DAG("taskflow_override", schedule="15 4 * * 1-5", start_date=datetime(2025, 3, 1)):
    for name in ("orders", "items"):
        copy.override(task_id=f"copy_{name}")(name, "{{ ds }}")
