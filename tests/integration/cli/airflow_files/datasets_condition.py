import pendulum
from airflow.datasets import Dataset, DatasetAlias
from airflow.models.dag import DAG
from airflow.operators.empty import EmptyOperator
from airflow.timetables.datasets import DatasetOrTimeSchedule
from airflow.timetables.trigger import CronTriggerTimetable

one = Dataset("s3://bucket/one")
two = Dataset("s3://bucket/two")

with DAG(
    dag_id="datasets_condition",
    start_date=pendulum.datetime(2024, 1, 1),
    schedule=DatasetOrTimeSchedule(
        timetable=CronTriggerTimetable("0 1 * * 3", timezone="UTC"), datasets=(one & two)
    ),
    catchup=False,
):
    EmptyOperator(task_id="empty", outlets=[DatasetAlias("anything")])

with DAG("datasets_or", start_date=pendulum.datetime(2024, 1, 1), schedule=(one | two)):
    EmptyOperator(task_id="empty")
