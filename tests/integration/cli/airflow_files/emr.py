from datetime import datetime

from airflow import DAG
from airflow.providers.amazon.aws.operators.emr import (
    EmrAddStepsOperator,
    EmrCreateJobFlowOperator,
    EmrServerlessStartJobOperator,
    EmrTerminateJobFlowOperator,
)
from airflow.providers.amazon.aws.sensors.emr import EmrStepSensor

STEPS = [
    {
        "Name": "count",
        "ActionOnFailure": "CONTINUE",
        "HadoopJarStep": {
            "Jar": "command-runner.jar",
            "Args": ["spark-submit", "--deploy-mode", "cluster", "s3://code/count.py", "{{ ds }}"],
        },
    }
]
DRIVER = {
    "sparkSubmit": {
        "entryPoint": "s3://code/orders.py",
        "entryPointArguments": ["--day", "{{ ds }}"],
        "sparkSubmitParameters": "--conf spark.executor.memory=4g --conf spark.executor.cores=2",
    }
}

with DAG("emr", schedule_interval="@daily", start_date=datetime(2024, 1, 1)) as dag:
    cluster = EmrCreateJobFlowOperator(task_id="cluster", job_flow_overrides={"Name": "x"})
    steps = EmrAddStepsOperator(task_id="steps", job_flow_id=cluster.output, steps=STEPS)
    wait = EmrStepSensor(task_id="wait", job_flow_id=cluster.output, step_id="{{ x }}")
    stop = EmrTerminateJobFlowOperator(task_id="stop", job_flow_id=cluster.output, trigger_rule="all_done")
    serverless = EmrServerlessStartJobOperator(
        task_id="serverless",
        application_id="00f1",
        execution_role_arn="arn:aws:iam::123456789012:role/jobs",
        job_driver=DRIVER,
        configuration_overrides={"monitoringConfiguration": {}},
    )
    cluster >> steps >> wait >> stop
    steps >> serverless
