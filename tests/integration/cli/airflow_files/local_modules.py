from datetime import datetime

import pandas as pd
from airflow import DAG
from airflow.operators.python import PythonOperator
from helpers.text import shout


def run():
    print(shout("x"), pd.DataFrame())


with DAG("local_modules", start_date=datetime(2024, 1, 1), schedule_interval="@daily") as dag:
    PythonOperator(task_id="run", python_callable=run)
    PythonOperator(task_id="imported", python_callable=shout, op_args=["y"])
