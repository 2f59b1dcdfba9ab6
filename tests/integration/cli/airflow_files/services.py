from datetime import datetime

from airflow import DAG
from airflow.providers.amazon.aws.operators.athena import AthenaOperator
from airflow.providers.amazon.aws.operators.batch import BatchOperator
from airflow.providers.amazon.aws.operators.ecs import EcsRunTaskOperator
from airflow.providers.amazon.aws.operators.eks import EksPodOperator
from airflow.providers.amazon.aws.operators.glue import GlueJobOperator
from airflow.providers.amazon.aws.operators.glue_crawler import GlueCrawlerOperator
from airflow.providers.amazon.aws.operators.lambda_function import LambdaInvokeFunctionOperator
from airflow.providers.amazon.aws.operators.redshift_data import RedshiftDataOperator
from airflow.providers.amazon.aws.operators.sagemaker import SageMakerTrainingOperator
from airflow.providers.amazon.aws.operators.step_function import StepFunctionStartExecutionOperator

with DAG("services", schedule="@daily", start_date=datetime(2025, 1, 1), catchup=False):
    (
        GlueJobOperator(task_id="glue", job_name="orders", script_args={"--day": "{{ ds }}"})
        >> GlueCrawlerOperator(task_id="crawl", config={"Name": "orders"})
        >> AthenaOperator(task_id="athena", query="SELECT 1 WHERE d = '{{ ds }}'", database="x", output_location="s3://x/")
        >> BatchOperator(task_id="batch", job_name="b", job_definition="d", job_queue="q", container_overrides={"command": ["run", "{{ ds }}"]})
        >> EcsRunTaskOperator(task_id="ecs", cluster="c", task_definition="t", launch_type="FARGATE", overrides={})
        >> RedshiftDataOperator(task_id="redshift", sql="VACUUM", database="dev", workgroup_name="w")
        >> LambdaInvokeFunctionOperator(task_id="lambda", function_name="f", payload='{"day": "{{ ds }}"}')
        >> SageMakerTrainingOperator(task_id="train", config={"TrainingJobName": "x-{{ ds_nodash }}"})
        >> EksPodOperator(task_id="pod", cluster_name="c", namespace="n", pod_name="p", image="i")
        >> StepFunctionStartExecutionOperator(task_id="states", state_machine_arn="arn:aws:states:us-east-1:123456789012:stateMachine:export", state_machine_input={"day": "{{ ds }}"})
    )
