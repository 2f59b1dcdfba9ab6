from datetime import datetime

from airflow.decorators import task
from airflow import DAG

CONFIG = {"orders": "@daily", "items": "@hourly"}

for name, every in CONFIG.items():
    with DAG(f"load_{name}", schedule_interval=every, start_date=datetime(2024, 1, 1)) as dag:

        @task
        def load():
            print("load")

        load()
    globals()[f"load_{name}"] = dag
