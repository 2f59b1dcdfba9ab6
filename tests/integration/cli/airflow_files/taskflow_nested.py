from airflow.sdk import dag, task


@task
def numbers(n: int = 3) -> list[int]:
    return list(range(n))


@task(retries=2)
def add(items, more=0):
    return sum(items) + more


@task
def show(value):
    print(value)


@dag(schedule="@daily")
def taskflow_nested():
    show(add(numbers(5), more=1))


taskflow_nested()
