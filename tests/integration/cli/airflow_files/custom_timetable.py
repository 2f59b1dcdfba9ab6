import pendulum
from airflow import DAG
from airflow.operators.empty import EmptyOperator
from workday import AfterWorkday

with DAG(
    dag_id="custom_timetable",
    start_date=pendulum.datetime(2024, 3, 10, tz="UTC"),
    timetable=AfterWorkday(),
    tags=["example", "timetable"],
):
    EmptyOperator(task_id="run_this")
