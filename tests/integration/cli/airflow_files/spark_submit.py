import os
from datetime import timedelta

import pendulum
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

CONF = {
    "spark.sql.shuffle.partitions": 200,
    "spark.dynamicAllocation.maxExecutors": "8",
    "spark.hadoop.fs.s3a.secret.key": "nope",
    "spark.speculation": True,
}
ENV = os.environ.get("STAGE", "dev")

with DAG("spark_submit", schedule="0 5 * * *", start_date=pendulum.datetime(2025, 1, 1, tz="America/New_York")):
    SparkSubmitOperator(
        task_id="aggregate",
        conn_id="spark_default",
        application="/opt/jobs/aggregate.py",
        conf=CONF,
        executor_cores=2,
        executor_memory="6g",
        driver_memory="2G",
        num_executors=3,
        py_files="s3://code/lib.zip,s3://code/more.zip",
        packages="org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.6.0",
        application_args=["--env", ENV, "--day", "{{ ds }}", 3, f"--x={ENV}"],
        execution_timeout=timedelta(hours=1),
        verbose=True,
    )
    SparkSubmitOperator(task_id="scala", application="s3://code/x.jar", java_class="com.example.Main")
