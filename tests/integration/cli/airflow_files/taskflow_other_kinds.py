from airflow.decorators import dag, task, task_group


@dag(schedule_interval=None)
def taskflow_other_kinds():
    @task.virtualenv(requirements=["pandas"])
    def frame():
        import pandas

        return len(pandas.DataFrame())

    @task.docker(image="python:3.12")
    def inside():
        return 1

    @task.bash
    def shell():
        return "echo hi"

    @task.sensor(poke_interval=60)
    def arrived():
        return True

    arrived() >> frame() >> inside() >> shell()


taskflow_other_kinds()
