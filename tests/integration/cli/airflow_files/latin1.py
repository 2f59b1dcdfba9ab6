# -*- coding: latin-1 -*-
# café
from airflow import DAG
from airflow.operators.dummy import DummyOperator
from datetime import datetime

with DAG("latin1", description="café", schedule_interval="@daily", start_date=datetime(2024, 1, 1)) as dag:
    DummyOperator(task_id="a")
