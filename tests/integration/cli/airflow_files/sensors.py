from datetime import datetime, timedelta

from airflow import DAG
from airflow.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.providers.amazon.aws.sensors.s3 import S3KeySensor
from airflow.providers.amazon.aws.sensors.sqs import SqsSensor
from airflow.sensors.external_task import ExternalTaskSensor
from airflow.sensors.filesystem import FileSensor

with DAG("sensors", start_date=datetime(2024, 1, 1), schedule_interval="@daily") as dag:
    key = S3KeySensor(task_id="key", bucket_key="s3://in/{{ ds }}/done", poke_interval=60, mode="reschedule")
    queue = SqsSensor(task_id="queue", sqs_queue="q")
    other = ExternalTaskSensor(task_id="other", external_dag_id="x", execution_delta=timedelta(hours=1))
    file = FileSensor(task_id="file", filepath="/x")
    then = TriggerDagRunOperator(task_id="then", trigger_dag_id="next")
    [key, queue, other, file] >> then
