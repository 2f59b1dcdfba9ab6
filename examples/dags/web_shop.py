"""A web shop's data, from raw files to a weekly report.

    orders_hourly   every hour        raw orders and refunds -> clean records by day -> `orders`
    fx_twice_a_day  06:00 and 16:30   published exchange rates                       -> `fx`
    revenue_daily   orders and fx     the days that changed, in Swiss francs         -> `revenue`
    weekly_report   revenue, or time  the best products of each country and week
    after_workday   after workdays    what was rejected, and why

The data root is one variable of the deployment, `data_root`: a folder, or s3://bucket/prefix. Raw
files for it come from `python -m jobs.shop.generate --root …`. Every job may be repeated, and runs
may come in any order: the tables depend only on the raw files and on the intervals that were run.
"""

import datetime
from datetime import timedelta

import pendulum

from lamplighter import DAG, Asset, Param, SparkTask
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.trigger import CronTriggerTimetable
from timetables.uneven_intervals import UnevenIntervalsTimetable
from timetables.workday import AfterWorkdayTimetable

START = pendulum.datetime(2026, 1, 1, tz="Europe/Zurich")
HOLIDAYS = [datetime.date(2026, 4, 3), datetime.date(2026, 4, 6)]  # Good Friday, Easter Monday
RETRIES = {"retries": 2, "retry_delay": timedelta(minutes=5)}
DAYS = Param(
    [],
    description="The days of a run that is triggered by hand, such as 2026-01-01",
    type="array",
    items={"type": "string", "format": "date"},
)

# Only names: where the data lies is a setting.
orders = Asset("orders")
fx = Asset("fx")
revenue = Asset("revenue")
weekly_report = Asset("weekly_report")

with DAG(
    "orders_hourly",
    schedule="0 * * * *",
    start_date=START,
    max_active_runs=4,
    default_args=RETRIES,
    description="Loads and cleans the orders and refunds that arrived in an hour",
):
    load = SparkTask(
        "load",
        entry_point="jobs/load_orders.py",
        arguments=[
            *("--from", "{{ data_interval_start }}"),
            *("--to", "{{ data_interval_end }}"),
            *("--root", "{{ var.value.data_root }}"),
        ],
    )
    clean = SparkTask("clean", job="jobs.orders:clean", outlets=[orders])
    load >> clean

with DAG(
    "fx_twice_a_day",
    schedule=UnevenIntervalsTimetable("Europe/Zurich"),
    start_date=START,
    default_args=RETRIES,
    description="Loads the exchange rates that were published since the last run",
):
    SparkTask("load", job="jobs.fx:load", outlets=[fx])

with DAG(
    "revenue_daily",
    schedule=orders & fx,
    start_date=START,
    # Of two runs at once, the one that has read less could write last.
    max_active_runs=1,
    default_args=RETRIES,
    params={"days": DAYS},
    description="Computes the revenue of the days that the triggering events name",
):
    SparkTask("build", job="jobs.revenue:build", inlets=[orders, fx], outlets=[revenue])

with DAG(
    "weekly_report",
    schedule=AssetOrTimeSchedule(
        timetable=CronTriggerTimetable("0 7 * * 1", timezone="Europe/Zurich"), assets=revenue
    ),
    start_date=START,
    max_active_runs=1,  # as above
    default_args=RETRIES,
    params={"days": DAYS},
    description="Reports the best products of each country, every Monday and on new revenue",
):
    SparkTask("build", job="jobs.report:build", inlets=[revenue], outlets=[weekly_report])

with DAG(
    "after_workday",
    schedule=AfterWorkdayTimetable(HOLIDAYS),
    start_date=pendulum.datetime(2026, 1, 1),
    default_args=RETRIES,
    description="Counts the records that were rejected on a workday",
):
    SparkTask("quality", job="jobs.quality:report")
