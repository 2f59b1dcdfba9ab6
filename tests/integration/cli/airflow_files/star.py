from airflow import *
from airflow.models import *
from airflow.operators.python import *
from datetime import datetime


def f():
    print("x")


with DAG("star", schedule_interval="@daily", start_date=datetime(2024, 1, 1)):
    PythonOperator(task_id="f", python_callable=f)
