# Written for Airflow 1.10.
from datetime import datetime, timedelta

from airflow import DAG
from airflow.operators.bash_operator import BashOperator
from airflow.operators.dummy_operator import DummyOperator
from airflow.operators.python_operator import PythonOperator
from airflow.utils.dates import days_ago

args = {
    "owner": "data",
    "depends_on_past": True,
    "start_date": days_ago(2),
    "email": ["data@example.com"],
    "email_on_failure": True,
    "retries": 1,
    "retry_delay": timedelta(minutes=10),
}

dag = DAG("classic_v1", default_args=args, schedule_interval="0 3 * * *", concurrency=4)


def count(**kwargs):
    print(kwargs["ds"], kwargs["execution_date"])
    return 3


begin = DummyOperator(task_id="begin", dag=dag)
hello = BashOperator(task_id="hello", bash_command="echo {{ ds }}", dag=dag)
counted = PythonOperator(task_id="count", python_callable=count, provide_context=True, dag=dag)

begin.set_downstream(hello)
counted.set_upstream([begin, hello])
