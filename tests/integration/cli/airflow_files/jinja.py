from datetime import datetime

from airflow import DAG
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

with DAG("jinja", schedule_interval="@daily", start_date=datetime(2024, 1, 1), user_defined_macros={"x": 1}):
    first = SparkSubmitOperator(
        task_id="first",
        application="jobs/count.py",
        application_args=["{{ ds }}", "{{ prev_ds }}", "{{ tomorrow_ds_nodash }}", "{{ params.x | default(1) }}"],
    )
    SparkSubmitOperator(
        task_id="second",
        application="s3://code/second.py",
        application_args=[
            "--from={{ data_interval_start | ds }}",
            "--rows={{ ti.xcom_pull(task_ids='first', key='rows') }}",
            "--var={{ var.value.root }}",
            "--json={{ var.json.config.x }}",
            "--conn={{ conn.warehouse.host }}",
            "--random={{ macros.random() }}",
            "--conf={{ dag_run.conf['day'] }}",
            "{% for n in range(3) %}{{ n }}{% endfor %}",
            "--week={{ macros.ds_format(ds, '%Y-%m-%d', '%V') }}",
            "--iso={{ execution_date.isoformat() }}",
        ],
    ).set_upstream(first)
