from airflow.decorators import dag, task, task_group


@dag(schedule_interval="@daily")
def grouped():
    @task
    def one():
        return 1

    @task_group
    def group():
        one()

    group()


grouped()
