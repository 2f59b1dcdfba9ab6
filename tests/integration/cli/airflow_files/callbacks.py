from datetime import datetime, timedelta

from airflow import DAG
from airflow.operators.python import PythonOperator
from airflow.providers.slack.hooks.slack_webhook import SlackWebhookHook


def tell(context):
    SlackWebhookHook(slack_webhook_conn_id="slack").send(text=str(context["exception"]))


def work():
    print("work")


with DAG(
    "callbacks",
    start_date=datetime(2024, 1, 1),
    schedule_interval="@daily",
    on_failure_callback=tell,
    sla_miss_callback=tell,
    default_view="graph",
    default_args={"on_retry_callback": tell, "sla": timedelta(hours=1), "wait_for_downstream": True},
) as dag:
    PythonOperator(task_id="work", python_callable=work, on_success_callback=tell, sla=timedelta(hours=2), pool="db", priority_weight=3, weight_rule="upstream", queue="big")
