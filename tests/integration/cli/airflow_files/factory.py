from datetime import datetime

from airflow import DAG
from airflow.operators.python import PythonOperator


def copy(source, target):
    print(source, target)


def make_dag(dag_id, schedule, tables):
    dag = DAG(dag_id, schedule_interval=schedule, start_date=datetime(2024, 1, 1), catchup=False)
    before = None
    for table in tables:
        at = PythonOperator(
            task_id=f"copy_{table}",
            python_callable=copy,
            op_kwargs={"source": f"raw/{table}", "target": table},
            dag=dag,
        )
        if before is not None:
            before >> at
        before = at
    return dag


first = make_dag("factory_first", "@daily", ["a", "b"])
second = make_dag("factory_second", "0 7 * * 1", ["c"])
