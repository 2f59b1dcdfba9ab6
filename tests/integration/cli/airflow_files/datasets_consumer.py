import pendulum
from airflow.datasets import Dataset
from airflow.decorators import dag, task

a, b = Dataset("s3://lake/a"), Dataset("s3://lake/b")


@dag(schedule=[a, b], start_date=pendulum.datetime(2023, 1, 1))
def datasets_consumer():
    @task(outlets=[Dataset("s3://lake/c")])
    def build():
        print("built")

    build()


datasets_consumer()
