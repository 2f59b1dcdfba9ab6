from airflow.sdk import dag, task
from airflow.providers.standard.operators.bash import BashOperator


@dag(schedule=None)
def taskflow_mapping():
    @task
    def files():
        return ["a.csv", "b.csv"]

    @task
    def size(path, unit="kb"):
        return len(path)

    @task
    def total(sizes):
        print(sum(sizes))

    sizes = size.partial(unit="mb").expand(path=files())
    total(sizes)
    size.expand_kwargs([{"path": "x"}])
    BashOperator.partial(task_id="echo").expand(bash_command=["echo 1", "echo 2"])


taskflow_mapping()
