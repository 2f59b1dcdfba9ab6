from datetime import datetime

from airflow import DAG
from airflow.hooks.base import BaseHook
from airflow.models import Variable
from airflow.operators.python import PythonOperator


def read():
    root = Variable.get("root")
    return root + Variable.get("suffix", default_var="/x")


def connect():
    return BaseHook.get_connection("db").host


def settings():
    return Variable.get("settings", deserialize_json=True)


with DAG("variables", start_date=datetime(2024, 1, 1), schedule_interval=None) as dag:
    PythonOperator(task_id="read", python_callable=read)
    PythonOperator(task_id="connect", python_callable=connect)
    PythonOperator(task_id="settings", python_callable=settings)
