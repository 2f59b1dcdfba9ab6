from datetime import datetime

from airflow import DAG
from airflow.models import BaseOperator
from airflow.providers.snowflake.operators.snowflake import SnowflakeOperator
from airflow.providers.http.operators.http import HttpOperator


class Greet(BaseOperator):
    template_fields = ("name",)

    def __init__(self, name, **kwargs):
        super().__init__(**kwargs)
        self.name = name

    def execute(self, context):
        print("hello", self.name)


with DAG("operators_unknown", start_date=datetime(2024, 1, 1), schedule_interval="@daily") as dag:
    Greet(task_id="greet", name="{{ ds }}") >> SnowflakeOperator(task_id="snow", sql="SELECT 1") >> HttpOperator(task_id="call", endpoint="/x")
