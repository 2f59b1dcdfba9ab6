"""Hourly orders, and the revenue that is built whenever orders and exchange rates are fresh."""

from datetime import timedelta

import pendulum

from lamplighter import DAG, Asset, SparkTask

orders = Asset("orders", "s3://lake/orders")
fx = Asset("fx", "s3://lake/fx")

with DAG(
    "orders_hourly",
    schedule="0 * * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="Europe/Zurich"),
    max_active_runs=4,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
):
    load = SparkTask(
        "load",
        entry_point="jobs/load_orders.py",
        arguments=["--from", "{{ data_interval_start }}", "--to", "{{ data_interval_end }}"],
    )
    clean = SparkTask("clean", job="jobs.orders:clean", outlets=[orders])
    load >> clean

with DAG("revenue", schedule=orders & fx):
    SparkTask("revenue", job="jobs.revenue:build")
