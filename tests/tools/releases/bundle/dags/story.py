"""DAGs of all kinds, with runs under way at the instant that is stored."""

from datetime import timedelta

import pendulum
from timetables.odd_days import OddDaysTimetable

from lamplighter import (
    DAG,
    Asset,
    AssetAlias,
    AssetWatcher,
    Param,
    PythonTask,
    SparkTask,
    StepFunctionsTask,
    TaskGroup,
)
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.trigger import CronTriggerTimetable
from lamplighter.triggers import EventBridgeTrigger, S3PrefixTrigger, SqsTrigger

START = pendulum.datetime(2026, 1, 5, tz="UTC")
RETRIES = {"retries": 2, "retry_delay": timedelta(minutes=5)}

orders = Asset("orders", "s3://lake/orders", extra={"owner": "shop"})
fx = Asset("fx", "s3://lake/fx", group="rates")
files = AssetAlias("files")
sales = Asset(
    "sales",
    watchers=[
        AssetWatcher("web", SqsTrigger("web-orders")),
        AssetWatcher("tills", EventBridgeTrigger({"source": ["shop.till"]})),
        AssetWatcher("files", S3PrefixTrigger("landing", "sales/")),
    ],
)

with DAG("hourly", schedule="0 * * * *", start_date=START, default_args=RETRIES):
    load = SparkTask(
        "load",
        entry_point="jobs/load.py",
        arguments=["--from", "{{ data_interval_start }}", "--root", "{{ var.value.data_root }}"],
        pool="lake",
        pool_slots=2,
        priority_weight=5,
    )
    clean = SparkTask("clean", job="jobs.work:clean", outlets=[orders, files])
    load >> clean

with DAG(
    "kinds",
    schedule=None,
    start_date=START,
    params={"rows": Param(3, "how many", type="integer", minimum=1)},
    default_args={"retries": 1, "retry_delay": timedelta(minutes=20)},
    max_active_runs=2,
):
    extract = SparkTask("extract", job="jobs.work:extract")
    with TaskGroup("checks"):
        check = PythonTask("check", job="jobs.work:check", inputs=[extract], outlets=[fx])
        export = StepFunctionsTask(
            "export", state_machine="export", input={"rows": "{{ params.rows }}"}
        )
    extract >> [check, export]

with DAG("odd_days", schedule=OddDaysTimetable(), start_date=START.subtract(days=6)):
    PythonTask("report", job="jobs.work:report")

with DAG("revenue", schedule=orders & fx, max_active_runs=1):
    SparkTask("build", job="jobs.work:build", inlets=[orders, fx])

with DAG(
    "either",
    schedule=AssetOrTimeSchedule(
        timetable=CronTriggerTimetable("30 7 * * *", timezone="Europe/Zurich"),
        assets=Asset.ref(uri="s3://lake/orders") | files,
    ),
    start_date=START,
):
    PythonTask("report", job="jobs.work:report")

with DAG("sold", schedule=sales):
    PythonTask("report", job="jobs.work:report")

with DAG("chained", schedule="@hourly", start_date=START, default_args={"depends_on_past": True}):
    SparkTask("step", job="jobs.work:build", execution_timeout=timedelta(hours=3))

# Its jobs last longer than its interval: when its schedule is edited, the old one still owes runs.
with DAG("edited", schedule="0 * * * *", start_date=START, max_active_runs=1):
    SparkTask("step", job="jobs.work:build")

with DAG("again", schedule="@continuous", start_date=START, max_active_runs=1):
    SparkTask("step", job="jobs.work:build")

with DAG("daily", schedule="@daily", start_date=START.subtract(days=9), catchup=False):
    SparkTask("step", job="jobs.work:build")
