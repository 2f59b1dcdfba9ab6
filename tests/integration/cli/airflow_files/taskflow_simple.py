import json

import pendulum
from airflow.decorators import dag, task


@dag(schedule=None, start_date=pendulum.datetime(2021, 1, 1, tz="UTC"), catchup=False, tags=["etl"])
def taskflow_simple():
    """Prices in, total out."""

    @task()
    def extract():
        return json.loads('{"a": 301.27, "b": 433.21}')

    @task(multiple_outputs=True)
    def transform(prices: dict):
        return {"total": sum(prices.values())}

    @task
    def load(total: float):
        print(f"total: {total:.2f}")

    prices = extract()
    summary = transform(prices)
    load(summary["total"])


taskflow_simple()
