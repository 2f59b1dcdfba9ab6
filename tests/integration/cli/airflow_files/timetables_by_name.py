from datetime import timedelta

import pendulum
from airflow.sdk import (
    DAG,
    CronDataIntervalTimetable,
    CronTriggerTimetable,
    DeltaDataIntervalTimetable,
    MultipleCronTriggerTimetable,
)
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.timetables.events import EventsTimetable

START = pendulum.datetime(2025, 10, 20, tz="Europe/Zurich")

with DAG("by_name_interval", schedule=CronDataIntervalTimetable("0 2 * * *", "Europe/Zurich"), start_date=START):
    EmptyOperator(task_id="a")
with DAG("by_name_trigger", schedule=CronTriggerTimetable("30 2 * * *", timezone="Europe/Zurich", interval=timedelta(days=1)), start_date=START, catchup=True):
    EmptyOperator(task_id="a")
with DAG("by_name_delta", schedule=DeltaDataIntervalTimetable(timedelta(hours=8)), start_date=START):
    EmptyOperator(task_id="a")
with DAG("by_name_many", schedule=MultipleCronTriggerTimetable("0 6 * * *", "30 16 * * *", timezone="UTC"), start_date=START):
    EmptyOperator(task_id="a")
with DAG("by_name_events", schedule=EventsTimetable(event_dates=[pendulum.datetime(2030, 1, 1, tz="UTC"), pendulum.datetime(2030, 2, 3, tz="UTC")]), start_date=START):
    EmptyOperator(task_id="a")
