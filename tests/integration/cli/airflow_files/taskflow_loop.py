from airflow.sdk import DAG, task


@task
def work(n):
    print(n)


with DAG("taskflow_loop", schedule=None):
    for n in range(3):
        work(n)
