import os
from datetime import datetime, timedelta

import pendulum
from airflow.sdk import DAG, chain
from airflow.providers.standard.operators.empty import EmptyOperator

SCHEDULE = os.environ.get("CRON", "@daily")

with DAG("dynamic_dates", schedule=SCHEDULE, start_date=pendulum.today("UTC").add(days=-3)):
    chain(EmptyOperator(task_id="a"), [EmptyOperator(task_id="b"), EmptyOperator(task_id="c")], EmptyOperator(task_id="d"))
