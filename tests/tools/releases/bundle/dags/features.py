"""DAGs that use everything a document can hold. They are paused: only their form matters."""

from datetime import timedelta

import pendulum

from lamplighter import DAG, Asset, Dataset, Param, PythonTask, SparkTask, StepFunctionsTask
from lamplighter.timetables.events import EventsTimetable
from lamplighter.timetables.interval import CronDataIntervalTimetable
from lamplighter.timetables.trigger import (
    CronPartitionTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)

START = pendulum.datetime(2026, 1, 1, tz="Europe/Zurich")
SCHEDULES = {
    "once": "@once",
    "delta": timedelta(hours=6),
    "cron": CronDataIntervalTimetable("15 3 * * 1-5", timezone="America/New_York"),
    "delta_trigger": DeltaTriggerTimetable(timedelta(hours=5), interval=timedelta(hours=1)),
    "crons": MultipleCronTriggerTimetable("0 6 * * *", "30 16 * * 1-5", timezone="Asia/Tokyo"),
    "partitions": CronPartitionTimetable("0 2 * * *", timezone="UTC", run_offset=-1),
    "events": EventsTimetable([START.add(days=3), START.add(days=40)], description="two days"),
    "any_asset": Asset("a") | (Asset("b") & Dataset("s3://lake/c")),
}

for name, schedule in SCHEDULES.items():
    with DAG(f"feature_{name}", schedule=schedule, start_date=START, is_paused_upon_creation=True):
        PythonTask("report", job="jobs.work:report")

with DAG(
    "feature_options",
    schedule="0 5 * * *",
    start_date=START,
    end_date=START.add(years=20),
    catchup=False,
    max_active_runs=7,
    max_active_tasks=3,
    dagrun_timeout=timedelta(hours=20),
    max_consecutive_failed_dag_runs=4,
    params={"table": "orders", "days": Param([], "days to load", type="array")},
    tags=["shop", "nightly"],
    owner="data",
    description="All options of a DAG and of its tasks",
    doc_md="# All of them",
    is_paused_upon_creation=True,
    allowed_run_types=["scheduled", "manual"],
    allow_cycle=True,
):
    common = {
        "retries": 3,
        "retry_delay": timedelta(minutes=2),
        "retry_exponential_backoff": 1.5,
        "max_retry_delay": timedelta(hours=1),
        "execution_timeout": timedelta(minutes=9),
        "trigger_rule": "all_done",
        "depends_on_past": True,
        "start_date": START.add(days=1),
        "end_date": START.add(years=19),
        "priority_weight": 9,
        "pool": "lake",
        "pool_slots": 2,
    }
    spark = SparkTask(
        "spark",
        entry_point="jobs/load.py",
        arguments=["{{ ds }}"],
        spark_conf={"spark.sql.shuffle.partitions": "8"},
        py_files=["s3://lake/more.py"],
        archives=["s3://lake/env.tar.gz#env"],
        restrict_data=True,
        driver_cores=2,
        driver_memory="6g",
        executor_cores=2,
        executor_memory="6g",
        max_executors=4,
        inlets=[Asset("raw", "s3://lake/raw")],
        outlets=[Asset("clean", "s3://lake/clean")],
        **common,
    )
    python = PythonTask(
        "python",
        job="jobs.work:report",
        arguments=["{{ outputs.spark.rows | default(0) }}"],
        inputs=[spark],
        inlets=[Asset("clean", "s3://lake/clean")],
        outlets=[Asset("report")],
        **common,
    )
    machine = StepFunctionsTask(
        "machine",
        state_machine="export",
        input={"table": "{{ params.table }}", "deep": [{"day": "{{ ds }}"}]},
        inlets=[Asset("report")],
        outlets=[Asset("exported")],
        **common,
    )
    # `inputs` of a Spark task too, of one that is not in a template.
    last = SparkTask("last", job="jobs.work:build", inputs=[python])
    spark >> python >> machine >> last
