from airflow.sdk import DAG, TaskGroup, task


@task
def make():
    return {"n": 1}


@task
def use(n):
    print(n)


with DAG("taskflow_in_group", schedule="0 0 1 * *"):
    with TaskGroup("g"):
        made = make()
        use(made["n"])
